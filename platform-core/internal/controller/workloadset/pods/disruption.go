// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/records"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// retryInterval is the interval of attempts to acquire the disruption lock of the Application.
const retryInterval = 500 * time.Millisecond

// Acquire makes disruptive steps wait while an Operation works on the pods of the Application. As outside of
// a maintenance window, repairs go on. Otherwise it acquires the disruption lock for the returned steps. The returned
// function releases it.
func (r *Reconciler) Acquire(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	steps []rollout.Step) (allowed []rollout.Step, release func(), err error) {
	nothing := func() {}
	if !f.Rollout.Disturbs(steps) {
		return steps, nothing, nil
	}
	release, acquired := r.Locks.TryAcquire(types.NamespacedName{Namespace: set.Namespace, Name: set.Spec.Application})
	if acquired {
		by, err := r.awaited(ctx, set)
		if err == nil && by == "" {
			f.holdsLock = true
			return steps, release, nil
		}
		if release(); err != nil {
			return nil, nothing, err
		}
		f.Awaits = by
	} else {
		f.Awaits = "another pod of the Application"
	}
	// A watch reports the end of the Operation, but not the release of the lock.
	f.WakeAfter(retryInterval)
	f.Rollout.Window = rollout.Closed
	return rollout.Plan(f.Rollout), nothing, nil
}

// awaited returns what has to end before a serving pod is disrupted; empty for nothing.
func (r *Reconciler) awaited(ctx context.Context, set *platformv1.WorkloadSet) (string, error) {
	by, err := r.atWork(ctx, set)
	if by != "" {
		return fmt.Sprintf("Operation %q to have gone through the pods", by), nil
	}
	if err != nil || set.Spec.Members == "" {
		return "", err
	}
	return r.unsettledMembers(ctx, set)
}

// atWork returns the name of the Operation that works on pods of the Application; empty for none.
func (r *Reconciler) atWork(ctx context.Context, set *platformv1.WorkloadSet) (string, error) {
	present, err := records.Present(ctx, r.Live, r.Client, client.InNamespace(set.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: set.Spec.Application})
	if err != nil {
		return "", fmt.Errorf("cannot list the Operations of Application %q: %w", set.Spec.Application, err)
	}
	for _, op := range present {
		if opsflow.AtWork(op) {
			return op.Name, nil
		}
	}
	return "", nil
}

// AwaitDisruption returns the outcome of pods that wait for an Operation.
func AwaitDisruption(f *Verdict, held []rollout.Step) outcome.Outcome {
	return outcome.Waiting(platformv1.ReasonOperationAtWork, fmt.Sprintf("waits for %s: %s", f.Awaits, describeHeld(held)))
}
