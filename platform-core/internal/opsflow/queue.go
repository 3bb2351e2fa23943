// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Queue is all that is known of the Operations of one Application that have not ended.
type Queue struct {
	// Operations in any order; those that have ended do no harm.
	Operations []*platformv1.Operation
	// Urgent says whether the template of an Operation pre-empts others.
	Urgent func(*platformv1.Operation) bool
	// Apart says whether the template of an Operation touches nothing of the Application: such ones wait for each other
	// only, and nobody else for them.
	Apart func(*platformv1.Operation) bool
}

// Ahead returns the Operation that has to end before op can start; nil when op is the next. One that runs comes before
// all others, then one that pre-empts, then it goes by creation time and by name. One that stands aside keeps nobody
// waiting, and what the engine does by itself waits for nobody; others wait for that, unless they pre-empt. What a step
// of another Operation runs waits neither for that one nor for those that wait for it. Nobody waits for the record of a
// failover, and one that pre-empts not for a run that nobody can end any more, unless that works through pods.
func (q Queue) Ahead(op *platformv1.Operation) *platformv1.Operation {
	if Records(op) {
		return nil
	}
	var first *platformv1.Operation
	above := ancestors(op, q.Operations)
	for _, other := range q.Operations {
		if q.apart(op) != q.apart(other) {
			continue
		}
		if other.UID == op.UID || RecordsFailover(other) || Finished(other) || StandsAside(other) &&
			(Held(other) || !decided(other)) || !other.DeletionTimestamp.IsZero() || q.before(op, other) < 0 {
			continue
		}
		if Passed(other) && !AtWork(other) && q.urgent(op) && !q.urgent(other) {
			// Nobody ends it, and what it waits for others do.
			continue
		}
		if slices.Contains(above, other.UID) || len(above) > 0 && q.rank(other) > 0 || RecordsSpec(other) && q.urgent(op) {
			continue
		}
		if first == nil || q.before(other, first) < 0 {
			first = other
		}
	}
	return first
}

// Preempts returns the Operation for which one that runs has to end at its next safe point; nil for none. What
// pre-empts is itself ended by nobody, and neither is what its steps run, nor what has passed its point of no return,
// nor what keeps nobody waiting since it waits for a maintenance window.
func (q Queue) Preempts(op *platformv1.Operation) *platformv1.Operation {
	if Records(op) || q.urgent(op) || Passed(op) || Held(op) || q.apart(op) {
		return nil
	}
	for _, other := range q.Operations {
		inLine := RecordsSpec(other) || other.Status.Phase == platformv1.OperationPending && other.Status.Application != ""
		if other.UID != op.UID && inLine && !Finished(other) && other.DeletionTimestamp.IsZero() && !other.Spec.Cancel &&
			q.urgent(other) &&
			!slices.Contains(ancestors(other, q.Operations), op.UID) {
			return other
		}
	}
	return nil
}

// urgent says whether an Operation pre-empts others, or is a step of one that does.
func (q Queue) urgent(op *platformv1.Operation) bool {
	if q.preempts(op) {
		return true
	}
	above := ancestors(op, q.Operations)
	return slices.ContainsFunc(q.Operations, func(other *platformv1.Operation) bool {
		return slices.Contains(above, other.UID) && q.preempts(other)
	})
}

// Urgent says whether an Operation of a template pre-empts others: not before somebody approved it, where it waits for
// that.
func Urgent(op *platformv1.Operation, template optemplate.Template) bool {
	if !template.Preempts {
		return false
	}
	r := &run{op: op, facts: Facts{Template: template, Parameters: ParametersInForce(op.Spec, template)},
		status: &op.Status}
	return !slices.ContainsFunc(template.Steps, func(step optemplate.Step) bool {
		if step.Approval == nil || decided(op) {
			return false
		}
		wanted, err := true, error(nil)
		if step.When != "" {
			wanted, err = template.Truth(step.Name, step.When, r.variables(&step, nil))
		}
		return wanted || err != nil
	})
}

func (q Queue) preempts(op *platformv1.Operation) bool {
	switch {
	case RecordsSpec(op):
		return op.Annotations[platformv1.PreemptsAnnotation] != ""
	case RecordsFailover(op):
		return false
	}
	return q.Urgent != nil && !op.Spec.DryRun && q.Urgent(op)
}

func (q Queue) apart(op *platformv1.Operation) bool {
	return q.Apart != nil && !Records(op) && q.Apart(op)
}

// Active is the Operation that an Application is in, out of all of its that have not ended; nil while no run has begun.
// What a step of another one runs is part of that. Of several it is one that works before one that stands aside, one
// that was asked for before the record of what the engine does by itself, and then the one that began first.
func Active(operations []*platformv1.Operation) *platformv1.Operation {
	order := func(op *platformv1.Operation) int {
		switch {
		case StandsAside(op):
			return 2
		case Records(op):
			return 1
		}
		return 0
	}
	var active *platformv1.Operation
	for _, op := range operations {
		if !Running(op) || ParentOf(op) != "" {
			continue
		}
		if active == nil || cmp.Or(cmp.Compare(order(op), order(active)), began(op).Compare(began(active)),
			cmp.Compare(op.Name, active.Name)) < 0 {
			active = op
		}
	}
	return active
}

