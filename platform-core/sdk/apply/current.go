// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// ErrStale says that the API server has another object than the one that was decided on.
var ErrStale = errors.New("was changed in the meantime")

// Current asks the API server whether an object is the one that was decided on; the error is ErrStale when it was
// changed, deleted, or replaced by another one of its name.
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
		return fmt.Errorf("the %s %w", kind.Kind, ErrStale)
	case err != nil:
		return fmt.Errorf("cannot read %s %q: %w", kind.Kind, client.ObjectKeyFromObject(obj), err)
	}
	return nil
}
