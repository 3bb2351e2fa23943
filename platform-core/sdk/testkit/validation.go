// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Strict has the server refuse fields that it does not know, as kubectl does.
var Strict = client.FieldValidation(metav1.FieldValidationStrict)

// Object returns an object of a kind whose spec is what is given, with what the YAML adds to it or replaces of it.
func Object(t testing.TB, kind schema.GroupVersionKind, namespace, name string, spec map[string]any, added string) *unstructured.Unstructured {
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

// Refused fails the test unless a request was refused with words that hold what is wanted, or was accepted where that is empty.
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
