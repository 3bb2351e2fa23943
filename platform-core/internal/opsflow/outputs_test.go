// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

const passing = `name: Passing
steps:
  - name: look
    retry: {limit: 1, backoff: 3s}
    wait: {apiVersion: v1, kind: ConfigMap, name: found, until: "'keys' in object",
      outputs: {keys: object.keys, names: object.names}}
    types: {keys: int, names: list}
  - name: many
    when: steps.look.outputs.keys > 9
    forEach: steps.look.outputs.names
    operation: {templateRef: Restart, parameters: {keys: "${steps.look.outputs.keys + 1}", of: "${each}"}}
`

// outputStories are those of outputs that are no texts.
var outputStories = map[string]func() *world{
	"typed-outputs": func() *world {
		w := worldOf(passing, pod(0, primary))
		w.happens("The Operation starts.", nil)
		w.happens("The object is not of the types.", func(w *world) {
			w.objects["ConfigMap found"] = map[string]any{"keys": "many", "names": []any{"a"}}
		})
		w.happens("3 s later, it is.", func(w *world) {
			w.objects["ConfigMap found"] = map[string]any{"keys": "042", "names": []any{"a", "b"}}
			wait(3 * time.Second)(w)
		})
		for _, child := range []string{"run-many-1", "run-many-2"} {
			w.happens("The child has succeeded.", func(w *world) { w.children[child].Phase = platformv1.OperationSucceeded })
		}
		return w
	},
}

// typed is a job whose output is a number, which its constraint alone does not make sure of.
const typed = `name: Typed
steps:
  - name: count
    job: {command: [count], outputs: {keys: '=~"^[0-9]+$"'}}
    types: {keys: int}
  - name: note
    apply: {apiVersion: v1, kind: ConfigMap, name: note, content: {
      metadata: {labels: {keys: "${steps.count.outputs.keys}"}}, data: {keys: "${steps.count.outputs.keys}"},
      most: "${steps.count.outputs.keys}"}}
`

func TestWhatAJobSaysIsConverted(t *testing.T) {
	said := func(keys string) *world {
		w := worldOf(typed, pod(0, primary))
		w.happens("The Operation starts.", nil)
		w.happens("It has ended.", jobEnds("run-count", platformv1.OperationSucceeded, "keys="+keys))
		return w
	}
	w := said("007")
	step := w.op.Status.Steps[0]
	if step.Outputs["keys"] != "7" || !maps.Equal(step.OutputTypes,
		map[string]platformv1.OutputType{"keys": platformv1.OutputInt}) {
		t.Errorf("it is %+v", step)
	}
	if note := w.objects["ConfigMap note"]; !reflect.DeepEqual(note,
		map[string]any{"metadata": map[string]any{"labels": map[string]any{"keys": "7"}}, "data": map[string]any{"keys": "7"},
			"most": int64(7)}) {
		t.Errorf("the object is %v", note)
	}
	w = said("99999999999999999999")
	if want := `job run-count ended well, and what it said is not as declared: output "keys" of step "count" is ` +
		`"99999999999999999999": it must be a whole number of 64 bits`; w.op.Status.Phase !=
		platformv1.OperationFailed || w.op.Status.Error != want {
		t.Errorf("it is %s: %s", w.op.Status.Phase, w.op.Status.Error)
	}
}

func TestOutputsAreOnRecordWithTheirTypes(t *testing.T) {
	w := outputStories["typed-outputs"]()
	look := w.op.Status.Steps[0]
	if want := map[string]string{"keys": "42", "names": `["a","b"]`}; !maps.Equal(look.Outputs, want) {
		t.Errorf("outputs are %v, want %v", look.Outputs, want)
	}
	want := map[string]platformv1.OutputType{"keys": platformv1.OutputInt, "names": platformv1.OutputList}
	if !maps.Equal(look.OutputTypes, want) {
		t.Errorf("their types are %v, want %v", look.OutputTypes, want)
	}
	if many := w.op.Status.Steps[1]; many.Phase != platformv1.OperationSucceeded || len(many.Targets) != 2 ||
		len(many.OutputTypes) > 0 {
		t.Errorf("the step after it is %+v", many)
	}
}

// A record that was made when all outputs were texts is read with the types of the template; what cannot be is refused
// before anything is done.
func TestFormerRecordsAreReadWithTheTypes(t *testing.T) {
	template, err := optemplate.Parse(passing)
	if err != nil {
		t.Fatal(err)
	}
	former := func(keys string) *platformv1.Operation {
		w := worldOf(passing, pod(0, primary))
		w.op.Status.Phase = platformv1.OperationFailed
		w.op.Status.Steps = []platformv1.StepStatus{{Name: "look", Phase: platformv1.OperationSucceeded, Attempts: 1,
			Outputs: map[string]string{"keys": keys, "names": `["a"]`}}}
		return w.op
	}
	w := worldOf(passing, pod(0, primary))
	if refusal := Retryable(w.op, former("12"), w.facts); refusal != nil {
		t.Fatal(refusal)
	}
	w.facts.Template = template
	decision := Start(w.op, "redis-a", w.facts, former("12"))
	if decision.Effect == nil || decision.Effect.Child == nil || decision.Effect.Child.Spec.Parameters["keys"] != "13" {
		t.Errorf("it does %+v: %+v", decision.Effect, decision.Status)
	}
	refusal := Retryable(w.op, former("a dozen"), w.facts)
	if refusal == nil || !strings.Contains(refusal.Message, `output "keys" of step "look" is "a dozen": it must be a `+
		`whole number of 64 bits; create the Operation without retryOf`) {
		t.Errorf("it says %v", refusal)
	}
}
