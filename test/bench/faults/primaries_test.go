// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/test/bench/faults"
)

// writesOf are writes of one second each, by words <member><group>:<epoch>@<begun>, or with +<seconds> for one that
// takes longer.
func writesOf(t *testing.T, words string) []faults.Write {
	t.Helper()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []faults.Write
	for word := range strings.FieldsSeq(words) {
		who, when, _ := strings.Cut(word, "@")
		view, number, _ := strings.Cut(who, ":")
		at, length, long := strings.Cut(when, "+")
		if !long {
			length = "1"
		}
		epoch, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		var begun, took int
		if _, err := fmt.Sscan(at+" "+length, &begun, &took); err != nil {
			t.Fatal(err)
		}
		w := faults.Write{Member: view[:1], Group: view[1:], Epoch: epoch}
		w.Begun = begin.Add(time.Duration(begun) * time.Second)
		w.Acked = w.Begun.Add(time.Duration(took) * time.Second)
		all = append(all, w)
	}
	return all
}

func TestTwoPrimaries(t *testing.T) {
	for _, tc := range []struct {
		name, writes string
		// want is how many writes show it.
		want int
	}{
		{"nobody writes", "", 0},
		{"one primary", "aG:1@1 aG:1@2 aG:3@3", 0},
		{"another one in a later view", "aG:1@1 aG:1@2 bG:2@3 bG:2@4", 0},
		{"another one within the view", "aG:1@1 bG:1@2 bG:1@3", 0},
		{"the former one again, in a later view", "aG:1@1 bG:2@2 aG:3@3", 0},
		{"a write that ends after the other began", "aG:1@1+3 bG:2@2", 0},
		{"a former one that goes on", "aG:1@1 bG:2@2 aG:1@3 aG:1@4", 2},
		{"a former one that was not seen before", "bG:2@2 aG:1@3", 1},
		{"a former one that goes on within the view", "aG:1@1 bG:1@2 aG:1@3", 1},
		{"two in turn within the view", "aG:1@1 bG:1@2 aG:1@3 bG:1@4", 2},
		{"a group that was begun anew", "aG:9@1 aG:9@2 bH:1@3 bH:2@4", 0},
		{"a group beside the one that was begun anew", "aG:9@1 bH:1@2 aG:9@3", 1},
		{"the same member in two groups", "aG:9@1 aH:1@2 aG:9@3", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := faults.TwoPrimaries(writesOf(t, tc.writes)); len(got) != tc.want {
				t.Errorf("%d writes show it, want %d:\n%s", len(got), tc.want, strings.Join(got, "\n"))
			}
		})
	}
}
