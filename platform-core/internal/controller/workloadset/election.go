// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// observeElection tells the rollout which pod may have the primary label, where the members elect and the plugin says
// how they report it. An election that is not recorded names nobody: this reconcile writes it to the status, and the
// next one sets the label.
func (f *facts) observeElection(set *platformv1.WorkloadSet) {
	if set.Spec.Election == nil {
		return
	}
	f.election = rollout.Elect(f.rollout, *set.Spec.Election, f.recorded)
	f.rollout.Named, f.rollout.Busy = new(f.election.Named), ""
	if f.election.State == rollout.ElectionChanged && f.election.Named == "" {
		f.rollout.Busy = "the election of a primary is about to be recorded"
	}
}

// readElection reads the live record of the election. The pods are read live before another election is recorded: their
// cache may be older than the record.
func (c *Controller) readElection(ctx context.Context, set *platformv1.WorkloadSet, f *facts) error {
	if set.Spec.Election == nil {
		return nil
	}
	live := &platformv1.WorkloadSet{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(set), live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot read the recorded election of WorkloadSet %q: %w", set.Name, err)
	}
	f.recorded = live.Status.Election
	return nil
}

// settleElection returns why none of the ready pods has the primary label; nil if one has.
func settleElection(set *platformv1.WorkloadSet, f *facts) *outcome.Outcome {
	labelled := func(p rollout.Pod) bool { return f.rollout.IsPrimaryRole(p.Role) }
	if set.Spec.Election == nil || len(f.rollout.Pods) == 0 || slices.ContainsFunc(f.rollout.Pods, labelled) {
		return nil
	}
	primary, why := "", "no majority of its pods names the same primary, and none gets the label of that: see what the "+
		"others report, and bring back those that are gone"
	if f.election.State != rollout.ElectionUnknown {
		primary = f.election.Record.Primary
		why = fmt.Sprintf("its members elected %s in epoch %s, which gets its label once that is recorded and it reports "+
			"its role", primary, f.election.Record.Epoch)
	}
	return new(outcome.Waiting(platformv1.ReasonPodsNotReady, progress(f, primary, why)))
}
