// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

const (
	// objectPoll is after how long an object that is waited for is read again.
	objectPoll = 2 * time.Second
	// maxOutput is the longest text, in bytes, that a step takes from an object.
	maxOutput = 4096
	// maxItems is the longest list that a forEach of a template of a plugin or of the engine goes through.
	maxItems = 1000
)

// item is one of a step with forEach, or the only one of a step without.
type item struct {
	// value of the variable each; nil without forEach.
	value *string
	// number from 1; 0 without forEach.
	number int
	// key of its effect.
	key string
	// target is its record; nil without forEach.
	target *platformv1.StepTarget
}

// itemsStep takes what it does for one item after the other, or for several at a time.
type itemsStep struct {
	settle func(r *run, t *optemplate.Step, step *platformv1.StepStatus, one item) verdict
}

func (s itemsStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if step.Phase == platformv1.OperationPending {
		if why := s.begin(r, t, step); why != "" {
			return verdict{failed: why}
		}
	}
	switch {
	case t.ForEach == "":
		return s.settle(r, t, step, item{key: r.key(step, "")})
	case step.Items != nil:
		return s.goThrough(r, t, step)
	}
	return s.each(r, t, step)
}

// each goes on with the items that are under way, and begins others while there may be more. Once one has failed no
// other is begun, and the step fails when those under way have ended.
func (s itemsStep) each(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	limit, running := max(t.Parallelism, 1), 0
	var first, failure verdict
	for i := range step.Targets {
		target := &step.Targets[i]
		if target.Phase == platformv1.OperationFailed && failure.done() {
			failure = verdict{failed: target.Message}
		}
		full := target.Phase == platformv1.OperationPending && (running >= limit || !failure.done())
		if full || target.Phase == platformv1.OperationSucceeded || target.Phase == platformv1.OperationFailed {
			continue
		}
		target.Phase = platformv1.OperationRunning
		v := s.settle(r, t, step, item{value: &target.Name, number: i + 1, key: r.key(step, target.Name), target: target})
		switch {
		case v.done():
			target.Phase = platformv1.OperationSucceeded
			continue
		case v.failed != "":
			if i > 0 {
				v.untouched = ""
			}
			target.Phase, target.Message = platformv1.OperationFailed, v.failed
			if failure.done() {
				failure = v
			}
			continue
		}
		running++
		first = joined(first, v)
	}
	if running == 0 {
		return failure
	}
	if running > 1 {
		first.waiting = several(running, first)
	}
	return first
}

// begin records the items, so that they stay the same whatever the expression gives later.
func (s itemsStep) begin(r *run, t *optemplate.Step, step *platformv1.StepStatus) (why string) {
	switch {
	case t.ForEach != "" && IsInline(r.op) && (step.Items != nil || len(step.Targets) == 0):
		if why := r.list(t, step); why != "" {
			return why
		}
	case t.ForEach != "" && len(step.Targets) == 0:
		items, err := r.facts.Template.Texts(t.Name, t.ForEach, r.variables(t, nil))
		if err != nil {
			return fmt.Sprintf("cannot say what step %q goes through: %v", t.Name, err)
		}
		if why := checkItems(t, items, maxItems); why != "" {
			return why
		}
		targets := make([]platformv1.StepTarget, 0, len(items))
		for _, name := range items {
			targets = append(targets, platformv1.StepTarget{Name: name, Phase: platformv1.OperationPending})
		}
		// Another attempt does not take those before for all.
		step.Targets = targets
	}
	for i := range step.Targets {
		if target := &step.Targets[i]; target.Phase == platformv1.OperationFailed {
			target.Phase, target.Message, target.ExitCode = platformv1.OperationPending, "", 0
		}
	}
	r.begin(step)
	return ""
}

