// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/queue"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// owner names the controller.
const owner = "dataset"

// Kind is the controller of Datasets, for operator.Options.
type Kind struct {
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

var _ operator.Judge = Kind{}

// Object implements operator.Controller.
func (Kind) Object() client.Object { return &aiv1.Dataset{} }

// Judge implements operator.Judge.
func (Kind) Judge(obj client.Object, s operator.ControllerSettings) error {
	ds := obj.(*aiv1.Dataset)
	for i := range ds.Spec.Versions {
		v := &ds.Spec.Versions[i]
		parent := &aiv1.DatasetVersionStatus{Claim: "input"}
		claim := claimName(ds, v.Name)
		if _, err := templateOf("agents", claim, v, sizeOf(ds, v), parent, s.CheckTemplate); err != nil {
			return err
		}
	}
	return nil
}

// Setup implements operator.Controller.
func (k Kind) Setup(mgr ctrl.Manager, s operator.ControllerSettings) error {
	c := &Controller{client: mgr.GetClient(), live: mgr.GetAPIReader(), image: s.AgentImage, check: s.CheckTemplate,
		now: k.Now, ask: newAsker()}
	if c.now == nil {
		c.now = time.Now
	}
	c.apply = apply.NewWithReader(c.client, c.live, owner)
	c.frame = frame.New(c.client, c.work, finish).AtOnce(turned).Counting(owner)
	changed := predicate.Or[client.Object](predicate.GenerationChangedPredicate{},
		predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&aiv1.Dataset{}, builder.WithPredicates(changed)).
		Owns(&platformv1.Operation{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(ofClaim)).
		Watches(&aiv1.Inference{}, handler.EnqueueRequestsFromMapFunc(ofInference)).
		WithOptions(queue.Options(s.Workers)).
		Complete(c)
}

// ofClaim wakes the Dataset of a claim.
func ofClaim(_ context.Context, claim client.Object) []reconcile.Request {
	name := claim.GetLabels()[aiv1.DatasetLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: claim.GetNamespace(), Name: name}}}
}

// Controller prepares the versions of Datasets.
type Controller struct {
	client client.Client
	live   client.Reader
	apply  *apply.Applier
	// image of the agents.
	image string
	// check says what is wrong with an inline template.
	check func(text string) error
	now   func() time.Time
	ask   *asker
	frame *frame.Frame[*aiv1.Dataset]
}

// turned says whether a status has more news than how far versions are.
func turned(before, after *aiv1.Dataset) bool {
	told := func(ds *aiv1.Dataset) []aiv1.DatasetVersionStatus {
		all := ds.DeepCopy().Status.Versions
		for i := range all {
			all[i].Message = ""
		}
		return all
	}
	return before.Status.LastRetry != after.Status.LastRetry || !reflect.DeepEqual(told(before), told(after))
}

// finish fills in the phase.
func finish(ds *aiv1.Dataset, o outcome.Outcome) {
	switch {
	case !ds.DeletionTimestamp.IsZero():
		ds.Status.Phase = platformv1.PhaseDeleting
	case o.Kind() == outcome.KindDone:
		ds.Status.Phase = platformv1.PhaseReady
	case o.Kind() == outcome.KindStalled:
		ds.Status.Phase = platformv1.PhaseStalled
	case o.Kind() == outcome.KindWaiting:
		ds.Status.Phase = platformv1.PhasePending
	}
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ds := &aiv1.Dataset{}
	result, err := c.frame.Reconcile(ctx, request, ds)
	if ds.UID == "" || !ds.DeletionTimestamp.IsZero() {
		c.ask.remember(request.NamespacedName, nil)
	}
	return result, err
}

// work decides on a Dataset, acts, and fills in the status.
func (c *Controller) work(ctx context.Context, ds *aiv1.Dataset) outcome.Outcome {
	f, err := c.observe(ctx, ds)
	if err != nil {
		return outcome.Failed(err)
	}
	before := ds.Status.DeepCopy()
	p := decide(ds, f)
	if err := c.act(ctx, ds, p); err != nil {
		ds.Status = *before
		return apply.Outcome(err)
	}
	if !p.wake.IsZero() {
		return p.outcome.Within(max(p.wake.Sub(f.now), time.Millisecond))
	}
	return p.outcome
}

// observe reads what a Dataset is decided on.
func (c *Controller) observe(ctx context.Context, ds *aiv1.Dataset) (facts, error) {
	f := facts{now: c.now(), image: c.image, check: c.check, operations: map[string]*platformv1.Operation{},
		claims: map[string]*corev1.PersistentVolumeClaim{}, taken: map[string]bool{}}
	for _, st := range ds.Status.Versions {
		if st.Phase != aiv1.DatasetPreparing {
			continue
		}
		op, err := c.apply.Operation(ctx, ds, st.Operation)
		if err != nil {
			return f, err
		}
		if op != nil {
			f.operations[op.Name] = op
		}
	}
	var err error
	if f.progress, err = c.progress(ctx, ds, f.operations); err != nil {
		return f, err
	}
	claims := client.Reader(c.client)
	if !ds.DeletionTimestamp.IsZero() {
		// A claim that the cache does not have yet would stay behind.
		claims = c.live
	}
	var list corev1.PersistentVolumeClaimList
	err = claims.List(ctx, &list, client.InNamespace(ds.Namespace),
		client.MatchingLabels{aiv1.DatasetLabel: ds.Name})
	if err != nil {
		return f, fmt.Errorf("cannot list the claims of Dataset %q: %w", ds.Name, err)
	}
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.Labels[aiv1.DatasetUIDLabel] == string(ds.UID) {
			f.claims[claim.Name] = claim
		} else {
			f.taken[claim.Name] = true
		}
	}
	if err := c.confirmClaims(ctx, ds, f.claims); err != nil {
		return f, err
	}
	if f.users, err = users(ctx, c.client, ds); err != nil {
		return f, err
	}
	leaves := len(going(ds, f)) > 0
	if leaves || !ds.DeletionTimestamp.IsZero() {
		// Something goes for good: a user of a moment ago counts as well.
		if f.users, err = users(ctx, c.live, ds); err != nil {
			return f, err
		}
	}
	if leaves {
		err = c.observePods(ctx, ds, &f)
	}
	return f, err
}

// confirmClaims adds the claims of versions that are ready or being prepared, and that the cache does not have yet: a
// version that would not fit beside them is not begun.
func (c *Controller) confirmClaims(ctx context.Context, ds *aiv1.Dataset,
	claims map[string]*corev1.PersistentVolumeClaim) error {
	own := map[aiv1.DatasetVersionName]bool{}
	for i := range ds.Spec.Versions {
		own[ds.Spec.Versions[i].Name] = hasOwnClaim(&ds.Spec.Versions[i])
	}
	for _, st := range ds.Status.Versions {
		name := claimName(ds, st.Name)
		has := st.Phase == aiv1.DatasetReady && st.Claim == name || st.Phase == aiv1.DatasetPreparing && own[st.Name]
		if !has || claims[name] != nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		err := c.live.Get(ctx, client.ObjectKey{Namespace: ds.Namespace, Name: name}, claim)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("cannot read PersistentVolumeClaim %q: %w", name, err)
		case err == nil && claim.Labels[aiv1.DatasetUIDLabel] == string(ds.UID):
			claims[name] = claim
		}
	}
	return nil
}
