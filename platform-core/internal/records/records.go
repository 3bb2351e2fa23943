// SPDX-License-Identifier: Apache-2.0

// Package records reads the Operations that there are at this moment, however many of them have long ended.
package records

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// unfinishedField indexes Operations that have not ended by the name of their Application, as far as it is known, and
// by everyone, so that nobody goes through those that have long ended.
const unfinishedField = "unfinishedOfApplication"

// everyone is the key of all that have not ended. No Application has this name.
const everyone = "*"

// IndexUnfinished has a cache find Operations that have not ended.
func IndexUnfinished(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &platformv1.Operation{}, unfinishedField, unfinishedOf); err != nil {
		return fmt.Errorf("cannot index Operations that have not ended: %w", err)
	}
	return nil
}

func unfinishedOf(obj client.Object) []string {
	op := obj.(*platformv1.Operation)
	if opsflow.Finished(op) {
		return nil
	}
	keys := []string{everyone}
	if op.Status.Application != "" {
		keys = append(keys, op.Status.Application)
	}
	if parent := opsflow.ParentOf(op); parent != "" {
		keys = append(keys, childrenOf(parent))
	}
	return keys
}

// childrenOf is the key of those that are steps of an Operation. No Application has a name with a slash.
func childrenOf(parent types.UID) string { return "of/" + string(parent) }

// Children returns the Operations that have not ended and that steps of another one run.
func Children(ctx context.Context, cached client.Reader, namespace string,
	parent types.UID) ([]*platformv1.Operation, error) {
	return Unfinished(ctx, cached, namespace, childrenOf(parent))
}

// Unfinished returns the Operations of an Application that have not ended, as far as it is known of them whose they
// are; those of the whole namespace for an application without a name. The cache has to be indexed by IndexUnfinished.
func Unfinished(ctx context.Context, cached client.Reader, namespace,
	application string) ([]*platformv1.Operation, error) {
	var list platformv1.OperationList
	if err := cached.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingFields{unfinishedField: cmp.Or(application, everyone)}); err != nil {
		return nil, fmt.Errorf("cannot list the Operations in namespace %q that have not ended: %w", namespace, err)
	}
	operations := make([]*platformv1.Operation, len(list.Items))
	for i := range list.Items {
		operations[i] = &list.Items[i]
	}
	return operations, nil
}

// page is how many are listed at a time.
const page = 500

// Present returns the Operations that the API server has now. One that has ended never changes again: those that the
// cache knows as ended are taken from there, shared and not to be changed, and only the others are read. Of all of them
// no more than the metadata is listed.
func Present(ctx context.Context, live, cached client.Reader,
	options ...client.ListOption) ([]*platformv1.Operation, error) {
	var found []*platformv1.Operation
	for next := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(platformv1.GroupVersion.WithKind("OperationList"))
		paged := append([]client.ListOption{client.Limit(page), client.Continue(next)}, options...)
		if err := live.List(ctx, list, paged...); err != nil {
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
func whole(ctx context.Context, live, cached client.Reader,
	of *metav1.PartialObjectMetadata) (*platformv1.Operation, error) {
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
