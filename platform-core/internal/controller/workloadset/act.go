// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// act brings about what the pods stand on, then the steps. What the agents may do comes beside that: the API server
// takes some hundred milliseconds for it, and an agent that is sooner asks again.
func (c *Controller) act(ctx context.Context, set *platformv1.WorkloadSet, st *state,
	steps []rollout.Step) outcome.Outcome {
	if st.Rollout.Mode == rollout.Suspended {
		return outcome.Failed(c.pods.KeepCertificates(ctx, set, st.pods))
	}
	switch err := c.ensureFinalizer(ctx, set); {
	case apierrors.IsNotFound(err):
		return outcome.Done()
	case err != nil:
		return outcome.Failed(err)
	}
	var o outcome.Outcome
	rights, unzoned := pods.RightsOf(set, st.pods), st.pods.Unzoned()
	err := frame.Together(
		func() error { return c.pods.ApplyInOrder(ctx, set, rights) },
		func() error { return c.pods.TellZones(ctx, unzoned) },
		func() error { o = c.reconcilePods(ctx, set, st, steps); return nil },
	)
	if err != nil {
		return outcome.Worst(apply.Outcome(err), o)
	}
	return o
}

// reconcilePods applies what pods need to start, and executes the steps.
func (c *Controller) reconcilePods(ctx context.Context, set *platformv1.WorkloadSet, st *state,
	steps []rollout.Step) outcome.Outcome {
	if err := c.pods.EnsureShared(ctx, set, st.pods); err != nil {
		return apply.Outcome(err)
	}
	claims := c.volumes.Reconcile(ctx, set, st.Facts)
	if claims.Kind() == outcome.KindFailed {
		return claims
	}
	if err := c.pods.NoteResources(ctx, st.pods); err != nil {
		return outcome.Failed(err)
	}
	for _, fill := range []func(context.Context, *platformv1.WorkloadSet, *facts.Facts) (*facts.Facts, *outcome.Outcome){
		c.volumes.TakeOver, c.volumes.Restore} {
		f, o := fill(ctx, set, st.Facts)
		if st.Facts = f; o != nil {
			return *o
		}
	}
	return outcome.Worst(claims, c.pods.Act(ctx, set, st.pods, steps))
}
