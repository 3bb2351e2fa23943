// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginindex"
	"github.com/zeroinfra/platform-core/sdk/objectcache"
	"github.com/zeroinfra/platform-core/sdk/queue"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
)

// Names of the controllers.
const (
	ofApplications = "claim-application"
	ofOperations   = "claim-operation"
	ofEntities     = "claim-entity"
)

// Deps are what the controllers need from their surroundings.
type Deps struct {
	// Index of the loaded plugins.
	Index *plugin.Index
	// Domain that this operator serves.
	Domain string
	// Kinds says whether it serves a typed kind; nil for none.
	Kinds func(schema.GroupKind) bool
	// Namespaces that it serves; all when empty.
	Namespaces map[string]cache.Config
	// Workers of each of the controllers; queue.DefaultWorkers when nil.
	Workers *queue.Limit
	// Gate wraps the reconcilers, to hold them back until plugins are loaded; nil for none.
	Gate func(reconcile.Reconciler) reconcile.Reconciler
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

// Controller claims Applications, Operations and Entities.
type Controller struct {
	Deps
	client client.Client
	live   client.Reader
	// unclaimed holds the metadata of objects without a domain.
	unclaimed     client.Reader
	reporterLease *reporterLease
}

// Setup registers the controllers with a manager.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	unclaimed, err := unclaimedCache(mgr, deps.Namespaces)
	if err != nil {
		return err
	}
	c := &Controller{Deps: deps, client: mgr.GetClient(), live: mgr.GetAPIReader(), unclaimed: unclaimed}
	c.reporterLease = &reporterLease{identity: deps.Domain + "_" + string(uuid.NewUUID()), writer: mgr.GetClient(),
		live: mgr.GetAPIReader(), now: deps.Now}
	if err := mgr.Add(c.reporterLease); err != nil {
		return err
	}
	gate := func(r reconcile.Reconciler) reconcile.Reconciler { return r }
	if deps.Gate != nil {
		gate = deps.Gate
	}
	enqueue := &handler.TypedEnqueueRequestForObject[*metav1.PartialObjectMetadata]{}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(ofApplications).
		WatchesRawSource(source.Kind(unclaimed, metadataOf("Application"), enqueue)).
		Watches(&platformv1.Plugin{}, handler.EnqueueRequestsFromMapFunc(c.allApplications),
			builder.WithPredicates(pluginindex.PluginChanged)).
		WithOptions(queue.Options(deps.Workers)).
		Complete(gate(reconcile.Func(c.reconcileApplication)))
	if err != nil {
		return err
	}
	for _, of := range []struct {
		name, kind string
		reconcile  reconcile.Func
	}{{ofOperations, "Operation", c.reconcileOperation}, {ofEntities, "Entity", c.reconcileEntity}} {
		err = ctrl.NewControllerManagedBy(mgr).
			Named(of.name).
			WatchesRawSource(source.Kind(unclaimed, metadataOf(of.kind), enqueue)).
			WatchesRawSource(source.Kind(unclaimed, metadataOf("Application"),
				handler.TypedEnqueueRequestsFromMapFunc(c.beside(of.kind)))).
			WithOptions(queue.Options(deps.Workers)).
			Complete(gate(of.reconcile))
		if err != nil {
			return err
		}
	}
	return nil
}

// unclaimedCache makes a cache of what has no domain; the manager's holds what is of ours.
func unclaimedCache(mgr ctrl.Manager, namespaces map[string]cache.Config) (cache.Cache, error) {
	without, err := labels.NewRequirement(platformv1.DomainLabel, selection.DoesNotExist, nil)
	if err != nil {
		return nil, err
	}
	unclaimed, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:           mgr.GetHTTPClient(),
		Scheme:               mgr.GetScheme(),
		Mapper:               mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.NewSelector().Add(*without),
		DefaultNamespaces:    namespaces,
		DefaultTransform:     cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the cache of objects without a domain: %w", err)
	}
	return unclaimed, mgr.Add(unclaimed)
}

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(platformv1.GroupVersion.WithKind(kind))
	return obj
}

// allApplications wakes every Application without a domain: any may have waited for the plugin that changed.
func (c *Controller) allApplications(ctx context.Context, _ client.Object) []reconcile.Request {
	return c.withoutDomain(ctx, "Application")
}

// beside wakes the objects of a kind without a domain in the namespace of an Application that
// appeared, or that is no longer without a domain.
func (c *Controller) beside(kind string) handler.TypedMapFunc[*metav1.PartialObjectMetadata, reconcile.Request] {
	return func(ctx context.Context, app *metav1.PartialObjectMetadata) []reconcile.Request {
		return c.withoutDomain(ctx, kind, client.InNamespace(app.Namespace))
	}
}

func (c *Controller) withoutDomain(ctx context.Context, kind string, options ...client.ListOption) []reconcile.Request {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(platformv1.GroupVersion.WithKind(kind + "List"))
	if err := c.unclaimed.List(ctx, list, options...); err != nil {
		log.FromContext(ctx).Error(err, "cannot list objects without a domain", "kind", kind)
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// claim adds the label of the domain, and others, if nobody has written the object since it was read.
func (c *Controller) claim(ctx context.Context, obj client.Object, others map[string]string) error {
	before := obj.DeepCopyObject().(client.Object)
	labelled := map[string]string{platformv1.DomainLabel: c.Domain}
	maps.Copy(labelled, others)
	for key, value := range obj.GetLabels() {
		labelled[key] = value
	}
	obj.SetLabels(labelled)
	bound := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, obj, bound); err != nil {
		return fmt.Errorf("cannot claim %T %q for domain %q: %w", obj, client.ObjectKeyFromObject(obj), c.Domain, err)
	}
	log.FromContext(ctx).Info("Claimed", "domain", c.Domain)
	return nil
}

// writeStatus writes a status when it is this operator's turn to speak, and if nobody has written the object since it
// was read; else the result says when to look again.
func (c *Controller) writeStatus(ctx context.Context, before, after client.Object) (reconcile.Result, error) {
	if wait, err := c.reporterLease.turn(ctx); err != nil || wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, err
	}
	bound := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Status().Patch(ctx, after, bound); overtaken(err) != nil {
		return reconcile.Result{}, fmt.Errorf("cannot write the status of %T %q: %w", after,
			client.ObjectKeyFromObject(after), err)
	}
	return reconcile.Result{}, nil
}

// overtaken drops the error of a write that came too late: another operator was faster, or the object
// changed, which wakes us.
func overtaken(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// age of an object by this machine's clock.
func (c *Controller) age(obj client.Object) time.Duration {
	return c.Now().Sub(obj.GetCreationTimestamp().Time)
}

// unclaimedObject reads an object of a kind live; false when it is gone, is going, or has a domain by now.
func (c *Controller) unclaimedObject(
	ctx context.Context, key types.NamespacedName, kind string, obj client.Object,
) (bool, error) {
	err := c.live.Get(ctx, key, obj)
	if objectcache.CannotDecode(err) && c.unclaimed.Get(ctx, key, metadataOf(kind)) == nil {
		telemetry.Undecodable(kind, key.Namespace, key.Name)
		return false, fmt.Errorf("%s %q cannot be decoded, and no operator claims it until it is corrected: %w",
			kind, key, err)
	}
	telemetry.Decodable(kind, key.Namespace, key.Name)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return obj.GetDeletionTimestamp().IsZero() && obj.GetLabels()[platformv1.DomainLabel] == "", nil
}