// checkItems says why a step cannot go through a list; empty when it can.
func checkItems(t *optemplate.Step, items []string, most int) (why string) {
	if len(items) > most {
		return fmt.Sprintf("step %q would go through %d items: at most %d are allowed", t.Name, len(items), most)
	}
	seen := make(map[string]bool, len(items))
	for _, name := range items {
		if seen[name] {
			return fmt.Sprintf("step %q would go through %q twice", t.Name, name)
		}
		seen[name] = true
	}
	return ""
}

// text fills in a text of a step; a failed verdict says why that cannot be.
func (r *run) text(t *optemplate.Step, source string, one item) (string, verdict) {
	text, err := r.facts.Template.Text(t.Name, source, r.variables(t, one.value))
	if err != nil {
		return "", failedf("step %q: %v", t.Name, err)
	}
	return text, verdict{}
}

// answer returns what became of an effect, or the verdict of a step that asks for it.
func (r *run) answer(effect *Effect, waiting string) (*Answer, verdict) {
	answer := r.facts.Answers[effect.Key]
	switch {
	case answer == nil:
		return nil, verdict{waiting: waiting, effect: effect}
	case answer.Failure == FailureRefused:
		return nil, verdict{failed: answer.Problem, untouched: yes}
	case answer.Failure == FailureUnreachable:
		return nil, verdict{waiting: fmt.Sprintf("%s: %s", waiting, answer.Problem), retry: callRetry, reason: answer.Reason}
	}
	return answer, verdict{}
}

// waitItem reads an object until it matches.
func waitItem(r *run, t *optemplate.Step, step *platformv1.StepStatus, one item) verdict {
	reference := t.Wait.ObjectReference
	var v verdict
	if reference.Name, v = r.text(t, reference.Name, one); !v.done() {
		return v
	}
	waiting := fmt.Sprintf("%s %s to be as the template says", reference.Kind, reference.Name)
	answer, v := r.answer(&Effect{Key: one.key, Object: &Object{Verb: ObjectGet, ObjectReference: reference}}, waiting)
	if answer == nil {
		return v
	}
	if answer.Object == nil {
		return verdict{waiting: fmt.Sprintf("%s %s to be there", reference.Kind, reference.Name), retry: objectPoll}
	}
	variables := r.variables(t, one.value)
	variables["object"] = answer.Object
	if t.Wait.Fail != "" {
		if bad, err := r.facts.Template.Truth(t.Name, t.Wait.Fail, variables); err == nil && bad {
			return failedf("%s %s meets the condition to fail: %s", reference.Kind, reference.Name, t.Wait.Fail)
		}
	}
	switch met, err := r.facts.Template.Truth(t.Name, t.Wait.Until, variables); {
	case err != nil:
		// It may miss a field that has yet to come.
		return verdict{waiting: waiting + ": " + unevaluated(reference, err), retry: objectPoll}
	case !met:
		return verdict{waiting: waiting, retry: objectPoll}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Wait.Outputs)) {
		value, err := r.facts.Template.Value(t.Name, name, t.Wait.Outputs[name], variables)
		if err != nil {
			return failedf("step %q cannot record what it found: %v", t.Name, err)
		}
		if len(value) > maxOutput {
			return failedf("output %q of step %q has %d bytes: at most %d are kept on record; let its expression give a part "+
				"of that", name, t.Name, len(value), maxOutput)
		}
		setOutput(step, name, value)
	}
	return verdict{}
}

// unevaluated says why the condition of a wait cannot be evaluated. That of a Secret may hold a value of it.
func unevaluated(object optemplate.ObjectReference, why error) string {
	if object.Kind == "Secret" {
		return "until cannot be evaluated"
	}
	if cause := errors.Unwrap(why); cause != nil {
		why = cause
	}
	return fmt.Sprintf("until cannot be evaluated: %v", why)
}

