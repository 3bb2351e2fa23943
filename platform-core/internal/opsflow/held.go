// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// What an Operation has done by way of what is declared, a spec or a password, waits for a maintenance window like
// every such change where it takes out pods that serve: the whole run does, before it begins anything, so that it can
// still be cancelled. What it does to processes and pods by itself somebody has asked for now.

// HoldingSteps are the steps of a template that wait for a maintenance window where they take out pods that serve.
func HoldingSteps(template optemplate.Template) []string {
	var names []string
	for _, step := range template.Steps {
		if step.Engine != nil && slices.Contains(holdingVerbs, step.Engine.Do) && !template.Compensates(step.Name) {
			names = append(names, step.Name)
		}
	}
	return names
}

var holdingVerbs = []optemplate.EngineVerb{optemplate.EngineResize, optemplate.EngineExpand, optemplate.EngineUpgrade,
	optemplate.EngineDowngrade, optemplate.EngineUpgradePlugin, optemplate.EngineRotate}

// Rotates says whether a template makes passwords anew.
func Rotates(template optemplate.Template) bool {
	return slices.ContainsFunc(template.Steps,
		func(step optemplate.Step) bool { return does(step, optemplate.EngineRotate) })
}

// Held says whether a run waits for a maintenance window, before it begins or since the engine holds the rest of what
// it asked for.
func Held(op *platformv1.Operation) bool {
	return meta.IsStatusConditionTrue(op.Status.Conditions, platformv1.HeldCondition)
}

// HasBegun says whether a run has done anything, or may have. To be approved is nothing.
func HasBegun(op *platformv1.Operation, template optemplate.Template) bool {
	return begun(&op.Status, template)
}

func begun(status *platformv1.OperationStatus, template optemplate.Template) bool {
	return slices.ContainsFunc(status.Steps, func(step platformv1.StepStatus) bool {
		t, known := template.Step(step.Name)
		return step.Attempts > 0 && !(known && t.Approval != nil)
	})
}

// held is the verdict of a step that waits with the whole run; done when it need not.
func (r *run) held(t *optemplate.Step) verdict {
	if r.facts.Held == nil || t.Approval != nil || begun(r.status, r.facts.Template) {
		return verdict{}
	}
	return verdict{step: t.Name, waiting: r.facts.Held.Words, reason: platformv1.ReasonWaitingForMaintenance,
		retry: r.facts.Held.Until.Sub(r.facts.Now)}
}

// awaitsOnlyWindow says whether all that goes on waits for a maintenance window: that time does not count. What is
// asked again, since nobody knows yet, is as it was.
func (r *run) awaitsOnlyWindow() bool {
	was := Held(&platformv1.Operation{Status: *r.status})
	return len(r.waits) > 0 && !slices.ContainsFunc(r.waits, func(v verdict) bool {
		return v.reason != platformv1.ReasonWaitingForMaintenance && !(was && v.effect != nil)
	})
}

// noteHold puts on record whether the run waits for a maintenance window, and when that ended.
func (r *run) noteHold() {
	condition := metav1.Condition{Type: platformv1.HeldCondition, ObservedGeneration: r.op.Generation,
		LastTransitionTime: metav1.NewTime(r.facts.Now)}
	switch {
	case r.awaitsOnlyWindow():
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, platformv1.ReasonWaitingForMaintenance,
			waitingFor+r.waits[0].waiting
	case Held(&platformv1.Operation{Status: *r.status}):
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, platformv1.ReasonWindowOpen,
			"what waited for a maintenance window goes on"
	default:
		return
	}
	meta.SetStatusCondition(&r.status.Conditions, condition)
}

// letGo is for a run that no longer waits for a maintenance window since it ended, or waits in the queue again.
func (r *run) letGo() {
	if Held(&platformv1.Operation{Status: *r.status}) {
		meta.RemoveStatusCondition(&r.status.Conditions, platformv1.HeldCondition)
	}
}

// resumed is when the run last went on that had waited for a maintenance window; the zero time when it never did.
func (r *run) resumed() metav1.Time {
	if held := meta.FindStatusCondition(r.status.Conditions, platformv1.HeldCondition); held != nil &&
		held.Status == metav1.ConditionFalse {
		return held.LastTransitionTime
	}
	return metav1.Time{}
}
