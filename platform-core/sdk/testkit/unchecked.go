// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Unchecked has the API server take anything for objects of a definition while it writes, as if that was before the
// schema had its rules. Only where no other package uses the server.
func (e *Env) Unchecked(t testing.TB, definition string, write func(ctx context.Context) error) {
	t.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: definition}}
	if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	checked := d.Spec.Versions[0].Schema
	admit := func(ctx context.Context, s *apiextensionsv1.CustomResourceValidation) {
		t.Helper()
		if err := Edit(ctx, e.Client, d, func() { d.Spec.Versions[0].Schema = s }); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { admit(context.Background(), checked) })
	anything := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	admit(t.Context(), &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: anything})
	Eventually(t, "the API server takes anything for "+definition, func(ctx context.Context) error {
		return e.tryNonsense(ctx, d)
	})
	if err := write(t.Context()); err != nil {
		t.Fatal(err)
	}
	admit(t.Context(), checked)
	Eventually(t, "the API server checks objects of "+definition, func(ctx context.Context) error {
		if err := e.tryNonsense(ctx, d); !apierrors.IsInvalid(err) {
			return errors.Join(errors.New("it does not refuse a spec that is text"), err)
		}
		return nil
	})
}

// tryNonsense has the API server say what it makes of an object that no definition of ours admits.
func (e *Env) tryNonsense(ctx context.Context, d *apiextensionsv1.CustomResourceDefinition) error {
	nonsense := &unstructured.Unstructured{Object: map[string]any{"spec": "none"}}
	nonsense.SetGroupVersionKind(schema.GroupVersionKind{
		Group: d.Spec.Group, Version: d.Spec.Versions[0].Name, Kind: d.Spec.Names.Kind,
	})
	nonsense.SetName("nonsense")
	if d.Spec.Scope == apiextensionsv1.NamespaceScoped {
		nonsense.SetNamespace(metav1.NamespaceDefault)
	}
	return e.Client.Create(ctx, nonsense, client.DryRunAll)
}
