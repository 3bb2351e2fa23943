// SPDX-License-Identifier: Apache-2.0

// Package progress keeps decisions of controllers on record in annotations of an Inference. Compile follows what is
// there, and a controller that was started anew goes on with it. InferenceOf leads from what they look at to that
// Inference.
package progress

import (
	"context"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// Place is where the progress of one controller is on record.
type Place struct {
	// Annotation has it as JSON.
	Annotation string
	// Owner is the field owner of the annotation.
	Owner string
}

// Record writes what is decided, unless that is on record; nil takes it out. The error is a conflict where the
// Inference changed since it was read. That it is gone is fine.
func Record[P any](ctx context.Context, c client.Client, i *aiv1.Inference, at Place, p *P) error {
	var value any
	before, has := i.Annotations[at.Annotation]
	if p != nil {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		value = string(text)
	}
	if value == nil && !has || has && value == before {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": i.ResourceVersion, "annotations": map[string]any{at.Annotation: value},
	}})
	if err != nil {
		return err
	}
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: i.Name}}
	target.SetGroupVersionKind(aiv1.GroupVersion.WithKind("Inference"))
	err = c.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(at.Owner))
	return client.IgnoreNotFound(err)
}

// InferenceOf names the Inference that a pod or a WorkloadSet is of, for handler.EnqueueRequestsFromMapFunc.
func InferenceOf(_ context.Context, obj client.Object) []reconcile.Request {
	name, found := strings.CutPrefix(obj.GetLabels()[platformv1.ApplicationLabel],
		platformv1.ApplicationNameFor("Inference", ""))
	if !found {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}}}
}