// began is when a run did; the zero time for one that does not say.
func began(op *platformv1.Operation) time.Time {
	if op.Status.StartTime == nil {
		return time.Time{}
	}
	return op.Status.StartTime.Time
}

// ancestors are the Operations whose steps run this one, directly or not.
func ancestors(op *platformv1.Operation, others []*platformv1.Operation) []types.UID {
	var above []types.UID
	for parent := ParentOf(op); parent != ""; {
		if slices.Contains(above, parent) {
			break
		}
		above = append(above, parent)
		next := types.UID("")
		for _, other := range others {
			if other.UID == parent {
				next = ParentOf(other)
			}
		}
		parent = next
	}
	return above
}

// ParentOf returns the UID of the Operation whose step runs this one; empty for none.
func ParentOf(op *platformv1.Operation) types.UID {
	if owner := metav1.GetControllerOf(op); owner != nil && owner.Kind == "Operation" {
		return owner.UID
	}
	return ""
}

// before compares two Operations by their place in the queue.
func (q Queue) before(a, b *platformv1.Operation) int {
	return cmp.Or(
		cmp.Compare(q.rank(a), q.rank(b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

// rank is 0 for what runs, or does not wait for anybody.
func (q Queue) rank(op *platformv1.Operation) int {
	switch {
	case Records(op), Running(op) && !StandsAside(op):
		return 0
	case q.urgent(op):
		return 1
	}
	return 2
}

// StandsAside says whether an Operation waits for what may take days, and others run in the meantime: for a maintenance
// window, for an approval before it has done anything, or, as the record of an edited spec, for a maintenance window or
// for somebody to take suspend back, or to mend the spec or a pod.
func StandsAside(op *platformv1.Operation) bool {
	if RecordsSpec(op) {
		ready := meta.FindStatusCondition(op.Status.Conditions, platformv1.ReadyCondition)
		return Running(op) && ready != nil && (lasts(ready.Reason) || stuck(ready.Reason))
	}
	return op.Status.Ending == "" && (Held(op) && Running(op) || op.Status.Phase == platformv1.OperationAwaitingApproval &&
		HasDoneNothing(op))
}

// HasDoneNothing says whether no step of a run has ended or is under way, but one that waits for an approval.
func HasDoneNothing(op *platformv1.Operation) bool {
	return !slices.ContainsFunc(op.Status.Steps, func(step platformv1.StepStatus) bool {
		return step.Phase == platformv1.OperationSucceeded || step.Phase == platformv1.OperationFailed ||
			step.Phase == platformv1.OperationRunning && op.Status.Phase != platformv1.OperationAwaitingApproval
	})
}

// WaitsInQueue says whether an Operation has to wait in the queue before it goes on: it has yet to begin, or stood
// aside before it did and no longer does.
func WaitsInQueue(op *platformv1.Operation, facts Facts) bool {
	switch {
	case !Running(op):
		return true
	case RecordsSpec(op) || !StandsAside(op) || HasBegun(op, facts.Template):
		return false
	case Held(op):
		return facts.Held == nil || facts.ParentEnded
	}
	return fullyDecided(op, facts.Template) || facts.ParentEnded
}

// fullyDecided says whether nobody more has to decide about an Operation of a template: as many have approved as that
// wants, one has rejected, or one has decided who may not. Before, it goes on waiting, and so does the time of its
// approval.
func fullyDecided(op *platformv1.Operation, template optemplate.Template) bool {
	decisions, wanted := decisionsOf(op), 1
	for user, decision := range decisions {
		if decision == platformv1.OperationRejected || user == op.Spec.Author {
			return true
		}
	}
	for i := range template.Steps {
		if approval := template.Steps[i].Approval; approval != nil {
			wanted = max(wanted, approval.Count)
		}
	}
	return len(decisions) >= wanted
}

// decided says whether somebody has approved or rejected an Operation.
func decided(op *platformv1.Operation) bool {
	return op.Spec.Approval != nil || len(op.Spec.Approvals) > 0
}

// Behind is the sentence of an Operation that waits for another.
func Behind(first *platformv1.Operation, application string) string {
	return fmt.Sprintf("waiting for Operation %q of Application %q to end: one Operation runs at a time", first.Name,
		application)
}

// AtWork says whether an Operation works through pods now: a step calls agents in one after the other.
func AtWork(op *platformv1.Operation) bool {
	return Running(op) && slices.ContainsFunc(op.Status.Steps, func(step platformv1.StepStatus) bool {
		return step.Phase == platformv1.OperationRunning && len(step.Targets) > 0 && step.Targets[0].UID != ""
	})
}
