// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Unrecorded makes clients that cannot write a status of a kind as long as fail is set: an operator that has one ends
// between what it does and the record of it.
func Unrecorded(kind string, fail *atomic.Bool) client.NewClientFunc {
	return func(config *rest.Config, options client.Options) (client.Client, error) {
		c, err := client.NewWithWatch(config, options)
		if err != nil {
			return nil, err
		}
		return interceptor.NewClient(c, interceptor.Funcs{SubResourcePatch: func(
			ctx context.Context, c client.Client, of string, obj client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			if fail.Load() && obj.GetObjectKind().GroupVersionKind().Kind == kind {
				return errors.New("the operator is killed here")
			}
			return c.SubResource(of).Patch(ctx, obj, patch, options...)
		}}), nil
	}
}
