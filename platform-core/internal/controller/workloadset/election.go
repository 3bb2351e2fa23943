// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// observeElection tells the rollout which pod may have the label of a primary, where the plugin says how the members report whom they elected. An election
// that is yet to be recorded names nobody: the status of this turn has it, and the next turn gives the label.
func (f *facts) observeElection(set *platformv1.WorkloadSet) {
	if set.Spec.Election == nil {
		return
	}
	f.election = rollout.Elect(f.rollout, *set.Spec.Election, f.recorded)
	f.rollout.Named, f.rollout.Busy = new(f.election.Named), ""
	if f.election.State == rollout.ElectionChanged {
		f.rollout.Busy = "the election of a primary is about to be recorded"
	}
}

// readElection reads the recorded election as it is at this moment: a cache may show an earlier one. Before another one is recorded the pods are read
// anew as well: in a cache of its own each report may be older than the record.
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

// settleElection says that a set whose pods are all well has no primary that a majority of them names; nil where it has one.
func settleElection(set *platformv1.WorkloadSet, f *facts) *outcome.Outcome {
	switch {
	case set.Spec.Election == nil || len(f.rollout.Pods) == 0 || f.election.State == rollout.ElectionAgreed:
		return nil
	case f.election.State == rollout.ElectionChanged:
		return new(outcome.Waiting(platformv1.ReasonPodsNotReady, progress(f, f.election.Record.Primary, fmt.Sprintf(
			"its members elected %s in epoch %s, which is recorded before it gets its label", f.election.Record.Primary, f.election.Record.Epoch))))
	case f.election.Named != "":
		return nil
	}
	return new(outcome.Waiting(platformv1.ReasonPodsNotReady, progress(f, "",
		"no majority of its pods names the same primary, and none gets the label of that: see what the others report, and bring back those that are gone")))
}
