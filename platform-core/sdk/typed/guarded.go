// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Guarded is a capability of a Referrer of which some changes are refused, before they are stored, while an object that
// is named does not exist or is being deleted. A creation is not: objects that name each other are applied in any
// order, and wait. Where the operator has no webhook, or it is away, the change is stored and the object stalls.
type Guarded[T Object] interface {
	Referrer[T]
	// GuardedChange says what cannot be, in the beginning of a sentence such as "version 2 cannot go to production",
	// while after lacks a reference that is not optional; empty for a change that needs none.
	GuardedChange(before, after T) string
}

// Getter reads one object, as a client.Reader does. It returns a NotFound error only if there is no such object.
type Getter interface {
	Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error
}

// JudgeChange implements Registration.
func (r registration[T]) JudgeChange(ctx context.Context, from Getter, scheme *runtime.Scheme,
	before, after client.Object) (*Refusal, error) {
	guarded, is := r.kind.(Guarded[T])
	was, isBefore := before.(T)
	now, isAfter := after.(T)
	if !is || !isBefore || !isAfter {
		return nil, nil
	}
	cannot := guarded.GuardedChange(was, now)
	if cannot == "" {
		return nil, nil
	}
	for _, reference := range guarded.References(now) {
		_, refusal, err := look(reference, now.GetNamespace(), func() (client.Object, error) {
			object, err := servedObject(scheme, reference.GVK)
			if runtime.IsNotRegisteredError(err) {
				unknown := &unstructured.Unstructured{}
				unknown.SetGroupVersionKind(reference.GVK)
				object, err = unknown, nil
			}
			if err != nil {
				return nil, err
			}
			return object, from.Get(ctx, client.ObjectKey{Namespace: now.GetNamespace(), Name: reference.Name}, object)
		})
		if err != nil {
			return nil, err
		}
		if refusal.Kind() != outcome.KindDone {
			return &Refusal{Reason: refusal.Reason(), Message: cannot + ": " + refusal.Message()}, nil
		}
	}
	return nil, nil
}
