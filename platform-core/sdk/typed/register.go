// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"fmt"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/queue"
)

// Settings are what the frame needs to know of its operator.
type Settings struct {
	// Domain that the operator serves; its label is on every Application made.
	Domain string
	// Workers is how many objects of a kind are reconciled at a time; queue.DefaultWorkers when nil.
	Workers *queue.Limit
}

// Registration is a kind that an operator serves. Register makes one.
type Registration interface {
	// Object returns an empty object of the kind.
	Object() client.Object
	// Compile returns what an object of the kind declares in an operator of this domain, complete but for its owner, or
	// an error that says what to mend: what the reconciler would say of it. References are taken not to exist.
	Compile(obj client.Object, domain string) (*Output, error)
	// WriteThrough says which field of the object each field of the Application comes from, see Writer; nil for none.
	WriteThrough() map[string]string
	// Convert returns the value that a field of the object has for one of the Application's, see Converter.
	Convert(field string, value any) (any, error)
	setup(mgr ctrl.Manager, settings Settings) error
}

// Register returns the registration of a kind, for operator.Options.
func Register[T Object](kind Kind[T]) Registration { return registration[T]{kind} }

// Setup adds the controllers of all registered kinds to a manager.
func Setup(mgr ctrl.Manager, settings Settings, registrations ...Registration) error {
	if len(registrations) > 0 {
		if err := indexEntities(mgr); err != nil {
			return err
		}
	}
	for _, r := range registrations {
		if err := r.setup(mgr, settings); err != nil {
			return err
		}
	}
	return nil
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

func (r registration[T]) setup(mgr ctrl.Manager, settings Settings) error {
	owner := "typed/" + strings.ToLower(r.kind.Name())
	controller := ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(r.kind.New()).
		Watches(&platformv1.Application{}, queue.OwnerOf(mgr, r.kind.New())).
		Watches(&platformv1.Entity{}, queue.OwnerOf(mgr, r.kind.New()))
	controller, err := r.watchReferred(mgr, controller)
	if err != nil {
		return err
	}
	err = controller.WithOptions(queue.Options(settings.Workers)).
		Complete(&reconciler[T]{
			kind:   r.kind,
			owner:  owner,
			domain: settings.Domain,
			client: mgr.GetClient(),
			apply:  apply.NewWithReader(mgr.GetClient(), mgr.GetAPIReader(), owner),
			events: event.New(mgr.GetEventRecorder(owner)),
		})
	if err != nil {
		return fmt.Errorf("cannot set up the controller of kind %q: %w", r.kind.Name(), err)
	}
	return nil
}