// childSpec is what an Operation is asked for that a step runs: it has the account, the retry and the time of the one
// whose step it is.
func (r *run) childSpec(t *optemplate.Step, one item) (platformv1.OperationSpec, verdict) {
	parameters := platformv1.Parameters{}
	for _, name := range slices.Sorted(maps.Keys(t.Operation.Parameters)) {
		value, v := r.text(t, t.Operation.Parameters[name], one)
		if !v.done() {
			return platformv1.OperationSpec{}, v
		}
		if value != "" {
			parameters[name] = platformv1.ParameterValue(value)
		}
	}
	if t.Operation.Inline() != nil {
		return platformv1.OperationSpec{
			Template: t.Operation.Template, Parameters: parameters, Author: r.op.Spec.Author,
			ServiceAccountName: r.op.Spec.ServiceAccountName,
			Retry:              r.op.Spec.Retry, Suspend: r.op.Spec.Suspend,
		}, verdict{}
	}
	return platformv1.OperationSpec{
		TemplateRef: t.Operation.TemplateRef, TargetRef: r.op.Spec.TargetRef, Parameters: parameters,
		Timeout: &metav1.Duration{Duration: TimeoutOf(r.op)}, Force: r.op.Spec.Force, Author: r.op.Spec.Author,
		ServiceAccountName: r.op.Spec.ServiceAccountName, Retry: r.op.Spec.Retry,
	}, verdict{}
}

// childItem runs an Operation, once for each attempt: one that was made and was deleted is not made again.
func childItem(r *run, t *optemplate.Step, step *platformv1.StepStatus, one item) verdict {
	spec, v := r.childSpec(t, one)
	if !v.done() {
		return v
	}
	child := &Child{Name: r.childName(step, one), Spec: spec}
	if t.Operation.Inline() != nil {
		return r.inlineChild(t, step, one, child)
	}
	if hasRun(step, one, child.Name) {
		child.Verb = ChildLook
	}
	waiting := fmt.Sprintf("Operation %s to end", child.Name)
	answer, v := r.answer(&Effect{Key: one.key, Child: child}, waiting)
	if answer == nil {
		if child.Verb == ChildLook {
			v.untouched = ""
		}
		return v
	}
	setOutput(step, OutputOperation, child.Name)
	if one.target != nil {
		one.target.Operation = child.Name
	}
	r.inherit(&answer.Child, child.Name)
	switch answer.Child.Phase {
	case platformv1.OperationSucceeded:
		return verdict{}
	case platformv1.OperationFailed:
		if foundDataBad(&answer.Child) {
			noteDataBad(step)
		}
		return failedf("Operation %s failed: %s", child.Name, answer.Child.Error)
	case platformv1.OperationCancelled:
		return failedf("Operation %s was cancelled", child.Name)
	}
	if answer.Child.Progress != "" {
		waiting += " (" + answer.Child.Progress + ")"
	}
	v = verdict{waiting: waiting}
	if Held(&platformv1.Operation{Status: answer.Child}) {
		v.reason = platformv1.ReasonWaitingForMaintenance
	}
	return v
}

// childName is the same whenever the same child is meant, and fits into a label.
func (r *run) childName(step *platformv1.StepStatus, one item) string {
	parts := []string{r.op.Name, step.Name}
	if one.number > 0 {
		parts = append(parts, strconv.Itoa(one.number))
	}
	if step.Attempts > 1 {
		parts = append(parts, fmt.Sprintf("try%d", step.Attempts))
	}
	return platformv1.DerivedName(platformv1.MaxLabelValue, parts...)
}

// objectItem applies, patches or deletes an object.
func objectItem(r *run, t *optemplate.Step, step *platformv1.StepStatus, one item) verdict {
	verb, declared := ObjectApply, t.Apply
	switch {
	case t.Patch != nil:
		verb, declared = ObjectPatch, t.Patch
	case t.Delete != nil:
		verb, declared = ObjectDelete, t.Delete
	}
	object := &Object{Verb: verb, ObjectReference: declared.ObjectReference}
	var v verdict
	if object.Name, v = r.text(t, declared.Name, one); !v.done() {
		return v
	}
	if verb == ObjectDelete {
		return deleteItem(r, step, object, one)
	}
	filled, v := r.fill(t, declared, nil, declared.Content, one)
	if !v.done() {
		return v
	}
	object.Content, _ = filled.(map[string]any)
	_, v = r.answer(&Effect{Key: one.key, Object: object}, fmt.Sprintf("the %s of %s %s", verb, object.Kind, object.Name))
	return v
}

