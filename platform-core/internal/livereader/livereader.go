// SPDX-License-Identifier: Apache-2.0

// Package livereader reads objects whose absence has consequences, such as a deletion. A cache alone cannot prove that
// an object is absent.
package livereader

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader reads an object from the cache and, when it is not there, from the API server.
type Reader struct {
	Cached, Live client.Reader
}

// Get reads one object. It returns a NotFound error only if the API server has no such object.
func (r Reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	err := r.Cached.Get(ctx, key, obj, options...)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, obj, options...)
	}
	return err
}
