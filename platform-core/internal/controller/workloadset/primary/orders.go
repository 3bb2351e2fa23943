// SPDX-License-Identifier: Apache-2.0

package primary

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

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/failover"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// Asks finds the Operation that asks a set to have its primary replaced; nil for none. What one asked for that is gone
// or has ended is taken back: nobody would do that later, and the primary would move once more when its pod writes
// again.
func (r *Reconciler) Asks(ctx context.Context, set *platformv1.WorkloadSet) (*platformv1.Operation, error) {
	name, uid := requestOf(set).Operation()
	if name == "" {
		return nil, nil
	}
	key := types.NamespacedName{Namespace: set.Namespace, Name: name}
	op := &platformv1.Operation{}
	err := r.Client.Get(ctx, key, op)
	if apierrors.IsNotFound(err) || err == nil && op.UID != uid {
		// The cache may not have it yet.
		err = r.Live.Get(ctx, key, op)
	}
	switch {
	case err == nil && op.UID == uid && !opsflow.Finished(op):
		return op, nil
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("cannot read Operation %q, which asks WorkloadSet %q to have its primary replaced: %w", name,
			set.Name, err)
	}
	return nil, r.withdraw(ctx, set)
}

// withdraw takes back what a set was asked for.
func (r *Reconciler) withdraw(ctx context.Context, set *platformv1.WorkloadSet) error {
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
	err = r.Client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(facts.Owner))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		return fmt.Errorf("cannot take back what WorkloadSet %q was asked for: %w", set.Name, err)
	}
	delete(set.Annotations, platformv1.SwitchPrimaryAnnotation)
	return nil
}

// requestOf is what a set is asked for; the zero value for nothing.
func requestOf(set *platformv1.WorkloadSet) platformv1.HandoverRequest {
	return platformv1.ParseHandoverRequest(set.Annotations[platformv1.SwitchPrimaryAnnotation])
}

// concerned is the pod that an order is about: the one that writes, or while nobody is named the one before.
func (t *reconcile) concerned() string {
	if primary := facts.PrimaryOf(t.Primary); primary != "" || t.Primary == nil || t.Primary.Former == nil {
		return primary
	}
	return t.Primary.Former.Name
}

// ordered is the order to have another pod write: that of a person or an Operation, else that of the rollout, which is
// about to take the primary out.
func (t *reconcile) ordered() *failover.Order {
	primary := t.concerned()
	if primary == "" {
		return nil
	}
	if request := requestOf(t.set); request.From == primary {
		return t.requested(request)
	}
	steps := rollout.Plan(t.Rollout)
	isOrder := func(s rollout.Step) bool { return s.Action == rollout.SwitchOver && s.Pod == primary }
	if i := slices.IndexFunc(steps, isOrder); i >= 0 {
		t.order = &failover.Order{To: steps[i].To, Way: failover.AsNeeded}
		return t.order
	}
	if facts.PrimaryOf(t.Primary) == "" {
		return t.order
	}
	return nil
}

// requested is the order that a request gives. Only an Operation has another pod take over from one that cannot be
// asked, and only one that was approved accepts a loss.
func (t *reconcile) requested(request platformv1.HandoverRequest) *failover.Order {
	order := &failover.Order{To: request.To}
	if t.Asking == nil {
		return order
	}
	order.By = t.Asking.Name
	if request.Way == platformv1.TakeOver {
		order.Way = failover.TakeOver
	}
	if opsflow.AcceptsLoss(t.Asking) {
		order.Loss = failover.Accepted
	}
	return order
}

// noteOrder says in the status how it stands with what an Operation asks for.
func (t *reconcile) noteOrder(d failover.Decision) {
	request := requestOf(t.set)
	if request.Request == "" || t.Asking == nil {
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
		next.To, next.Phase = facts.PrimaryOf(t.Primary), platformv1.SwitchoverSucceeded
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
	next.Since, next.Generation = metav1.NewTime(t.Facts.Now), t.set.Generation
	t.set.Status.Switchover = &next
}

// finishOrder takes an order back that is carried out: it is not to move the primary once more when the pod writes
// again later.
func (t *reconcile) finishOrder(ctx context.Context, d failover.Decision) error {
	request := requestOf(t.set)
	if request.From == "" || d.State != failover.Steady || facts.PrimaryOf(t.Primary) == "" ||
		request.From == facts.PrimaryOf(t.Primary) {
		return nil
	}
	return t.withdraw(ctx, t.set)
}
