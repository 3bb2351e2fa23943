// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/failover"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// asks finds the Operation that asks a set to have its primary replaced; nil for none. What one asked for that is gone
// or has ended is taken back: nobody would do that later, and the primary would move once more when its pod writes
// again.
func (c *Controller) asks(ctx context.Context, set *platformv1.WorkloadSet) (*platformv1.Operation, error) {
	name, uid := requestOf(set).Operation()
	if name == "" {
		return nil, nil
	}
	key := types.NamespacedName{Namespace: set.Namespace, Name: name}
	op := &platformv1.Operation{}
	err := c.client.Get(ctx, key, op)
	if apierrors.IsNotFound(err) || err == nil && op.UID != uid {
		// The cache may not have it yet.
		err = c.live.Get(ctx, key, op)
	}
	switch {
	case err == nil && op.UID == uid && !opsflow.Finished(op):
		return op, nil
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("cannot read Operation %q, which asks WorkloadSet %q to have its primary replaced: %w", name,
			set.Name, err)
	}
	return nil, c.withdraw(ctx, set)
}

// withdraw takes back what a set was asked for.
func (c *Controller) withdraw(ctx context.Context, set *platformv1.WorkloadSet) error {
	// Only this very request: the next one may be there already.
	path := "/metadata/annotations/" + strings.ReplaceAll(platformv1.SwitchPrimaryAnnotation, "/", "~1")
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": set.UID},
		{"op": "test", "path": path, "value": set.Annotations[platformv1.SwitchPrimaryAnnotation]},
		{"op": "remove", "path": path},
	})
	if err != nil {
		return err
	}
	target := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	err = c.client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(owner))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		return fmt.Errorf("cannot take back what WorkloadSet %q was asked for: %w", set.Name, err)
	}
	delete(set.Annotations, platformv1.SwitchPrimaryAnnotation)
	return nil
}

// over passes Operations that are gone, or have just ended.
var over = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return opsflow.Finished(e.ObjectNew.(*platformv1.Operation)) && !opsflow.Finished(e.ObjectOld.(*platformv1.Operation))
	},
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// ofRequest maps an Operation that is over to the set that it asked to have its primary replaced.
func ofRequest(_ context.Context, obj client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, set := range opsflow.Asked(obj.(*platformv1.Operation)) {
		requests = append(requests, reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: set}})
	}
	return requests
}

// requestOf is what a set is asked for; the zero value for nothing.
func requestOf(set *platformv1.WorkloadSet) platformv1.HandoverRequest {
	return platformv1.ParseHandoverRequest(set.Annotations[platformv1.SwitchPrimaryAnnotation])
}

// concerned is the pod that an order is about: the one that writes, or while nobody is named the one before.
func (t *primaryReconcile) concerned() string {
	if primary := primaryOf(t.primary); primary != "" || t.primary == nil || t.primary.Former == nil {
		return primary
	}
	return t.primary.Former.Name
}

// ordered is the order to have another pod write: that of a person or an Operation, else that of the rollout, which is
// about to take the primary out.
func (t *primaryReconcile) ordered() *failover.Order {
	primary := t.concerned()
	if primary == "" {
		return nil
	}
	if request := requestOf(t.set); request.From == primary {
		return t.requested(request)
	}
	steps := rollout.Plan(t.rollout)
	isOrder := func(s rollout.Step) bool { return s.Action == rollout.SwitchOver && s.Pod == primary }
	if i := slices.IndexFunc(steps, isOrder); i >= 0 {
		t.order = &failover.Order{To: steps[i].To, Way: failover.AsNeeded}
		return t.order
	}
	if primaryOf(t.primary) == "" {
		return t.order
	}
	return nil
}

// requested is the order that a request gives. Only an Operation has another pod take over from one that cannot be
// asked, and only one that was approved accepts a loss.
func (t *primaryReconcile) requested(request platformv1.HandoverRequest) *failover.Order {
	order := &failover.Order{To: request.To}
	if t.asking == nil {
		return order
	}
	order.By = t.asking.Name
	if request.Way == platformv1.TakeOver {
		order.Way = failover.TakeOver
	}
	if opsflow.AcceptsLoss(t.asking) {
		order.Loss = failover.Accepted
	}
	return order
}

// noteOrder says in the status how it stands with what an Operation asks for.
func (t *primaryReconcile) noteOrder(d failover.Decision) {
	request := requestOf(t.set)
	if request.Request == "" || t.asking == nil {
		return
	}
	next := platformv1.SwitchoverState{From: request.From, To: request.To, Generation: t.set.Generation,
		Request: request.Request, Attempt: 1,
		Phase: platformv1.SwitchoverRunning, Message: d.Refused}
	last := t.set.Status.Switchover
	switch {
	case request.From != t.concerned() && (last == nil || last.Request != request.Request):
		return // it never was about the pod that writes
	case request.From != t.concerned():
		next.To, next.Phase = primaryOf(t.primary), platformv1.SwitchoverSucceeded
	case d.Refused != "" && (d.State == failover.Steady || request.Way == platformv1.TakeOver):
		// A primary that is down hands over once it is back.
		next.Phase = platformv1.SwitchoverFailed
	}
	if last != nil {
		next.Since, next.Generation = last.Since, last.Generation
		if *last == next {
			return
		}
	}
	next.Since, next.Generation = metav1.NewTime(t.now), t.set.Generation
	t.set.Status.Switchover = &next
}

// finishOrder takes an order back that is carried out: it is not to move the primary once more when the pod writes
// again later.
func (t *primaryReconcile) finishOrder(ctx context.Context, d failover.Decision) error {
	request := requestOf(t.set)
	if request.From == "" || d.State != failover.Steady || primaryOf(t.primary) == "" ||
		request.From == primaryOf(t.primary) {
		return nil
	}
	return t.withdraw(ctx, t.set)
}
