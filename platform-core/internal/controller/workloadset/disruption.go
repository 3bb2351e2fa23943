// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/records"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// retryInterval is the interval of attempts to acquire the disruption lock of the Application.
const retryInterval = 500 * time.Millisecond

// acquireDisruption makes disruptive steps wait while an Operation works on the pods of the Application. As outside of
// a maintenance window, repairs go on. Otherwise it acquires the disruption lock for the returned steps. The returned
// function releases it.
func (c *Controller) acquireDisruption(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	steps []rollout.Step) (allowed []rollout.Step, release func(), err error) {
	nothing := func() {}
	if !f.rollout.Disturbs(steps) {
		return steps, nothing, nil
	}
	release, acquired := c.Locks.TryAcquire(types.NamespacedName{Namespace: set.Namespace, Name: set.Spec.Application})
	if acquired {
		by, err := c.awaited(ctx, set)
		if err == nil && by == "" {
			f.holdsLock = true
			return steps, release, nil
		}
		if release(); err != nil {
			return nil, nothing, err
		}
		f.awaits = by
	} else {
		f.awaits = "another pod of the Application"
	}
	// A watch reports the end of the Operation, but not the release of the lock.
	f.wakeAfter(retryInterval)
	f.rollout.Window = rollout.Closed
	return rollout.Plan(f.rollout), nothing, nil
}

// awaited returns what has to end before a serving pod is disrupted; empty for nothing.
func (c *Controller) awaited(ctx context.Context, set *platformv1.WorkloadSet) (string, error) {
	by, err := c.atWork(ctx, set)
	if by != "" {
		return fmt.Sprintf("Operation %q to have gone through the pods", by), nil
	}
	if err != nil || set.Spec.Members == "" {
		return "", err
	}
	return c.unsettledMembers(ctx, set)
}

// atWork returns the name of the Operation that works on pods of the Application; empty for none.
func (c *Controller) atWork(ctx context.Context, set *platformv1.WorkloadSet) (string, error) {
	present, err := records.Present(ctx, c.live, c.client, client.InNamespace(set.Namespace),
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

// awaitDisruption returns the outcome of pods that wait for an Operation.
func awaitDisruption(f *facts, held []rollout.Step) outcome.Outcome {
	return outcome.Waiting(platformv1.ReasonOperationAtWork, fmt.Sprintf("waits for %s: %s", f.awaits, describeHeld(held)))
}

// ofOperation maps an Operation to the sets of its Application.
func (c *Controller) ofOperation(ctx context.Context, obj client.Object) []reconcile.Request {
	var list platformv1.WorkloadSetList
	application := obj.GetLabels()[platformv1.ApplicationLabel]
	if application == "" {
		return nil
	}
	if err := c.client.List(ctx, &list, client.InNamespace(obj.GetNamespace()),
		client.MatchingLabels{platformv1.ApplicationLabel: application}); err != nil {
		log.FromContext(ctx).Error(err, "cannot list WorkloadSets", "application", application)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// leftPods passes Operations that no longer work through pods, and those that are gone before they ended, which may
// leave something.
var leftPods = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return opsflow.AtWork(e.ObjectOld.(*platformv1.Operation)) && !opsflow.AtWork(e.ObjectNew.(*platformv1.Operation))
	},
	DeleteFunc:  func(e event.DeleteEvent) bool { return !opsflow.Finished(e.Object.(*platformv1.Operation)) },
	GenericFunc: func(event.GenericEvent) bool { return false },
}
