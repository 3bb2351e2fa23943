// SPDX-License-Identifier: Apache-2.0

package lrucache_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroinfra/platform-core/internal/lrucache"
)

func TestGet(t *testing.T) {
	made := 0
	var fails error
	m := lrucache.New[string, int](2)
	expect := func(key string, want int) {
		t.Helper()
		got, err := m.Get(key, func() (int, error) { made++; return made, fails })
		if got != want || !errors.Is(err, fails) {
			t.Errorf("%s: got %d, %v; want %d, %v", key, got, err, want, fails)
		}
	}
	expect("a", 1)
	expect("a", 1)
	expect("b", 2)
	expect("a", 1)
	expect("c", 3) // b was used least recently
	expect("a", 1)
	expect("b", 4)
	fails = errors.New("test")
	expect("d", 5)
	expect("d", 6)
}

func TestNothingIsKeptAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		m := lrucache.New[string, int](2)
		expect := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got, err := m.Get("a", func() (int, error) { made++; return made, nil }); got != want || err != nil {
				t.Errorf("%v later: got %d, %v; want %d", after, got, err, want)
			}
		}
		expect(0, 1)
		expect(9*time.Second, 1)
		expect(9*time.Second, 1)
		expect(11*time.Second, 2)
	})
}
