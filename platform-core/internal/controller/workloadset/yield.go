// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/records"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// turnRetry is when a set looks again while something else is done to a pod of the Application.
const turnRetry = 500 * time.Millisecond

// yield has pods that serve wait while an Operation works through the pods of the Application: as outside of a maintenance window, what mends
// goes on. Else nobody begins with that until the steps that it returns were taken, and it is told by the function.
func (c *Controller) yield(ctx context.Context, set *platformv1.WorkloadSet, f *facts, steps []rollout.Step) ([]rollout.Step, func(), error) {
	nothing := func() {}
	if !f.rollout.Disturbs(steps) {
		return steps, nothing, nil
	}
	giveBack, taken := c.Turns.Take(types.NamespacedName{Namespace: set.Namespace, Name: set.Spec.Application})
	if taken {
		by, err := c.awaited(ctx, set)
		if err == nil && by == "" {
			return steps, giveBack, nil
		}
		if giveBack(); err != nil {
			return nil, nothing, err
		}
		f.yields = by
	} else {
		f.yields = "another pod of the Application"
	}
	// The watch tells of the Operation's end; of a turn nobody does.
	f.wakeAfter(turnRetry)
	f.rollout.Window = rollout.Closed
	return rollout.Plan(f.rollout), nothing, nil
}

// awaited is what has to be over before a pod that serves is taken out; empty for nothing.
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

// unsettledMembers says what the other members of the cluster are about: none is taken out while one is missing, or while they are being
// brought together.
func (c *Controller) unsettledMembers(ctx context.Context, set *platformv1.WorkloadSet) (string, error) {
	component := &platformv1.Component{}
	key := client.ObjectKey{Namespace: set.Namespace, Name: platformv1.ComponentNameFor(set.Spec.Application, set.Spec.Component)}
	if err := c.live.Get(ctx, key, component); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if call := component.Status.Membership; call != nil {
		return fmt.Sprintf("the members to be brought together (%s)", call.Message), nil
	}
	var sets platformv1.WorkloadSetList
	var pods corev1.PodList
	of := client.MatchingLabels{platformv1.ApplicationLabel: set.Spec.Application, platformv1.ComponentLabel: set.Spec.Component}
	for _, list := range []client.ObjectList{&sets, &pods} {
		if err := c.live.List(ctx, list, client.InNamespace(set.Namespace), of); err != nil {
			return "", err
		}
	}
	for i := range sets.Items {
		if other := &sets.Items[i]; other.Name != set.Name && other.Spec.IsRunning() {
			if missing := missingOf(other, pods.Items); missing != "" {
				return fmt.Sprintf("pod %s, which is a member as well, to be ready", missing), nil
			}
		}
	}
	return "", nil
}

// missingOf names a pod of a set that does not do its work; empty for none.
func missingOf(set *platformv1.WorkloadSet, pods []corev1.Pod) string {
	for _, ordinal := range set.Spec.Ordinals() {
		name := platformv1.PodNameFor(set.Name, ordinal)
		if !slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
			p := factsOf(&pod, ordinal)
			return pod.Name == name && p.Life == rollout.Alive && p.Ready == rollout.Ready && p.Report.Health == agentreport.Healthy
		}) {
			return name
		}
	}
	return ""
}

// atWork names the Operation that works through pods of the Application at this moment; empty for none.
func (c *Controller) atWork(ctx context.Context, set *platformv1.WorkloadSet) (string, error) {
	present, err := records.Present(ctx, c.live, c.client, client.InNamespace(set.Namespace), client.MatchingLabels{platformv1.ApplicationLabel: set.Spec.Application})
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

// awaitTurn says which pods wait for an Operation.
func awaitTurn(f *facts, held []rollout.Step) outcome.Outcome {
	return outcome.Waiting(platformv1.ReasonOperationAtWork, fmt.Sprintf("waits for %s: %s", f.yields, describeHeld(held)))
}

// ofOperation wakes the sets of the Application that an Operation works on.
func (c *Controller) ofOperation(ctx context.Context, obj client.Object) []reconcile.Request {
	var list platformv1.WorkloadSetList
	application := obj.GetLabels()[platformv1.ApplicationLabel]
	if application == "" {
		return nil
	}
	if err := c.client.List(ctx, &list, client.InNamespace(obj.GetNamespace()), client.MatchingLabels{platformv1.ApplicationLabel: application}); err != nil {
		log.FromContext(ctx).Error(err, "cannot list WorkloadSets", "application", application)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// leftPods passes Operations that no longer work through pods, and those that are gone before they ended, which may leave something.
var leftPods = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return opsflow.AtWork(e.ObjectOld.(*platformv1.Operation)) && !opsflow.AtWork(e.ObjectNew.(*platformv1.Operation))
	},
	DeleteFunc:  func(e event.DeleteEvent) bool { return !opsflow.Finished(e.Object.(*platformv1.Operation)) },
	GenericFunc: func(event.GenericEvent) bool { return false },
}
