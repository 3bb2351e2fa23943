// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/queue"
)

// Settings are what the frame needs to know of its operator.
type Settings struct {
	// Domain that the operator serves; its label is on every Application made.
	Domain string
	// Workers is how many objects of a kind are reconciled at a time; queue.DefaultWorkers when nil.
	Workers *queue.Limit
	// Namespaces that the operator serves; all when nil.
	Namespaces map[string]cache.Config
}

// Registration is a kind that an operator serves. Register makes one.
type Registration interface {
	// Object returns an empty object of the kind.
	Object() client.Object
	// Compile returns what an object of the kind declares in an operator of this domain, complete but for its owner, or
	// an error that says what to mend: what the reconciler would say of it. References are taken not to exist.
	Compile(obj client.Object, domain string) (*Output, error)
	// JudgeChange says why a change of an object is refused for the sake of what the object names, see Guarded; nil where
	// it is not. An error says that it cannot be told.
	JudgeChange(ctx context.Context, from Getter, scheme *runtime.Scheme, before, after client.Object) (*Refusal, error)
	// WriteThrough says which field of the object each field of the Application comes from, see Writer; nil for none.
	WriteThrough() map[string]string
	// Convert returns the value that a field of the object has for one of the Application's, see Converter.
	Convert(field string, value any) (any, error)
	// ApplicationName returns the name of the Application that an object of the kind declares.
	ApplicationName(obj client.Object) string
	adopted(obj client.Object) Adopted
	declaresObjects() bool
	refersBeyond(served map[schema.GroupVersionKind]bool) bool
	setup(mgr ctrl.Manager, settings Settings, shared shared) error
}

// Register returns the registration of a kind, for operator.Options.
func Register[T Object](kind Kind[T]) Registration { return registration[T]{kind} }

// Setup adds the controllers of all registered kinds to a manager.
func Setup(mgr ctrl.Manager, settings Settings, registrations ...Registration) error {
	if len(registrations) == 0 {
		return nil
	}
	if err := indexOwned(mgr); err != nil {
		return err
	}
	shared, err := newShared(mgr, settings, registrations)
	if err != nil {
		return err
	}
	for _, r := range registrations {
		if err := r.setup(mgr, settings, shared); err != nil {
			return err
		}
	}
	return nil
}

// shared is what the controllers of all kinds of an operator have in common.
type shared struct {
	// objects has the Objects that objects of these kinds declare; nil when none does.
	objects *watcher
	referred
	adopters adopters
}

func newShared(mgr ctrl.Manager, settings Settings, registrations []Registration) (shared, error) {
	s := shared{adopters: adopters{}, referred: referred{client: mgr.GetClient(), served: map[schema.GroupVersionKind]bool{
		platformv1.GroupVersion.WithKind("BackupRepository"): true, platformv1.GroupVersion.WithKind("Plugin"): true,
	}}}
	var err error
	for _, r := range registrations {
		gvk, err := apiutil.GVKForObject(r.Object(), mgr.GetScheme())
		if err != nil {
			return s, fmt.Errorf("cannot serve a typed kind: %w", err)
		}
		s.adopters[gvk] = r.adopted
		for _, kind := range kindsOf(mgr.GetScheme(), gvk.GroupVersion()) {
			s.served[kind] = true
		}
	}
	if slices.ContainsFunc(registrations, Registration.declaresObjects) {
		named, err := labels.NewRequirement(platformv1.OutputLabel, selection.Exists, nil)
		if err != nil {
			return s, err
		}
		selector := labels.SelectorFromSet(labels.Set{platformv1.DomainLabel: settings.Domain}).Add(*named)
		if s.objects, err = newWatcher(mgr, selector, settings.Namespaces); err != nil {
			return s, err
		}
	}
	if slices.ContainsFunc(registrations, func(r Registration) bool { return r.refersBeyond(s.served) }) {
		s.others, err = newWatcher(mgr, labels.Everything(), settings.Namespaces)
	}
	return s, err
}

// kindsOf are the kinds of objects that a scheme has of a group: those that have lists.
func kindsOf(scheme *runtime.Scheme, group schema.GroupVersion) []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for name := range scheme.KnownTypes(group) {
		if kind := group.WithKind(name); scheme.Recognizes(group.WithKind(name + "List")) {
			all = append(all, kind)
		}
	}
	return all
}

