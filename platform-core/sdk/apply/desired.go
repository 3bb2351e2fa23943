// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// metadataFields are the parts of metadata that a desired object speaks of.
var metadataFields = []string{"labels", "annotations", "ownerReferences", "finalizers"}

// desired is an object as it is wanted, with what is compared and what is sent.
type desired struct {
	gvk    schema.GroupVersionKind
	object client.Object
	// content has no status, no nulls, no type and of metadata only metadataFields.
	content map[string]any
	digest  string
	// given is the fingerprint of the object as the caller gave it.
	given string
}

// String names the object for a person.
func (d *desired) String() string {
	return fmt.Sprintf("%s %q", d.gvk.Kind, client.ObjectKeyFromObject(d.object))
}

// patch returns the body of the apply: the content, the digest and the address.
func (d *desired) patch() *unstructured.Unstructured {
	body := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(d.content)}
	body.SetGroupVersionKind(d.gvk)
	body.SetName(d.object.GetName())
	body.SetNamespace(d.object.GetNamespace())
	annotations := map[string]string{}
	maps.Copy(annotations, body.GetAnnotations())
	annotations[platformv1.AppliedAnnotation] = d.digest
	body.SetAnnotations(annotations)
	return body
}

func (d *desired) isDigestOf(live client.Object) bool {
	return live.GetAnnotations()[platformv1.AppliedAnnotation] == d.digest
}

// check is an object that was compared with what is wanted of it.
type check struct{ given, stamp string }

// fingerprintOf tells an object as a caller gives it, but for the field that is left out, from every other. It takes a
// fraction of the time that its content takes.
func fingerprintOf(obj client.Object, without ...string) (string, error) {
	data, err := json.Marshal([]any{without, obj})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return string(sum[:16]), nil
}

// stampOf returns what changes with everything of an object that is compared. The version changes with its status, too,
// which the generation, where there is one, does not; nor does that change with the metadata.
func stampOf(live client.Object) string {
	generation := live.GetGeneration()
	if generation == 0 {
		return live.GetResourceVersion()
	}
	return fingerprint(map[string]any{
		"generation": generation, "labels": live.GetLabels(), "annotations": live.GetAnnotations(),
		"owners": live.GetOwnerReferences(), "finalizers": live.GetFinalizers(),
	})
}

// contentOf returns what of an object is compared. Values are spelt in the one way
// that the object's Go type spells them, so that "1000m" and "1" are the same.
func contentOf(obj client.Object) (map[string]any, error) {
	full, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	for field, value := range full {
		switch field {
		case "apiVersion", "kind", "status", "metadata":
		default:
			if kept := withoutNulls(value); kept != nil {
				content[field] = kept
			}
		}
	}
	metadata, _ := full["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, field := range metadataFields {
		if value := withoutNulls(metadata[field]); value != nil {
			kept[field] = value
		}
	}
	if annotations, ok := kept["annotations"].(map[string]any); ok {
		delete(annotations, platformv1.AppliedAnnotation)
	}
	content["metadata"] = kept
	return content, nil
}

// withoutNulls returns a copy without the nulls, which mean "not set" here and "remove" to a server.
func withoutNulls(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(typed))
		for field, item := range typed {
			if item = withoutNulls(item); item != nil {
				kept[field] = item
			}
		}
		return kept
	case []any:
		kept := make([]any, 0, len(typed))
		for _, item := range typed {
			kept = append(kept, withoutNulls(item))
		}
		return kept
	default:
		return value
	}
}

// fingerprint returns a digest of content: the same for the same fields, in whatever order.
func fingerprint(content map[string]any) string {
	// JSON with sorted keys; content came from a converter that makes only JSON types.
	data, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("content of an object is not JSON: %v", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// emptyOf returns a new object of the same type.
func emptyOf(obj client.Object) (client.Object, error) {
	if like, ok := obj.(*unstructured.Unstructured); ok {
		empty := &unstructured.Unstructured{}
		empty.SetGroupVersionKind(like.GroupVersionKind())
		return empty, nil
	}
	empty, ok := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not a pointer to an object", obj)
	}
	return empty, nil
}
