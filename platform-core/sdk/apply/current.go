// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Current asks the API server whether an object is the one that was decided on; the error is a conflict when it was
// changed, deleted, or replaced by another one of its name. A frame writes nothing of such a turn, not even a status,
// which would take back what is on record since, and has another one.
func (a *Applier) Current(ctx context.Context, obj client.Object) error {
	kind, err := apiutil.GVKForObject(obj, a.client.Scheme())
	if err != nil {
		return err
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	err = a.live.Get(ctx, client.ObjectKeyFromObject(obj), live)
	switch {
	case apierrors.IsNotFound(err),
		err == nil && (live.UID != obj.GetUID() || live.ResourceVersion != obj.GetResourceVersion()):
		return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, obj.GetName(),
			errors.New("it was changed in the meantime"))
	case err != nil:
		return fmt.Errorf("cannot read %s %q: %w", kind.Kind, client.ObjectKeyFromObject(obj), err)
	}
	return nil
}