type registration[T Object] struct{ kind Kind[T] }

// Object implements Registration.
func (r registration[T]) Object() client.Object { return r.kind.New() }

// Compile implements Registration.
func (r registration[T]) Compile(obj client.Object, domain string) (*Output, error) {
	typed, ok := obj.(T)
	if !ok {
		return nil, fmt.Errorf("cannot compile a %T as a %s", obj, r.kind.Name())
	}
	return compile(r.kind, typed, domain, nil)
}

// WriteThrough implements Registration.
func (r registration[T]) WriteThrough() map[string]string {
	if writer, ok := r.kind.(Writer); ok {
		return writer.WriteThrough()
	}
	return nil
}

// Convert implements Registration.
func (r registration[T]) Convert(field string, value any) (any, error) {
	if converter, ok := any(r.kind).(Converter); ok {
		return converter.Convert(field, value)
	}
	return value, nil
}

// ApplicationName implements Registration.
func (r registration[T]) ApplicationName(obj client.Object) string {
	typed, ok := obj.(T)
	if !ok {
		return platformv1.ApplicationNameFor(r.kind.Name(), obj.GetName())
	}
	return applicationName(r.kind, typed)
}

// adopted implements Registration.
func (r registration[T]) adopted(obj client.Object) Adopted {
	typed, ok := obj.(T)
	if !ok {
		return Adopted{}
	}
	return adoptedBy(r.kind, typed)
}

// declaresObjects implements Registration.
func (r registration[T]) declaresObjects() bool {
	_, declares := r.kind.(ObjectMaker)
	return declares
}

// refersBeyond implements Registration.
func (r registration[T]) refersBeyond(served map[schema.GroupVersionKind]bool) bool {
	referrer, refers := r.kind.(Referrer[T])
	return refers && slices.ContainsFunc(referrer.ReferredKinds(),
		func(gvk schema.GroupVersionKind) bool { return !served[gvk] })
}

// ownerFor is the field owner of what objects of a kind declare.
func ownerFor(kind string) string { return "typed/" + strings.ToLower(kind) }

// setup implements Registration.
func (r registration[T]) setup(mgr ctrl.Manager, settings Settings, shared shared) error {
	owner := ownerFor(r.kind.Name())
	gvk, err := apiutil.GVKForObject(r.kind.New(), mgr.GetScheme())
	if err != nil {
		return err
	}
	controller := ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(r.kind.New()).
		Watches(&platformv1.Application{}, queue.OwnerOf(mgr, r.kind.New())).
		Watches(&platformv1.Entity{}, queue.OwnerOf(mgr, r.kind.New()))
	c := &reconciler[T]{
		kind:     r.kind,
		owner:    owner,
		domain:   settings.Domain,
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		apply:    apply.NewWithReader(mgr.GetClient(), mgr.GetAPIReader(), owner),
		referred: shared.referred,
		adopters: shared.adopters,
	}
	c.frame = frame.NewReporting(c.client, c.settle).HoldingFirst().Counting(owner).
		Warning(event.New(mgr.GetEventRecorder(owner)))
	if r.declaresObjects() {
		c.objects = shared.objects
		c.applyObjects = apply.NewWithReader(shared.objects.GetClient(), shared.objects.GetAPIReader(), owner)
		controller = controller.WatchesRawSource(shared.objects.source(shared.objects.ownersOf(gvk.GroupKind())))
	}
	if _, runs := r.kind.(Runner[T]); runs {
		controller = controller.Watches(&platformv1.Operation{}, queue.OwnerOf(mgr, r.kind.New()))
	}
	if controller, err = r.watchReferred(mgr, controller, shared.referred); err != nil {
		return err
	}
	if controller, err = r.watchUsers(mgr, controller); err != nil {
		return err
	}
	if err := controller.WithOptions(queue.Options(settings.Workers)).Complete(c); err != nil {
		return fmt.Errorf("cannot set up the controller of kind %q: %w", r.kind.Name(), err)
	}
	return nil
}
