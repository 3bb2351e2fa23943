// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/records"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// retryInterval is the interval of attempts to acquire the disruption lock of the Application.
const retryInterval = 500 * time.Millisecond

// Acquire makes disruptive steps wait while an Operation works on the pods of the Application, or a component that is
// updated before this one is being updated. As outside of a maintenance window, repairs go on. Otherwise it acquires
// the disruption lock for the returned steps. The returned function releases it.
func (r *Reconciler) Acquire(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	steps []rollout.Step) (allowed []rollout.Step, release func(), err error) {
	nothing := func() {}
	if !f.Rollout.Disturbs(steps) {
		return steps, nothing, nil
	}
	release, acquired := r.Locks.TryAcquire(types.NamespacedName{Namespace: set.Namespace, Name: set.Spec.Application})
	if acquired {
		awaited, err := r.awaited(ctx, set)
		if err == nil && awaited.What == "" {
			f.holdsLock = true
			return steps, release, nil
		}
		if release(); err != nil {
			return nil, nothing, err
		}
		f.Awaits = awaited
	} else {
		f.Awaits = facts.Awaited{Reason: platformv1.ReasonOperationAtWork, What: "another pod of the Application"}
	}
	// A watch reports the end of the Operation and of an update, but not the release of the lock.
	if f.Awaits.Reason != platformv1.ReasonUpdateOrder {
		f.WakeAfter(retryInterval)
	}
	f.Rollout.Window = rollout.Closed
	return rollout.Plan(f.Rollout), nothing, nil
}

// awaited returns what has to end before a serving pod is disrupted.
func (r *Reconciler) awaited(ctx context.Context, set *platformv1.WorkloadSet) (facts.Awaited, error) {
	for _, of := range []struct {
		reason string
		what   func(context.Context, *platformv1.WorkloadSet) (string, error)
	}{
		{platformv1.ReasonOperationAtWork, r.atWork},
		{platformv1.ReasonUpdateOrder, r.updatedBefore},
		{platformv1.ReasonOperationAtWork, r.unsettledMembers},
	} {
		if what, err := of.what(ctx, set); err != nil || what != "" {
			return facts.Awaited{Reason: of.reason, What: what}, err
		}
	}
	return facts.Awaited{}, nil
}

// updatedBefore returns the component that is updated before that of the set, and has yet to be; empty for none. The
// Application changes it first, so that at this moment it has the spec that the change of the set came with, or a later
// one.
func (r *Reconciler) updatedBefore(ctx context.Context, set *platformv1.WorkloadSet) (string, error) {
	for _, name := range set.Spec.UpdateAfter {
		component := &platformv1.Component{}
		key := client.ObjectKey{Namespace: set.Namespace, Name: platformv1.ComponentNameFor(set.Spec.Application, name)}
		switch err := r.Live.Get(ctx, key, component); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return "", fmt.Errorf("cannot read Component %q: %w", key.Name, err)
		case component.DeletionTimestamp == nil && component.Updates():
			return fmt.Sprintf("component %s, which is updated first, to be ready with its change", name), nil
		}
	}
	return "", nil
}

// atWork returns what is awaited of the Operation that works on pods of the Application; empty for none.
func (r *Reconciler) atWork(ctx context.Context, set *platformv1.WorkloadSet) (string, error) {
	present, err := records.Present(ctx, r.Live, r.Client, client.InNamespace(set.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: set.Spec.Application})
	if err != nil {
		return "", fmt.Errorf("cannot list the Operations of Application %q: %w", set.Spec.Application, err)
	}
	for _, op := range present {
		if opsflow.AtWork(op) {
			return fmt.Sprintf("Operation %q to have gone through the pods", op.Name), nil
		}
	}
	return "", nil
}

// AwaitDisruption returns the outcome of pods that wait for something else than a window.
func AwaitDisruption(f *Verdict, held []rollout.Step) outcome.Outcome {
	says := fmt.Sprintf("waits for %s: %s", f.Awaits.What, describeHeld(held))
	if f.Awaits.Reason == platformv1.ReasonUpdateOrder {
		says += "; a pod that is deleted comes back with its change at once"
	}
	return outcome.Waiting(f.Awaits.Reason, says)
}
