// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Strict has the server refuse fields that it does not know, as kubectl does.
var Strict = client.FieldValidation(metav1.FieldValidationStrict)

// Object returns an object of a kind whose spec is what is given, with what the YAML adds to it or replaces of it.
func Object(t testing.TB, kind schema.GroupVersionKind, namespace, name string, spec map[string]any,
	added string) *unstructured.Unstructured {
	t.Helper()
	content := maps.Clone(spec)
	var more map[string]any
	if err := yaml.Unmarshal([]byte(added), &more); err != nil {
		t.Fatal(err)
	}
	maps.Copy(content, more)
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	obj.SetGroupVersionKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// Refused fails the test unless a request was refused with words that hold what is wanted, or was accepted where that
// is empty.
func Refused(t testing.TB, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("accepted, want a refusal with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("refused with %q, want %q", err, want)
	}
}

// SizeTakenBack fails the test unless objects of a kind take a smaller storage.size as long as they are not Ready, and
// at no other time: then the volumes may not have got the larger one yet. made returns an object whose spec has what
// the YAML adds.
func SizeTakenBack(t testing.TB, c client.Client, made func(name, spec string) *unstructured.Unstructured) {
	t.Helper()
	const refusal = "storage.size cannot shrink"
	for i, test := range []struct{ reason, want string }{
		{"", refusal}, {platformv1.ReasonReady, refusal},
		{platformv1.ReasonProgressing, ""}, {platformv1.ReasonVolumeExpansionUnsupported, ""},
		{platformv1.ReasonImageUnavailable, ""},
	} {
		name := fmt.Sprintf("size-%d", i)
		object := made(name, `storage: {size: 9999Ti}`)
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if test.reason != "" {
			if err := sayReady(t, c, object, test.reason); err != nil {
				t.Fatal(err)
			}
		}
		after := made(name, `storage: {size: 20Gi}`)
		after.SetResourceVersion(object.GetResourceVersion())
		Refused(t, c.Update(t.Context(), after), test.want)
	}
}

// sayReady has the condition Ready of an object have a reason.
func sayReady(t testing.TB, c client.Client, object *unstructured.Unstructured, reason string) error {
	status := metav1.ConditionFalse
	if reason == platformv1.ReasonReady {
		status = metav1.ConditionTrue
	}
	condition := map[string]any{"type": platformv1.ReadyCondition, "status": string(status), "reason": reason,
		"message": "", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339)}
	if err := unstructured.SetNestedSlice(object.Object, []any{condition}, "status", "conditions"); err != nil {
		return err
	}
	return c.Status().Update(t.Context(), object)
}
