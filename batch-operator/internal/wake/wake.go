// SPDX-License-Identifier: Apache-2.0

// Package wake finds the objects that a change of another one concerns, by a field that the cache has an index of: with
// 20,000 objects in a namespace, a look at all of them for each event takes longer than all else.
package wake

import (
	"context"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Field of the objects that are woken: what each of them is woken by.
const Field = "wake"

// Find asks for the objects of a namespace whose Field has one of the values; list says of which kind.
func Find(ctx context.Context, c client.Reader, list client.ObjectList, namespace string,
	values ...string) []reconcile.Request {
	var requests []reconcile.Request
	for _, value := range values {
		err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{Field: value},
			client.UnsafeDisableDeepCopy)
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot find what an event concerns", "by", value)
			return nil
		}
		_ = apimeta.EachListItem(list, func(obj runtime.Object) error {
			key := client.ObjectKeyFromObject(obj.(client.Object))
			requests = append(requests, reconcile.Request{NamespacedName: key})
			return nil
		})
	}
	return requests
}
