// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// OutputOperation names the Operation that a step runs.
const OutputOperation = "operation"

// inlineChild runs an Operation of an inline template, once for each attempt: one that was created and was deleted is
// not created again.
func (r *run) inlineChild(t *optemplate.Step, step *platformv1.StepStatus, one item, child *Child) verdict {
	created := hasRun(step, one, child.Name)
	if created {
		child.Verb = ChildLook
	}
	child.Spec.Timeout = &metav1.Duration{Duration: r.jobDeadline(t, step).Truncate(time.Second) + time.Second}
	waiting := fmt.Sprintf("Operation %s to end", child.Name)
	answer, v := r.answer(&Effect{Key: one.key, Child: child}, waiting)
	if answer == nil {
		if created {
			v.untouched = ""
		}
		return v
	}
	switch {
	case one.target != nil:
		one.target.Operation = child.Name
	default:
		step.Outputs = map[string]string{OutputOperation: child.Name}
	}
	switch answer.Child.Phase {
	case platformv1.OperationSucceeded:
		if one.target == nil {
			maps.Copy(step.Outputs, answer.Child.Outputs)
		}
		return verdict{}
	case platformv1.OperationFailed:
		return failedf("Operation %s failed: %s", child.Name, tail(answer.Child.Error))
	case platformv1.OperationCancelled:
		return failedf("Operation %s was cancelled", child.Name)
	case platformv1.OperationAwaitingApproval:
		waiting += ", in which an approval is waited for"
	}
	if answer.Child.Progress != "" {
		waiting += " (" + answer.Child.Progress + ")"
	}
	return verdict{waiting: waiting}.ofChild(&answer.Child)
}

// hasRun says whether the record of a step, or of an item of it, names the Operation that it runs.
func hasRun(step *platformv1.StepStatus, one item, name string) bool {
	if one.target != nil {
		return one.target.Operation == name
	}
	return step.Outputs[OutputOperation] == name
}

// withdrawChildren is done when the Operations have ended that a step runs which was stopped: they end since this one
// does, or by their own timeout.
func (r *run) withdrawChildren(t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if step.Phase != platformv1.OperationCancelled && step.Phase != platformv1.OperationFailed {
		return verdict{}
	}
	names := []string{step.Outputs[OutputOperation]}
	if t.ForEach != "" {
		names = nil
		for i := range step.Targets {
			if phase := step.Targets[i].Phase; phase == platformv1.OperationCancelled || phase == platformv1.OperationFailed {
				names = append(names, step.Targets[i].Operation)
			}
		}
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		waiting := fmt.Sprintf("Operation %s to end", name)
		look := &Child{Verb: ChildLook, Name: name, Spec: platformv1.OperationSpec{Template: t.Operation.Template}}
		answer, v := r.answer(&Effect{Key: string(r.op.UID) + "/stop/" + name, Child: look}, waiting)
		switch {
		case v.failed != "":
			continue
		case answer == nil:
			return v
		case !answer.Child.Phase.Ended():
			return verdict{waiting: waiting, retry: objectPoll}
		}
	}
	return verdict{}
}

// maxOutputs is how many bytes the outputs of an inline template may have on record, those of all steps together.
const maxOutputs = 128 << 10

// fits fails a step of an inline template with whose outputs the record would be too large.
func (r *run) fits(step *platformv1.StepStatus) verdict {
	if !IsInline(r.op) || len(step.Outputs) == 0 {
		return verdict{}
	}
	total := 0
	for i := range r.status.Steps {
		for name, text := range r.status.Steps[i].Outputs {
			total += len(name) + len(text)
		}
	}
	if total <= maxOutputs {
		return verdict{}
	}
	step.Outputs = nil
	return verdict{final: yes, failed: fmt.Sprintf("the outputs of all steps would have %d bytes: at most %d are kept "+
		"on record; keep them elsewhere, and let the outputs say where",
		total, maxOutputs)}
}

// conclude computes the outputs of the template, and says which one cannot be had; empty when all can.
func (r *run) conclude() (why string) {
	template := &r.facts.Template
	if len(template.Outputs) == 0 {
		return ""
	}
	variables, outputs := r.after(template.OnTheWay()), map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(template.Outputs)) {
		value, err := template.Result(name, variables)
		switch {
		case err != nil:
			return fmt.Sprintf("output %q cannot be computed: %v", name, err)
		case len(value) > maxOutput:
			return fmt.Sprintf("output %q has %d bytes: at most %d are kept on record; let its expression give a part of that",
				name, len(value), maxOutput)
		}
		outputs[name] = value
	}
	r.status.Outputs = outputs
	return ""
}
