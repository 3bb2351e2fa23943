// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Define has the API server know a kind of another project, with any fields and a status of its own, unless it does
// already. Its resource is the kind in lower case with plural, "s" or "es", at its end.
func (e *Env) Define(t testing.TB, kind schema.GroupVersionKind, plural string,
	scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	singular := strings.ToLower(kind.Kind)
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + plural + "." + kind.Group,
			Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind, Plural: singular + plural, Singular: singular,
				ListKind: kind.Kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}},
			}},
		},
	}
	Eventually(t, "the definition of "+kind.Kind, func(ctx context.Context) error {
		err := e.Client.Create(ctx, definition.DeepCopy())
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		live := &apiextensionsv1.CustomResourceDefinition{}
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(definition), live); err != nil ||
			live.DeletionTimestamp == nil {
			return err
		}
		return fmt.Errorf("one of an earlier test is being deleted")
	})
	return definition
}

// snapshotGroup is that of VolumeSnapshots.
const snapshotGroup = "snapshot.storage.k8s.io"

func snapshotKind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: snapshotGroup, Version: "v1", Kind: name}
}

// InstallSnapshots has the API server know VolumeSnapshots until the end of the test.
func (e *Env) InstallSnapshots(t testing.TB) {
	t.Helper()
	definitions := []*apiextensionsv1.CustomResourceDefinition{
		e.Define(t, snapshotKind("VolumeSnapshot"), "s", apiextensionsv1.NamespaceScoped),
		e.Define(t, snapshotKind("VolumeSnapshotClass"), "es", apiextensionsv1.ClusterScoped),
	}
	t.Cleanup(func() {
		for _, definition := range definitions {
			if err := e.Client.Delete(context.Background(), definition); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		}
	})
	Eventually(t, "VolumeSnapshots are served", func(ctx context.Context) error {
		for _, kind := range []string{"VolumeSnapshotList", "VolumeSnapshotClassList"} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(snapshotKind(kind))
			if err := e.Client.List(ctx, list); err != nil {
				return err
			}
		}
		return nil
	})
}

// SnapshotClass makes a VolumeSnapshotClass of a driver.
func (e *Env) SnapshotClass(t testing.TB, name, driver string) {
	t.Helper()
	class := &unstructured.Unstructured{Object: map[string]any{"driver": driver, "deletionPolicy": "Delete"}}
	class.SetGroupVersionKind(snapshotKind("VolumeSnapshotClass"))
	class.SetName(name)
	if err := e.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
}

// SnapshotsBecome plays the snapshot controller: it waits until a namespace has this number of VolumeSnapshots, and has
// all of them say this.
func (e *Env) SnapshotsBecome(t testing.TB, namespace string, number int,
	status map[string]any) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(snapshotKind("VolumeSnapshotList"))
	Eventually(t, fmt.Sprintf("%d VolumeSnapshots", number), func(ctx context.Context) error {
		if err := e.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(list.Items) != number {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
	for i := range list.Items {
		before := list.Items[i].DeepCopy()
		list.Items[i].Object["status"] = status
		if err := e.Client.Status().Patch(t.Context(), &list.Items[i], client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	return list.Items
}
