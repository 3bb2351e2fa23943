// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/scheduling"
)

// neededRetry is when a record is looked at again whose time is over while the Operation that it is a step of runs.
const neededRetry = 2 * time.Second

// application reads the one that an Operation acted on from the cache; nil when it is gone or was never known.
func (c *Controller) application(ctx context.Context, op *platformv1.Operation) (*platformv1.Application, error) {
	if op.Status.Application == "" {
		return nil, nil
	}
	app := &platformv1.Application{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: op.Status.Application}, app)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return app, err
}

// expire deletes a finished Operation whose time to live is over.
func (c *Controller) expire(ctx context.Context, op *platformv1.Operation) (reconcile.Result, error) {
	app, err := c.application(ctx, op)
	if err != nil {
		return reconcile.Result{}, err
	}
	at, expires := opsflow.Expiry(op, historyOf(app))
	if !expires {
		return reconcile.Result{}, nil
	}
	if left := at.Sub(c.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if recorded, err := c.recorded(ctx, app, op); !recorded || err != nil {
		return reconcile.Result{RequeueAfter: unclaimedRetry}, err
	}
	if needed, err := c.needed(ctx, op); needed || err != nil {
		return reconcile.Result{RequeueAfter: neededRetry}, err
	}
	err = c.client.Delete(ctx, op, client.Preconditions{UID: &op.UID})
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// prune deletes the oldest records of an Application that has more than it keeps. It is done when one ends, so that what has long
// ended costs nothing.
func (c *Controller) prune(ctx context.Context, op *platformv1.Operation) error {
	app, err := c.application(ctx, op)
	if err != nil || historyOf(app) == nil {
		return err
	}
	var list platformv1.OperationList
	if err := c.client.List(ctx, &list, client.InNamespace(op.Namespace), client.MatchingFields{finishedField: op.Status.Application}); err != nil {
		return fmt.Errorf("cannot list the Operations of Application %q: %w", app.Name, err)
	}
	// The cache may not show yet that this one has ended.
	all := []*platformv1.Operation{op}
	for i := range list.Items {
		if list.Items[i].UID != op.UID {
			all = append(all, &list.Items[i])
		}
	}
	var spare []*platformv1.Operation
	for _, one := range all {
		needed, err := c.needed(ctx, one)
		if err != nil {
			return err
		}
		if !needed || opsflow.ParentOf(one) == op.UID {
			spare = append(spare, one)
		}
	}
	var failures []error
	for _, old := range opsflow.Surplus(spare, historyOf(app)) {
		recorded, err := c.recorded(ctx, app, old)
		if err != nil {
			return err
		}
		if recorded {
			failures = append(failures, client.IgnoreNotFound(c.client.Delete(ctx, old, client.Preconditions{UID: &old.UID})))
		}
	}
	return errors.Join(failures...)
}

// needed says whether the Operation whose step a finished one is has yet to end: it reads there what became of its step, and would make
// it again.
func (c *Controller) needed(ctx context.Context, op *platformv1.Operation) (bool, error) {
	uid := opsflow.ParentOf(op)
	if uid == "" {
		return false, nil
	}
	parent := &platformv1.Operation{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: metav1.GetControllerOf(op).Name}, parent)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && parent.UID == uid && !opsflow.Finished(parent), err
}

func historyOf(app *platformv1.Application) *platformv1.OperationHistory {
	if app == nil {
		return nil
	}
	return app.Spec.OperationHistory
}

// recorded says whether the Application knows of the Operation of its schedule, and the WorkloadSet of the record of its failover:
// without that it would be made again.
func (c *Controller) recorded(ctx context.Context, app *platformv1.Application, op *platformv1.Operation) (bool, error) {
	switch {
	case op.Labels[platformv1.ScheduleLabel] != "":
		return app == nil || scheduling.Recorded(app, op), nil
	case !opsflow.RecordsFailover(op):
		return true, nil
	}
	set := &platformv1.WorkloadSet{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: op.Spec.TargetRef.Name}, set)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && opsflow.Noted(set, op), err
}
