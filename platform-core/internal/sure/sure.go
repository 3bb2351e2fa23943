// SPDX-License-Identifier: Apache-2.0

// Package sure reads objects whose absence has consequences: to end or to let go of something since an object is not
// there, a cache is not enough.
package sure

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader reads an object from the cache and, when it is not there, from the API server.
type Reader struct {
	Cached, Live client.Reader
}

// Get reads one object. The error says that it is not found when the API server has none.
func (r Reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	err := r.Cached.Get(ctx, key, obj, options...)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, obj, options...)
	}
	return err
}