// outputDeletes is the UID of the object that a step deletes; for a forEach the number of the item follows.
const outputDeletes = "deletes"

// deleteItem deletes the object that is there at first, and no other one that somebody makes under its name later:
// which one that is goes on record before.
func deleteItem(r *run, step *platformv1.StepStatus, object *Object, one item) verdict {
	waiting, output := fmt.Sprintf("the delete of %s %s", object.Kind, object.Name), outputDeletes
	if one.number > 0 {
		output += strconv.Itoa(one.number)
	}
	if step.Outputs[output] == "" {
		present := *object
		present.Verb = ObjectGet
		answer, v := r.answer(&Effect{Key: "get " + one.key, Object: &present}, waiting)
		if answer == nil || answer.Object == nil {
			return v
		}
		uid, _, err := unstructured.NestedString(answer.Object, "metadata", "uid")
		if err != nil || uid == "" {
			return failedf("%s %s has no UID, so that it cannot be told from another one", object.Kind, object.Name)
		}
		setOutput(step, output, uid)
	}
	object.UID = types.UID(step.Outputs[output])
	answer, v := r.answer(&Effect{Key: one.key, Object: object}, waiting)
	if answer != nil {
		delete(step.Outputs, output)
	}
	return v
}

// fill copies what the content of an object has at a path, a tree of maps and lists, with its placeholders filled in.
func (r *run) fill(t *optemplate.Step, object *optemplate.ObjectStep, path []string, value any, one item) (any,
	verdict) {
	within := func(key string) []string { return append(path[:len(path):len(path)], key) }
	switch node := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(node))
		for key, child := range node {
			filled, v := r.fill(t, object, within(key), child, one)
			if !v.done() {
				return nil, v
			}
			out[key] = filled
		}
		return out, verdict{}
	case []any:
		out := make([]any, 0, len(node))
		for i, child := range node {
			filled, v := r.fill(t, object, within(strconv.Itoa(i)), child, one)
			if !v.done() {
				return nil, v
			}
			out = append(out, filled)
		}
		return out, verdict{}
	case string:
		if object.TextAt(path) {
			return r.text(t, node, one)
		}
		filled, err := r.facts.Template.Leaf(t.Name, node, r.variables(t, one.value))
		if err != nil {
			return nil, failedf("step %q: %v", t.Name, err)
		}
		return filled, verdict{}
	}
	return value, verdict{}
}

// recorded are the outputs of a step in the form in which they are kept; the error is a sentence about one that is not
// of its type.
func (r *run) recorded(t *optemplate.Step, outputs map[string]string) (map[string]string, error) {
	kept := make(map[string]string, len(outputs))
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		text, err := r.facts.Template.RecordOutput(t.Name, name, outputs[name])
		if err != nil {
			return nil, err
		}
		kept[name] = text
	}
	return kept, nil
}

// tellTypes says on record of which types the outputs of a step are that are no strings.
func (r *run) tellTypes(step *platformv1.StepStatus) {
	step.OutputTypes = nil
	for name := range step.Outputs {
		if kind := r.facts.Template.OutputType(step.Name, name); kind != platformv1.OutputString {
			if step.OutputTypes == nil {
				step.OutputTypes = map[string]platformv1.OutputType{}
			}
			step.OutputTypes[name] = kind
		}
	}
}

func setOutput(step *platformv1.StepStatus, name, value string) {
	if step.Outputs == nil {
		step.Outputs = map[string]string{}
	}
	step.Outputs[name] = value
}
