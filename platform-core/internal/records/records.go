// SPDX-License-Identifier: Apache-2.0

// Package records reads the Operations that there are at this moment, however many of them have long ended.
package records

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// page is how many are listed at a time.
const page = 500

// Present returns the Operations that the API server has now. One that has ended never changes again: those that the cache knows as ended are
// taken from there, shared and not to be changed, and only the others are read. Of all of them no more than the metadata is listed.
func Present(ctx context.Context, live, cached client.Reader, options ...client.ListOption) ([]*platformv1.Operation, error) {
	var found []*platformv1.Operation
	for next := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(platformv1.GroupVersion.WithKind("OperationList"))
		if err := live.List(ctx, list, append([]client.ListOption{client.Limit(page), client.Continue(next)}, options...)...); err != nil {
			return nil, fmt.Errorf("cannot list Operations: %w", err)
		}
		for i := range list.Items {
			op, err := whole(ctx, live, cached, &list.Items[i])
			if err != nil {
				return nil, err
			}
			if op != nil {
				found = append(found, op)
			}
		}
		if next = list.Continue; next == "" {
			return found, nil
		}
	}
}

// whole returns the Operation of which the metadata is given; nil when it is gone.
func whole(ctx context.Context, live, cached client.Reader, of *metav1.PartialObjectMetadata) (*platformv1.Operation, error) {
	known := &platformv1.Operation{}
	err := cached.Get(ctx, client.ObjectKeyFromObject(of), known, client.UnsafeDisableDeepCopy)
	if err == nil && known.UID == of.UID && opsflow.Finished(known) {
		return known, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("cannot read Operation %q: %w", client.ObjectKeyFromObject(of), err)
	}
	fresh := &platformv1.Operation{}
	if err := live.Get(ctx, client.ObjectKeyFromObject(of), fresh); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("cannot read Operation %q: %w", client.ObjectKeyFromObject(of), err)
	}
	return fresh, nil
}
