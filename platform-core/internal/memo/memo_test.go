// SPDX-License-Identifier: Apache-2.0

package memo_test

import (
	"errors"
	"testing"

	"github.com/zeroinfra/platform-core/internal/memo"
)

func TestOf(t *testing.T) {
	made := 0
	var fails error
	m := memo.New[string, int](2)
	expect := func(key string, want int) {
		t.Helper()
		got, err := m.Of(key, func() (int, error) { made++; return made, fails })
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
