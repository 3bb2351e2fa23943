// SPDX-License-Identifier: Apache-2.0

package failoverrecord

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// owner names the controller.
const owner = "failover-record"

// takenRetry is when a name is tried again that something else has, which is on its way out as a rule.
const takenRetry = 10 * time.Second

// Controller records failovers.
type Controller struct {
	client client.Client
	live   client.Reader
}

// Setup registers the controller with a manager.
func Setup(mgr ctrl.Manager, options controller.Options) error {
	c := &Controller{client: mgr.GetClient(), live: mgr.GetAPIReader()}
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&platformv1.WorkloadSet{}, builder.WithPredicates(changed)).
		WithOptions(options).
		Complete(c)
}

// changed passes sets whose terms, or the record of them, are others than before.
var changed = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*platformv1.WorkloadSet), e.ObjectNew.(*platformv1.WorkloadSet)
	return !equality.Semantic.DeepEqual(due(was), due(is))
}}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	set := &platformv1.WorkloadSet{}
	if err := c.client.Get(ctx, request.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	terms := due(set)
	if len(terms) == 0 || !set.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	app := &platformv1.Application{}
	err := c.client.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: set.Spec.Application}, app)
	if apierrors.IsNotFound(err) || err == nil && string(app.UID) != set.Labels[platformv1.ApplicationUIDLabel] {
		// The set goes with its Application, and so would its records.
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot read Application %q: %w", set.Spec.Application, err)
	}
	for _, term := range terms {
		if taken, err := c.create(ctx, app, set, term); taken || err != nil {
			return reconcile.Result{RequeueAfter: takenRetry}, err
		}
	}
	return reconcile.Result{}, c.note(ctx, set, slices.Max(terms))
}

// create makes the record of a term. taken says that something else has its name.
func (c *Controller) create(ctx context.Context, app *platformv1.Application, set *platformv1.WorkloadSet, term int64) (
	taken bool, err error) {
	op := operation(app, set, term)
	if err := controllerutil.SetControllerReference(app, op, c.client.Scheme()); err != nil {
		return false, err
	}
	err = c.client.Create(ctx, op)
	if !apierrors.IsAlreadyExists(err) {
		return false, err
	}
	there := &platformv1.Operation{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(op), there); err != nil {
		return false, err
	}
	return !metav1.IsControlledBy(there, app), nil
}

// note keeps on the set how far its terms are on record.
func (c *Controller) note(ctx context.Context, set *platformv1.WorkloadSet, term int64) error {
	body := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:"%d"}}}`, set.UID, platformv1.RecordedTermAnnotation,
		term)
	target := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	return client.IgnoreNotFound(c.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(body)),
		client.FieldOwner(owner)))
}
