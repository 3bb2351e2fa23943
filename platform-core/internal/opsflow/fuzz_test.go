// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"slices"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// A spec that a user gives is read, compared and changed without harm, whatever it is.
func FuzzTargetSpec(f *testing.F) {
	for _, text := range []string{"running: false", `{"components":[{"name":"a","n":1},{"name":"a"}]}`, "a: [1, x, {}]",
		"a: &x [*x]", "? b", "1: 2"} {
		f.Add(text, "components[a].storage.size")
	}
	f.Fuzz(func(t *testing.T, text, field string) {
		spec, err := ParseSpec(text)
		if err != nil {
			return
		}
		if words := Differences(spec, spec); len(words) > 0 {
			t.Errorf("%q differs from itself: %q", text, words)
		}
		before, _ := ParseSpec(text)
		if _, err := SetField(spec, field, "value"); err == nil && len(Differences(before, spec)) == 0 {
			if again, err := SetField(before, field, "value"); err != nil || again != "value" {
				t.Errorf("%q with %s: nothing is different, and it was %v, %v", text, field, again, err)
			}
		}
	})
}

// What somebody writes into the annotation of a record is read, and more is added.
func FuzzChanges(f *testing.F) {
	f.Add("5 spec.a: 1 → 2\n5 spec.b: x", "spec.c: 1 → 2")
	f.Add("nonsense\n\n-1 \x00\n9223372036854775808 a", "a\nb")
	f.Fuzz(func(t *testing.T, text, word string) {
		op := SpecOperation(&platformv1.Application{}, Change{Generation: 1})
		op.Annotations = map[string]string{platformv1.ChangesAnnotation: text}
		describeChanges(ChangesOf(op))
		Amend(op, Change{Generation: 1 << 40, Words: []string{word}})
		changes := ChangesOf(op)
		if len(changes) == 0 || changes[len(changes)-1].Generation != 1<<40 || len(changes) > maxEdits+1 {
			t.Errorf("%q with %q is read as %+v", text, word, changes)
		}
		if again := ChangesOf(op); !slices.EqualFunc(changes, again,
			func(a, b Change) bool { return a.Generation == b.Generation && slices.Equal(a.Words, b.Words) }) {
			t.Errorf("read twice: %+v, %+v", changes, again)
		}
	})
}
