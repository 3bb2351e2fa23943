// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Operation returns the Operation of a name that an object controls; nil when there is none. One that the cache lacks,
// or that has ended, is read from the API server: of those the cache leaves out what happened.
func (a *Applier) Operation(ctx context.Context, controller client.Object, name string) (*platformv1.Operation, error) {
	op, key := &platformv1.Operation{}, client.ObjectKey{Namespace: controller.GetNamespace(), Name: name}
	err := a.client.Get(ctx, key, op)
	if apierrors.IsNotFound(err) || err == nil && op.Status.Phase.Ended() {
		op = &platformv1.Operation{}
		err = a.live.Get(ctx, key, op)
	}
	switch {
	case apierrors.IsNotFound(err), err == nil && !metav1.IsControlledBy(op, controller):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read Operation %q: %w", name, err)
	}
	return op, nil
}

// CancelOperation cancels an Operation. One that does not exist is left at that.
func (a *Applier) CancelOperation(ctx context.Context, namespace, name string) error {
	op := &platformv1.Operation{}
	op.Namespace, op.Name = namespace, name
	cancel := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))
	if err := a.client.Patch(ctx, op, cancel, client.FieldOwner(a.owner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot cancel the Operation %q: %w", name, err)
	}
	return nil
}
