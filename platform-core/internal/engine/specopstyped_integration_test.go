// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// store is a kind whose objects Operations can change.
type store struct{ example.Kind }

// Compile implements typed.Kind.
func (store) Compile(s *example.Sample) (*typed.Output, error) {
	app := shop("", "", "tiers")
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "web", Replicas: &s.Spec.Replicas}}
	return &typed.Output{Application: &platformv1.Application{Spec: app.Spec}}, nil
}

// WriteThrough implements typed.Writer.
func (store) WriteThrough() map[string]string {
	return map[string]string{"components[web].replicas": "replicas"}
}

// mayWrite gives the engine what an operator has of a kind that Operations can change.
func mayWrite(t *testing.T, namespace string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "writer"}
	create(t, &rbacv1.Role{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{example.GroupVersion.Group}, Resources: []string{"samples"},
			Verbs: []string{"patch"}}}})
	create(t, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: account.User}}})
}

// What is edited of a typed object is recorded in its own words, unless an Operation edited it.
func TestAnEditedTypedObjectIsOnRecord(t *testing.T) {
	sample, _ := servedSample(t, typed.Register(store{}), "1.0")
	namespace := sample.Namespace
	mayWrite(t, namespace)
	edit := func(replicas int32) {
		before := sample.DeepCopy()
		sample.Spec.Replicas = replicas
		if err := env.Client.Patch(t.Context(), sample, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		testkit.WaitForReady(t, env.Client, sample)
	}
	edit(2)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample-a"}}
	refresh(t, app)
	record := onlyRecord(t, app, app.Generation)
	if got := ends(t, record, platformv1.OperationSucceeded).Steps[0].Outputs["changed"]; got != "spec.replicas: 1 → 2" {
		t.Errorf("it says %q", got)
	}
	if target := record.Spec.TargetRef; target.APIVersion != example.GroupVersion.String() || target.Kind != "Sample" ||
		target.Name != "a" {
		t.Errorf("its target is %v", target)
	}
	first := app.Generation
	ends(t, operate(t, app, "scale", "HorizontalScale", nil, "replicas", "3", "component", "web"),
		platformv1.OperationSucceeded)
	refresh(t, sample)
	refresh(t, app)
	if sample.Spec.Replicas != 3 || *app.Spec.Components[0].Replicas != 3 {
		t.Errorf("replicas are %d and %d", sample.Spec.Replicas, *app.Spec.Components[0].Replicas)
	}
	onlyRecord(t, app, first)
	edit(1)
	ended(t, namespace, 2)
}
