// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"slices"
	"testing"
)

// A template is refused with a sentence, or every step of it can be reached in some order.
func FuzzParseOperation(f *testing.F) {
	f.Add("name: A\nsteps:\n  - {name: a, agent: {call: Restart}}\n")
	f.Add("name: A\nsteps:\n  - {name: a, needs: [b], compensate: [c], operation: {templateRef: B}}\n  - {name: b, " +
		"needs: [], commits: x, job: {command: [\"${steps.a.phase}\"]}}\n  - {name: c, delete: {apiVersion: v1, kind: X, " +
		"name: x}}\n")
	f.Add("name: A\nparameters: {p: {schema: '=~\"(\"', default: x}}\nsteps: []\n")
	f.Fuzz(func(t *testing.T, text string) {
		template, err := Parse(text)
		switch {
		case err != nil && err.Error() == "":
			t.Error("it is refused without a word")
		case err == nil && len(template.Order()) != len(template.Steps):
			t.Errorf("%q has steps %v, in the order %v", text, template.Steps, template.Order())
		case err == nil && template.Point() != nil &&
			slices.Contains(template.Before(template.Point().Name), template.Point().Name):
			t.Error("the point of no return comes before itself")
		}
	})
}
