// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/patch"
)

const (
	// owner is the field owner of all that this controller applies.
	owner = "plugin"
	// shortDigestLength is how much of a digest people read.
	shortDigestLength = 12
)

// Deps are what the controller needs from its surroundings.
type Deps struct {
	// Index to feed.
	Index *plugin.Index
	// Namespace of the operator, where plugins are trusted.
	Namespace string
	// Domain that this operator serves.
	Domain string
	// Options of the controller: workers and rate limits.
	Options controller.Options
	// Now tells the time; time.Now in production.
	Now func() time.Time
	// Load parses and checks a bundle; plugin.Load when nil. What it returns is shared and not changed.
	Load LoadFunc
	// Leads reports whether an operator of the domain in another namespace leads; none does when nil.
	Leads func(ctx context.Context, namespace string) (bool, error)
}

// LoadFunc parses and checks the sources of a bundle, as plugin.Load does.
type LoadFunc func(sources map[plugin.Part]plugin.Source) (*plugin.Bundle, []plugin.LoadError)

// Controller loads bundles and publishes Plugin objects.
type Controller struct {
	Deps
	*Loader
	client client.Client
	live   client.Reader
	apply  *apply.Applier
	events *event.Recorder
}

// Setup registers the loader and the controller with a manager. The loader runs on every
// replica, publishing only on the leader.
func Setup(mgr ctrl.Manager, deps Deps) (*Loader, error) {
	marked, err := labels.NewRequirement(platformv1.PluginLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	// A cache of its own: the manager's selects on the domain label, which plugins do not carry.
	bundles, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:        mgr.GetHTTPClient(),
		Scheme:            mgr.GetScheme(),
		Mapper:            mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{deps.Namespace: {}},
		ByObject:          map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: labels.NewSelector().Add(*marked)}},
		DefaultTransform:  cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the cache of plugins: %w", err)
	}
	if err := mgr.Add(everywhere{bundles.Start}); err != nil {
		return nil, err
	}
	if deps.Load == nil {
		deps.Load = plugin.Load
	}
	c := &Controller{
		Deps:   deps,
		Loader: &Loader{reader: bundles, namespace: deps.Namespace, domain: deps.Domain, index: deps.Index, parse: deps.Load},
		client: mgr.GetClient(),
		live:   mgr.GetAPIReader(),
		apply:  apply.NewWithReader(mgr.GetClient(), mgr.GetAPIReader(), owner),
		events: event.New(mgr.GetEventRecorder(owner)),
	}
	follow := func(ctx context.Context) error { return c.follow(ctx, bundles) }
	if err := mgr.Add(everywhere{follow}); err != nil {
		return nil, err
	}
	mapper := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, cm *corev1.ConfigMap) []reconcile.Request {
		s, ok := plugin.ParseSource(cm)
		if !ok {
			return nil
		}
		return []reconcile.Request{requestOf(key{s.Plugin, s.Version})}
	})
	indexer := mgr.GetFieldIndexer()
	if err := indexer.IndexField(context.Background(), &platformv1.Application{}, instanceField, byVersion); err != nil {
		return nil, err
	}
	return c.Loader, ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		WatchesRawSource(source.Kind(bundles, &corev1.ConfigMap{}, mapper)).
		Watches(&platformv1.Plugin{}, handler.EnqueueRequestsFromMapFunc(c.ofPublished)).
		Watches(&platformv1.Application{}, counted{}).
		WithOptions(deps.Options).
		Complete(c)
}

// everywhere runs on every replica, leader or not.
type everywhere struct{ run manager.RunnableFunc }

// Start implements manager.Runnable.
func (e everywhere) Start(ctx context.Context) error { return e.run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

// requestOf packs a version of a plugin into a request; both are DNS-like, so the pair is unambiguous.
func requestOf(k key) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: k.name, Name: k.version}}
}

// ofPublished has a Plugin object of this domain that nobody stands behind any more looked at again.
func (c *Controller) ofPublished(_ context.Context, obj client.Object) []reconcile.Request {
	spec := obj.(*platformv1.Plugin).Spec
	if obj.GetLabels()[platformv1.DomainLabel] != c.Domain {
		return nil
	}
	return []reconcile.Request{requestOf(key{spec.Plugin, spec.Version})}
}

// Reconcile implements reconcile.Reconciler: it loads one version of a plugin and publishes its state.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	k := key{request.Namespace, request.Name}
	found, err := c.sources(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	p, ok := found[k]
	if !ok {
		c.forget(k)
		return reconcile.Result{}, c.withdraw(ctx, k)
	}
	state := c.load(k, p)
	theirs, err := c.theirs(ctx, k, p)
	if theirs || err != nil {
		return reconcile.Result{}, err
	}
	early := missing(state) && state.Bundle == nil || p.domain() != c.Domain
	if age := c.Now().Sub(p.newest); early && age < settling {
		return reconcile.Result{RequeueAfter: settling - age}, nil
	}
	return reconcile.Result{}, c.publish(ctx, k, p, state)
}

// theirs says whether another operator publishes a bundle: operators may share a namespace, and then each
// speaks of those of its own domain. What declares no domain is told of by whoever is first.
func (c *Controller) theirs(ctx context.Context, k key, p *parts) (bool, error) {
	if p.domain() == c.Domain {
		obj := &platformv1.Plugin{}
		if err := c.client.Get(ctx, client.ObjectKey{Name: objectName(k)}, obj); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return c.publishedElsewhere(ctx, obj)
	}
	// Live: the cache holds what is of this domain.
	obj := &platformv1.Plugin{}
	err := c.live.Get(ctx, client.ObjectKey{Name: objectName(k)}, obj)
	return err == nil && obj.Labels[platformv1.DomainLabel] != c.Domain, client.IgnoreNotFound(err)
}

