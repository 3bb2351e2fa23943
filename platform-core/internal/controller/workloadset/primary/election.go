// SPDX-License-Identifier: Apache-2.0

package primary

import (
	"fmt"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// observeElection tells the rollout which pod may have the primary label, where the members elect and the plugin says
// how they report it. An election that is not recorded names nobody: this reconcile writes it to the status, and the
// next one sets the label.
func (f *Verdict) observeElection(set *platformv1.WorkloadSet) {
	if set.Spec.Election == nil {
		return
	}
	f.Election = rollout.Elect(f.Rollout, *set.Spec.Election, f.RecordedElection)
	f.Rollout.Named, f.Rollout.Busy = new(f.Election.Named), ""
	if f.Election.State == rollout.ElectionChanged && f.Election.Named == "" {
		f.Rollout.Busy = "the election of a primary is about to be recorded"
	}
}

// Unlabelled returns why none of the ready pods has the primary label; nil if one has.
func Unlabelled(set *platformv1.WorkloadSet, f *Verdict) *outcome.Outcome {
	labelled := func(p rollout.Pod) bool { return f.Rollout.IsPrimaryRole(p.Role) }
	if set.Spec.Election == nil || len(f.Rollout.Pods) == 0 || slices.ContainsFunc(f.Rollout.Pods, labelled) {
		return nil
	}
	primary, why := "", "no majority of its pods names the same primary, and none gets the label of that: see what the "+
		"others report, and bring back those that are gone"
	if f.Election.State != rollout.ElectionUnknown {
		primary = f.Election.Record.Primary
		why = fmt.Sprintf("its members elected %s in epoch %s, which gets its label once that is recorded and it reports "+
			"its role", primary, f.Election.Record.Epoch)
	}
	return new(outcome.Waiting(platformv1.ReasonPodsNotReady, facts.Progress(f.Rollout, primary, why)))
}
