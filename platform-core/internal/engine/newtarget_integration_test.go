// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// The plan of an object that is not there yet names all that is made of it then, and nothing else.
func TestThePlanOfANewObjectIsComplete(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := application(namespace)
	app.Spec.NetworkPolicy = &platformv1.NetworkPolicy{}
	data, err := yaml.Marshal(map[string]any{"apiVersion": platformv1.GroupVersion.String(), "kind": "Application",
		"metadata": map[string]any{"name": app.Name}, "spec": app.Spec})
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := cluster{t, env.Kubeconfig(t), namespace}.zictl(string(data), "-o", "json")
	var said struct {
		Objects []struct{ Changes []platformv1.PlannedChange }
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || code != 1 || len(said.Objects) != 1 {
		t.Fatalf("it ends with %d, %v: %s%s", code, err, out, errs)
	}
	var planned []string
	for _, change := range said.Objects[0].Changes {
		if change.Action != platformv1.PlannedCreate {
			t.Errorf("it would %s", change)
		}
		planned = append(planned, change.Kind+" "+change.Name)
	}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	var made []string
	for _, gvk := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Service"},
		{Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "Pod"},
		{Version: "v1", Kind: "PersistentVolumeClaim"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
		{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
		{Group: "batch", Version: "v1", Kind: "Job"}, platformv1.GroupVersion.WithKind("Component"),
		platformv1.GroupVersion.WithKind("WorkloadSet"), platformv1.GroupVersion.WithKind("Operation"),
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := env.Client.List(t.Context(), list, client.InNamespace(namespace),
			client.MatchingLabels{platformv1.ApplicationLabel: app.Name}); err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			made = append(made, gvk.Kind+" "+object.GetName())
		}
	}
	slices.Sort(planned)
	slices.Sort(made)
	if !slices.Equal(planned, made) {
		t.Errorf("planned\n%q\nmade\n%q", planned, made)
	}
}
