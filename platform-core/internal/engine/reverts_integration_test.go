// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// setAsBefore waits until the spec of a set is what it was.
func setAsBefore(t *testing.T, was *platformv1.WorkloadSet) {
	t.Helper()
	set := aSet(was.Namespace, was.Name)
	testkit.WaitFor(t, env.Client, set, "as it was", func() error {
		if !equality.Semantic.DeepEqual(set.Spec, was.Spec) {
			return fmt.Errorf("it has %d replicas, without %v, and scaling %q", set.Spec.Replicas, set.Spec.ExcludedOrdinals,
				set.Spec.Scaling)
		}
		return nil
	})
}

// Whoever says that a set which cannot be scaled can be, and scales it in the same write, has both taken back.
func TestEditsOfWhetherASetScalesAreReverted(t *testing.T) {
	namespace, app := standing(t, "quorum")
	was := aSet(namespace, "a-quorum-main")
	refresh(t, was)
	mergePatch(t, was.DeepCopy(), `{"spec":{"scaling":"Online","replicas":5,"excludedOrdinals":[1]}}`)
	tellsOf(t, namespace, "EditReverted", "spec.excludedOrdinals", "spec.replicas", "spec.scaling", "kubectl-edit")
	setAsBefore(t, was)
	testkit.WaitForReady(t, env.Client, app)
	if err := tryScale(t, namespace, was.Name, 5); err == nil {
		t.Error("it can be scaled")
	}
}

// An edit of what cannot be scaled is taken back also where a newer spec of the Application comes down at the same
// time.
func TestEditsOfWhatIsFixedDoNotHoldUpANewerSpec(t *testing.T) {
	namespace, app := standing(t, "quorum")
	of := aComponent(namespace, "a-quorum")
	mergePatch(t, app, `{"spec":{"suspend":true}}`)
	testkit.WaitFor(t, env.Client, of, "suspended", func() error {
		if !of.Spec.Suspend {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	mergePatch(t, of, `{"spec":{"sets":[{"name":"main","replicas":5}]}}`)
	mergePatch(t, app, `{"spec":{"suspend":false}}`)
	tellsOf(t, namespace, "EditReverted", "spec.sets[main].replicas", "kubectl-edit", "cannot be scaled once it is made")
	replicasOf(t, app, "a-quorum-main", 3)
	if len(app.Spec.Components) > 0 {
		t.Errorf("the Application declares %+v", app.Spec.Components)
	}
}

// A label of the engine that somebody takes out comes back, and that is told.
func TestRemovedLabelsAreReverted(t *testing.T) {
	namespace, app := standing(t, "tiers")
	// A set follows from the labels of its Component.
	for _, test := range []struct {
		obj   client.Object
		label string
	}{{aSet(namespace, "a-web-main"), platformv1.InstanceLabel}, {aComponent(namespace, "a-web"), platformv1.NameLabel}} {
		obj := test.obj
		refresh(t, obj)
		was := maps.Clone(obj.GetLabels())
		mergePatch(t, obj, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, test.label))
		tellsOf(t, namespace, "EditReverted", "metadata.labels."+test.label, "change that")
		testkit.WaitFor(t, env.Client, obj, "all labels", func() error {
			if !maps.Equal(obj.GetLabels(), was) {
				return fmt.Errorf("it has %v", obj.GetLabels())
			}
			return nil
		})
	}
	testkit.WaitForReady(t, env.Client, app)
}

// A GitOps tool that applies on its own side replaces the components as a whole: of what it declares nothing else is
// declared beside it.
func TestEditsBesideWhatGitOpsAppliesAreReverted(t *testing.T) {
	namespace, app := standing(t, "tiers")
	before := app.DeepCopy()
	app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "web", Service: &platformv1.ServiceExposure{
			ServiceSettings: platformv1.ServiceSettings{Annotations: map[string]string{"a": "b"}}}}}
	err := env.Client.Patch(t.Context(), app, client.MergeFrom(before), client.FieldOwner("argocd-controller"))
	if err != nil {
		t.Fatal(err)
	}
	declared := `[{"name":"web","service":{"type":"ClusterIP","annotations":{"a":"b"}}}]`
	scale(t, namespace, "a-web-main", 2)
	tellsOf(t, namespace, "EditReverted", "spec.replicas", "autoscaler",
		"is managed by argocd-controller, which would write it back")
	replicasOf(t, app, "a-web-main", 1)
	mergePatch(t, aComponent(namespace, "a-db"), `{"spec":{"replicas":3}}`)
	tellsOf(t, namespace, "EditReverted", "spec.replicas", "kubectl-edit", "is managed by argocd-controller")
	declares(t, app, declared)
	if found, err := notes(t.Context(), namespace, "EditTakenUp"); err != nil || len(found) > 0 {
		t.Errorf("edits were taken up: %q, %v", found, err)
	}
}
