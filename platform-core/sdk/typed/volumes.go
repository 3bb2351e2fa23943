// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// keepVolumes has the Application of an object whose spec cannot be taken up go by the deletionPolicy of that spec all
// the same, where more is kept under it: who deletes the object next counts on it. Under deletionProtection the volumes
// are kept.
func (r *reconciler[T]) keepVolumes(ctx context.Context, obj T) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return fmt.Errorf("cannot read the spec of %q: %w", obj.GetName(), err)
	}
	said, found, err := unstructured.NestedString(content, "spec", "deletionPolicy")
	if err != nil {
		return err
	}
	protected, _, err := unstructured.NestedBool(content, "spec", "deletionProtection")
	switch {
	case err != nil, !found && !protected:
		return err
	case protected:
		said = string(platformv1.DeletionPolicyRetain)
	}
	app := &platformv1.Application{}
	key := client.ObjectKey{Namespace: obj.GetNamespace(), Name: applicationName(r.kind, obj)}
	if err := r.client.Get(ctx, key, app); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(app, obj) {
		return nil
	}
	return r.apply.Keep(ctx, app, app.Spec.DeletionPolicy, platformv1.DeletionPolicy(said))
}
