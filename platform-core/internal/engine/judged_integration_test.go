// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// heldUp has nothing come down from an Application: it names a Secret that is not there.
func heldUp(t *testing.T, app *platformv1.Application) {
	t.Helper()
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Credentials = []platformv1.Credential{{Name: "partner", PasswordFrom: platformv1.SecretKeyReference{Name: "none"}}}
	})
	testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
}

// waitsOver waits until a Component has looked at its spec and says that it waits.
func waitsOver(t *testing.T, of *platformv1.Component, says string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, of, "waits: "+says, func() error {
		ready := conditions.Get(of, platformv1.ReadyCondition)
		if ready == nil || ready.ObservedGeneration != of.Generation || !strings.Contains(ready.Message, says) {
			return fmt.Errorf("generation %d says %+v", of.Generation, ready)
		}
		return nil
	})
}

// standingIn are the UIDs of the sets and pods of a namespace, by name.
func standingIn(t *testing.T, namespace string) map[string]types.UID {
	t.Helper()
	found := map[string]types.UID{}
	sets, pods := &platformv1.WorkloadSetList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{sets, pods} {
		if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range sets.Items {
		if sets.Items[i].DeletionTimestamp == nil {
			found[sets.Items[i].Name] = sets.Items[i].UID
		}
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			found[pods.Items[i].Name] = pods.Items[i].UID
		}
	}
	return found
}

// What an edit of a Component would end has no end before the Application had its say: that takes the edit back, and
// all is there as it was.
func TestWhatIsDeclaredOutlivesAnEdit(t *testing.T) {
	namespace, app := standing(t, "tiers")
	before := standingIn(t, namespace)
	db, web := aComponent(namespace, "a-db"), aComponent(namespace, "a-web")
	heldUp(t, app)
	mergePatch(t, web, `{"spec":{"running":false}}`)
	waitsOver(t, web, `what runs of set "main" is kept: Application "a" declares it`)
	mergePatch(t, db, `{"spec":{"replicas":1,"sets":[{"name":"0"},{"name":"1"}]}}`)
	waitsOver(t, db, `a-db-0-1 is kept: Application "a" declares it`)
	mergePatch(t, db, `{"spec":{"replicas":2,"sets":[{"name":"0"}]}}`)
	waitsOver(t, db, `set "1" is kept: Application "a" declares it`)
	// Nor where nobody can tell what it declares.
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{{Name: "none"}}
	})
	waitsOver(t, db, `set "1" is kept until Application "a" says what there is to be: topology "tiers" has no component `+
		`"none"`)
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Credentials, s.Components = nil, []platformv1.ApplicationComponent{{Name: "db", Replicas: new(int32(2))}}
	})
	testkit.WaitFor(t, env.Client, web, "to run again", func() error {
		if !web.Spec.IsRunning() {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	testkit.WaitFor(t, env.Client, db, "both sets", func() error {
		if len(db.Spec.Sets) != 2 || db.Status.ObservedGeneration != db.Generation {
			return fmt.Errorf("it has %+v", db.Spec.Sets)
		}
		return nil
	})
	testkit.WaitForReady(t, env.Client, app)
	for name, uid := range before {
		if now := standingIn(t, namespace)[name]; now != uid {
			t.Errorf("%s is another one: %q, before %q", name, now, uid)
		}
	}
	// What the Application does not declare any more goes.
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Sets = []platformv1.ComponentSet{{Name: "0"}} })
	wait(t, app, &platformv1.WorkloadSetList{}, "a-db-0", "a-web-main")
}

// A set that somebody takes out of a Component comes back as it was, with all that the Application gives it.
func TestARemovedSetComesBackWhole(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "tiers")
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "db", Sets: []platformv1.ComponentSet{
		{Name: "0"}, {Name: "1", Parameters: platformv1.Parameters{"level": "7"}, Resources: cpu("100m")}}}}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	before, declared := standingIn(t, namespace), app.DeepCopy()
	of := aComponent(namespace, "a-db")
	refresh(t, of)
	was := of.DeepCopy()
	mergePatch(t, of, `{"spec":{"sets":[{"name":"0","replicas":2}]}}`)
	tellsOf(t, namespace, "EditReverted", "spec.sets[1],", `it follows from Application "a": change that`)
	testkit.WaitFor(t, env.Client, of, "as it was", func() error {
		if !equality.Semantic.DeepEqual(of.Spec.Sets, was.Spec.Sets) {
			return fmt.Errorf("it has %+v", of.Spec.Sets)
		}
		return nil
	})
	testkit.WaitForReady(t, env.Client, app)
	if app.Generation != declared.Generation {
		t.Errorf("the Application declares %+v, before %+v", app.Spec.Components, declared.Spec.Components)
	}
	if now := standingIn(t, namespace); now["a-db-1"] != before["a-db-1"] || now["a-db-1-0"] != before["a-db-1-0"] {
		t.Errorf("there are %v, before %v", now, before)
	}
}

// Resources that the namespace's LimitRange rules out touch no pod: none of those that run is given up for one that
// cannot be made.
func TestResourcesThatALimitRangeRulesOutTouchNoPod(t *testing.T) {
	namespace, app := standing(t, "quorum")
	before := standingIn(t, namespace)
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"},
		Spec: corev1.LimitRangeSpec{
			Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
				Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}},
		}}
	create(t, limits)
	// The request is above the limit that the container is given.
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{{Name: "quorum", Resources: cpu("200m")}}
	})
	testkit.WaitFor(t, env.Client, app, "the refusal", func() error {
		ready := conditions.Get(app, platformv1.ReadyCondition)
		if app.Status.Phase != platformv1.PhaseStalled ||
			!strings.Contains(ready.Message, "are left as they are, since the API server refuses the new ones") ||
			!strings.Contains(ready.Message, "cpu limit") {
			return fmt.Errorf("phase %s, Ready says %q", app.Status.Phase, ready.Message)
		}
		return nil
	})
	if after := standingIn(t, namespace); !maps.Equal(before, after) {
		t.Errorf("there were %v and there are %v", before, after)
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Resources = cpu("50m") })
	testkit.WaitForReady(t, env.Client, app)
}