// publishedElsewhere says whether an operator of this domain that serves other namespaces publishes a Plugin. Two that
// did would write over each other's count of instances for ever, and each delete what the other one alone has loaded.
func (c *Controller) publishedElsewhere(ctx context.Context, obj *platformv1.Plugin) (bool, error) {
	namespace := obj.Annotations[platformv1.PublisherAnnotation]
	if obj.Labels[platformv1.DomainLabel] != c.Domain || namespace == "" || namespace == c.Namespace || c.Leads == nil {
		return false, nil
	}
	return c.Leads(ctx, namespace)
}

// objectName is the name of the Plugin object of a bundle.
func objectName(k key) string { return k.name + "-" + k.version }

// publish writes the Plugin object of a bundle.
func (c *Controller) publish(ctx context.Context, k key, p *parts, state plugin.State) error {
	obj := &platformv1.Plugin{
		ObjectMeta: metav1.ObjectMeta{
			Name: objectName(k),
			Labels: map[string]string{
				platformv1.ManagedByLabel: platformv1.ManagedBy,
				platformv1.DomainLabel:    c.Domain,
			},
			Annotations: map[string]string{platformv1.PublisherAnnotation: c.Namespace},
		},
		Spec: platformv1.PluginSpec{Plugin: k.name, Version: k.version, Domain: p.domain()},
	}
	if state.Bundle != nil {
		obj.Spec.Domain = state.Bundle.Manifest.Domain
	}
	_, err := c.apply.Apply(ctx, obj)
	if taken := (*apply.NameTakenError)(nil); errors.As(err, &taken) && p.domain() == c.Domain {
		if err = c.takeOver(ctx, obj, err); err == nil {
			_, err = c.apply.Apply(ctx, obj)
		}
	}
	if err != nil {
		return err
	}
	// Live, once for each change of a bundle: the cache may not have it yet.
	current := &platformv1.Plugin{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(obj), current); err != nil {
		return err
	}
	instances, err := c.instances(ctx, k)
	if err != nil {
		return err
	}
	before := current.DeepCopy()
	report(current, state)
	current.Status.Instances = instances
	if err := patch.Status(ctx, c.client, before, current); err != nil {
		return err
	}
	if wasRefused := conditions.IsTrue(before, platformv1.StalledCondition); len(state.Errors) > 0 && !wasRefused {
		c.events.Warning(current, platformv1.ReasonPluginInvalid, "%s", strings.Join(current.Status.Errors, "; "))
	}
	return nil
}

// takeOver makes ours the Plugin object of a bundle of this domain that another operator refused for its domain before
// we came. Any other object keeps its name, and the error stays.
func (c *Controller) takeOver(ctx context.Context, wanted *platformv1.Plugin, taken error) error {
	current := &platformv1.Plugin{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(wanted), current); err != nil {
		return err
	}
	if current.Labels[platformv1.ManagedByLabel] != platformv1.ManagedBy || current.Spec != wanted.Spec {
		return taken
	}
	ours := current.DeepCopy()
	ours.Labels[platformv1.DomainLabel] = c.Domain
	return c.client.Patch(ctx, ours, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{}))
}

// report fills in the status of a Plugin.
func report(obj *platformv1.Plugin, state plugin.State) {
	s := &obj.Status
	s.Errors = texts(state.Errors)
	if state.Bundle != nil {
		s.Digest, s.SupportedVersions = state.Bundle.Digest, state.Bundle.Manifest.SupportedVersions
		s.ShortDigest = strings.TrimPrefix(s.Digest, "sha256:")[:shortDigestLength]
	}
	loaded := "the bundle is loaded"
	if state.Bundle != nil && len(state.Bundle.Warnings) > 0 {
		loaded += "; a later version should mend: " + strings.Join(texts(state.Bundle.Warnings), "; ")
	}
	accepted := metav1.Condition{Type: platformv1.AcceptedCondition, Status: metav1.ConditionTrue,
		Reason: platformv1.ReasonAccepted, Message: loaded, ObservedGeneration: obj.Generation}
	o := outcome.Done()
	if len(s.Errors) > 0 {
		message := strings.Join(s.Errors, "; ")
		if state.Bundle != nil {
			message += "; the version that was loaded before stays in use"
		}
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, platformv1.ReasonPluginInvalid, message
		o = outcome.Stalled(platformv1.ReasonPluginInvalid, message)
	}
	conditions.Set(obj, accepted)
	conditions.Report(obj, o, loaded)
}

func texts(errs []plugin.LoadError) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

// withdraw deletes the Plugin object of a bundle that is gone, if it is of this domain.
func (c *Controller) withdraw(ctx context.Context, k key) error {
	obj := &platformv1.Plugin{}
	err := c.client.Get(ctx, client.ObjectKey{Name: objectName(k)}, obj)
	if apierrors.IsNotFound(err) || (err == nil && obj.Labels[platformv1.DomainLabel] != c.Domain) {
		return nil
	}
	if err != nil {
		return err
	}
	if theirs, err := c.publishedElsewhere(ctx, obj); theirs || err != nil {
		return err
	}
	return c.apply.Delete(ctx, obj)
}
