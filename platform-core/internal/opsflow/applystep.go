// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// applyStep waits until the instance is as its spec asks, and follows a spec that is edited meanwhile. The controllers
// of the instance do the work.
type applyStep struct{}

func (applyStep) advance(r *run, _ *optemplate.Step, step *platformv1.StepStatus) verdict {
	app := r.facts.Application
	if step.Phase == platformv1.OperationPending {
		r.begin(step)
		step.Outputs = map[string]string{OutputGeneration: strconv.FormatInt(app.Generation, 10)}
	}
	if changes := ChangesOf(r.op); len(changes) > 0 {
		last := changes[len(changes)-1].Generation
		step.Outputs = map[string]string{OutputGeneration: strconv.FormatInt(last, 10),
			OutputChanged: describeChanges(changes)}
	}
	wanted, err := strconv.ParseInt(step.Outputs[OutputGeneration], 10, 64)
	if err != nil {
		return failedf("generation %q of %s cannot be read: %v", step.Outputs[OutputGeneration], r.facts.Target, err)
	}
	return r.facts.applied(wanted)
}

// lasts says whether an instance that is not Ready for this reason waits for what may take days.
func lasts(reason string) bool {
	return slices.Contains([]string{platformv1.ReasonWaitingForMaintenance, platformv1.ReasonSuspended, ReasonSpecRefused},
		reason)
}

// stuck says whether it may wait for somebody to mend what the message names: until then the engine takes out no
// further pod, and an Operation may be what mends it, such as one that takes a size back that the storage cannot give.
func stuck(reason string) bool {
	return platformv1.StopsPods(reason) || reason == platformv1.ReasonVolumeExpansionUnsupported
}

// applied is done when the instance is Ready with this generation of its spec or a later one.
func (f Facts) applied(wanted int64) verdict {
	d, status := f.Declared, f.Application.Status
	switch {
	case status.ObservedGeneration < wanted:
		return verdict{waiting: f.Target + " to take up the change"}
	case d.Ready.Reason == platformv1.ReasonSuspended:
		return suspended(f.Target, 0)
	case d.Stalled.Status == metav1.ConditionTrue && status.TakenUp() < status.ObservedGeneration:
		// What was taken up before goes on, and nobody knows how far it is until there is a spec that can be had.
		return verdict{waiting: fmt.Sprintf("a spec of %s that can be had: %s", f.Target, d.Stalled.Message),
			reason: ReasonSpecRefused}
	case d.Stalled.Status == metav1.ConditionTrue:
		return failedf("%s does not get there: %s", f.Target, d.Stalled.Message)
	case d.Ready.Status != metav1.ConditionTrue:
		v := verdict{waiting: fmt.Sprintf("%s to be Ready: %s", f.Target, d.Ready.Message)}
		if lasts(d.Ready.Reason) || stuck(d.Ready.Reason) {
			v.reason = d.Ready.Reason
		}
		return v
	case status.TakenUp() < wanted:
		return verdict{waiting: f.Target + " to take up the change"}
	}
	return verdict{}
}
