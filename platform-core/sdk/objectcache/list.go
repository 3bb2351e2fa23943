// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ListDecodable lists the objects of a kind that the API server has, but for those that cannot be decoded. It is for
// decisions that such an object has no part in; the cache of its kind reports it.
func ListDecodable[T any](
	ctx context.Context, live client.Reader, kind schema.GroupVersionKind, options ...client.ListOption,
) ([]T, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := live.List(ctx, &list, options...); err != nil {
		return nil, err
	}
	decoded := make([]T, 0, len(list.Items))
	for i := range list.Items {
		text, err := list.Items[i].MarshalJSON()
		if err != nil {
			return nil, err
		}
		var object T
		if utiljson.Unmarshal(text, &object) == nil {
			decoded = append(decoded, object)
		}
	}
	return decoded, nil
}
