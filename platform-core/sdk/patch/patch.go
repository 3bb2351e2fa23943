// SPDX-License-Identifier: Apache-2.0

// Package patch writes the status of an object, and only when it changed.
package patch

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Status sends the status of after, when it is not that of before, as a JSON patch that
// only the object with the UID of before takes. Both are images of the same
// object; neither is changed. That the object is gone by now is fine.
//
// The patch carries no resourceVersion: the status of an object has one author,
// and a change of the spec meanwhile is no reason to lose what was seen. Where the object says
// that its status is Guarded it does, and one that changed meanwhile is left as it is: the change brings another turn.
func Status(ctx context.Context, c client.Client, before, after client.Object) error {
	body, err := statusPatch(before, after)
	if err != nil {
		return fmt.Errorf("cannot compare the status of %T %q: %w", after, client.ObjectKeyFromObject(after), err)
	}
	if body == nil {
		return nil
	}
	// The answer is not looked at, so that it need not hold more than metadata.
	target := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: after.GetNamespace(), Name: after.GetName()}}
	gvk, err := apiutil.GVKForObject(after, c.Scheme())
	if err != nil {
		return fmt.Errorf("cannot patch the status of %T %q: %w", after, client.ObjectKeyFromObject(after), err)
	}
	target.SetGroupVersionKind(gvk)
	err = c.Status().Patch(ctx, target, client.RawPatch(types.JSONPatchType, body))
	if isAnother(err) {
		// It is read, and reported on, in a turn of its own.
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot patch the status of %T %q: %w", after, client.ObjectKeyFromObject(after), err)
	}
	return nil
}

// Differs says whether Status would send anything.
func Differs(before, after client.Object) bool {
	body, err := statusPatch(before, after)
	return err != nil || body != nil
}

// uidPath is where a patch finds out whether it met another object.
const uidPath = "/metadata/uid"

// versionPath is where a patch finds out whether the object changed.
const versionPath = "/metadata/resourceVersion"

// Guarded is an object whose status has a part that is written by itself, and only on what was read last.
type Guarded interface {
	// StatusGuarded says whether that is so.
	StatusGuarded() bool
}

// isAnother says whether a patch was refused since another object has the name by now, or it changed where that counts.
// A merge patch cannot ask for that: the status subresource looks at no other metadata than resourceVersion.
// The API server answers a test that fails with reason Invalid and no cause; a status that
// does not fit the schema has causes.
func isAnother(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid {
		return false
	}
	details := status.Status().Details
	return details == nil || len(details.Causes) == 0
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// statusPatch returns the JSON patch that gives the very object that was read its new
// status, whole; nil when it has it already.
func statusPatch(before, after client.Object) ([]byte, error) {
	was, err := statusOf(before)
	if err != nil {
		return nil, err
	}
	is, err := statusOf(after)
	if err != nil {
		return nil, err
	}
	if equality.Semantic.DeepEqual(was, is) {
		return nil, nil
	}
	var patch []operation
	if uid := before.GetUID(); uid != "" {
		patch = append(patch, operation{Op: "test", Path: uidPath, Value: uid})
	}
	if g, ok := before.(Guarded); ok && g.StatusGuarded() && before.GetResourceVersion() != "" {
		patch = append(patch, operation{Op: "test", Path: versionPath, Value: before.GetResourceVersion()})
	}
	if len(is) == 0 {
		return json.Marshal(append(patch, operation{Op: "remove", Path: "/status"}))
	}
	return json.Marshal(append(patch, operation{Op: "add", Path: "/status", Value: is}))
}

// statusOf returns the status as the API server sees it. An absent status is an
// empty one, so that going from one to the other takes no write.
func statusOf(obj client.Object) (map[string]any, error) {
	if _, untyped := obj.(runtime.Unstructured); !untyped {
		// All else of the object takes longer to convert than its status.
		if status := reflect.ValueOf(obj).Elem().FieldByName("Status"); status.IsValid() {
			if status.IsZero() {
				return map[string]any{}, nil
			}
			return runtime.DefaultUnstructuredConverter.ToUnstructured(status.Addr().Interface())
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	status, found := content["status"]
	if !found || status == nil {
		return map[string]any{}, nil
	}
	fields, ok := status.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("its status is a %T, want an object", status)
	}
	return fields, nil
}
