// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/livereader"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/scheduling"
	"github.com/zeroinfra/platform-core/sdk/queue"
)

const (
	// unrecordedRetry is when a record is looked at again whose time is over, and of which its schedule does not know yet.
	unrecordedRetry = 2 * time.Second
	// mostDeletions is how many records go in one turn.
	mostDeletions = 200
	// gatherTime is how long Operations are gathered that end: each turn goes through all records of an Application.
	gatherTime = time.Second
	// nobody stands for the Application of what never found one. No Application has this name.
	nobody = "-"
)

// historian keeps the records of Operations, those of one Application at a time, as long as that or else the operator
// says. What has long ended costs nothing but its place in the cache.
type historian struct{ *Controller }

func (c *Controller) setupHistory(mgr manager.Manager) error {
	h := historian{c}
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner+"-history").
		Watches(&platformv1.Operation{}, queue.Gather(gatherTime, ofRecord), builder.WithPredicates(isRecord)).
		Watches(&platformv1.Application{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(keepsOtherwise)).
		WatchesRawSource(c.Settings.HistorySource(h.all)).
		WithOptions(queue.Options(c.Workers)).
		Complete(h)
}

// Reconcile deletes the records of an Application whose time is over, and the oldest of those that are too many.
func (h historian) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	app, err := h.application(ctx, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	spare, err := h.spare(ctx, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	due, next := opsflow.Due(spare, h.historyOf(app), h.Now())
	var failures []error
	deleted := 0
	for _, old := range due {
		if deleted == mostDeletions {
			next = time.Millisecond
			break
		}
		if recorded, err := h.recorded(ctx, app, old); !recorded || err != nil {
			next, failures = unrecordedRetry, append(failures, err)
			continue
		}
		deleted++
		gone := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name}}
		failures = append(failures, client.IgnoreNotFound(h.client.Delete(ctx, gone, client.Preconditions{UID: &old.UID})))
	}
	return reconcile.Result{RequeueAfter: next}, errors.Join(failures...)
}

// spare are the Operations of an Application that have ended and that nobody needs; shared, and not to be changed. The
// end of one that needs others wakes us.
func (h historian) spare(ctx context.Context, request reconcile.Request) ([]*platformv1.Operation, error) {
	var list platformv1.OperationList
	err := h.client.List(ctx, &list, client.InNamespace(request.Namespace),
		client.MatchingFields{finishedField: request.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("cannot list the Operations of Application %q: %w", request.NamespacedName, err)
	}
	spare := make([]*platformv1.Operation, 0, len(list.Items))
	for i := range list.Items {
		if !list.Items[i].DeletionTimestamp.IsZero() {
			continue
		}
		needed, err := h.needed(ctx, &list.Items[i])
		if err != nil {
			return nil, err
		}
		if !needed {
			spare = append(spare, &list.Items[i])
		}
	}
	return spare, nil
}

// application reads the one that records are of; nil when it is gone or was never known. Of one that cannot be decoded,
// which the cache lacks too, nobody knows how long its records are to be kept.
func (h historian) application(ctx context.Context, request reconcile.Request) (*platformv1.Application, error) {
	if request.Name == nobody {
		return nil, nil
	}
	app := &platformv1.Application{}
	err := livereader.Reader{Cached: h.client, Live: h.live}.Get(ctx, request.NamespacedName, app)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read Application %q, whose records are kept: %w", request.NamespacedName, err)
	}
	return app, nil
}

// historyOf is what an Application says of its records, or the operator in its place.
func (h historian) historyOf(app *platformv1.Application) *platformv1.OperationHistory {
	if app != nil && app.Spec.OperationHistory != nil {
		return app.Spec.OperationHistory
	}
	return new(h.Settings.History())
}

// needed says whether the Operation whose step a finished one is has yet to end: it reads there what became of its
// step, and would make it again.
func (h historian) needed(ctx context.Context, op *platformv1.Operation) (bool, error) {
	parent, err := parentIn(ctx, h.client, op)
	return parent != nil && !opsflow.Finished(parent), err
}

// parentIn reads the Operation whose step runs this one; nil when there is none, or it is gone.
func parentIn(ctx context.Context, reader getter, op *platformv1.Operation) (*platformv1.Operation, error) {
	uid := opsflow.ParentOf(op)
	if uid == "" {
		return nil, nil
	}
	parent := &platformv1.Operation{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: metav1.GetControllerOf(op).Name}, parent)
	if apierrors.IsNotFound(err) || err == nil && parent.UID != uid {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the Operation that %q is a step of: %w", op.Name, err)
	}
	return parent, nil
}

// getter reads one object.
type getter interface {
	Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error
}

// recorded says whether the Application knows of the Operation of its schedule, and the WorkloadSet of the record of
// its failover: without that it would be made again.
func (c *Controller) recorded(ctx context.Context, app *platformv1.Application,
	op *platformv1.Operation) (bool, error) {
	switch {
	case op.Labels[platformv1.ScheduleLabel] != "":
		return app == nil || scheduling.Recorded(app, op), nil
	case !opsflow.RecordsFailover(op):
		return true, nil
	}
	set := &platformv1.WorkloadSet{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: opsflow.RecordedSet(op)}, set)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && opsflow.Noted(set, op), err
}

// ofRecord wakes the history of the Application of an Operation.
func ofRecord(obj client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(),
		Name: keeperOf(obj.(*platformv1.Operation))}}
}

// keeperOf names the Application with whose records that of an Operation is kept: its own, else the one that it is
// labelled with, else nobody.
func keeperOf(op *platformv1.Operation) string {
	return cmp.Or(op.Status.Application, op.Labels[platformv1.ApplicationLabel], nobody)
}

// all wakes the histories of all Applications: the operator keeps records otherwise than before.
func (h historian) all(ctx context.Context) []reconcile.Request {
	var list platformv1.OperationList
	if err := h.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "cannot list Operations")
		return nil
	}
	var requests []reconcile.Request
	seen := map[reconcile.Request]bool{}
	for i := range list.Items {
		if request := ofRecord(&list.Items[i]); !seen[request] {
			seen[request] = true
			requests = append(requests, request)
		}
	}
	return requests
}

// isRecord passes Operations that have ended: all that there are at the start, and each as it ends.
var isRecord = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return opsflow.Finished(e.Object.(*platformv1.Operation)) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return opsflow.Finished(e.ObjectNew.(*platformv1.Operation)) && !opsflow.Finished(e.ObjectOld.(*platformv1.Operation))
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// keepsOtherwise passes Applications that say something else of their records than before.
var keepsOtherwise = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*platformv1.Application), e.ObjectNew.(*platformv1.Application)
		return !equality.Semantic.DeepEqual(was.Spec.OperationHistory, is.Spec.OperationHistory)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
}
