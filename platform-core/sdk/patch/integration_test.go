// SPDX-License-Identifier: Apache-2.0

//go:build integration

package patch_test

import (
	"io/fs"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

// A status is written with the rights of an operator, everything else by an administrator.
func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{CRDs: []fs.FS{crd.FS}, System: "zeroinfra-system"})
}

func TestStatus(t *testing.T) {
	c, writes, err := env.CountingClient()
	if err != nil {
		t.Fatal(err)
	}
	app := testkit.BuildApplication(env.Namespace(t), "a").Build()
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	step := func(name string, wanted int, change func(*platformv1.Application)) {
		t.Helper()
		before := app.DeepCopy()
		change(app)
		if err := patch.Status(t.Context(), c, before, app); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := writes.Count(); n != wanted {
			t.Errorf("%s: %d writes, want %d", name, n, wanted)
		}
	}
	read := func() *platformv1.Application {
		t.Helper()
		live := &platformv1.Application{}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(app), live); err != nil {
			t.Fatal(err)
		}
		return live
	}

	step("a first status", 1, func(a *platformv1.Application) {
		conditions.Report(a, outcome.Waiting("PodsNotReady", "pods start"), "")
		a.Status.Version, a.Status.Primary = "7.0", "pod-0"
	})
	step("the same again", 0, func(a *platformv1.Application) {
		conditions.Report(a, outcome.Waiting("PodsNotReady", "pods start"), "")
	})
	// Someone changes the spec meanwhile: what was seen is not lost, and the spec is left alone.
	image := client.MergeFrom(read())
	live := read()
	live.Spec.Version = "7.2"
	if err := env.Client.Patch(t.Context(), live, image); err != nil {
		t.Fatal(err)
	}
	step("a change, from an image that is behind", 1, func(a *platformv1.Application) {
		a.Spec.Version = "0"
		a.Status.Primary = ""
		conditions.Report(a, outcome.Done(), "the state matches the spec")
	})
	live = read()
	if live.Spec.Version != "7.2" || live.Status.Version != "7.0" || live.Status.Primary != "" {
		t.Errorf("spec %+v, status %+v", live.Spec, live.Status)
	}
	if len(live.Status.Conditions) != 1 || !conditions.IsTrue(live, platformv1.ReadyCondition) {
		t.Errorf("conditions are %+v", live.Status.Conditions)
	}
	step("everything goes", 1, func(a *platformv1.Application) { a.Status = platformv1.ApplicationStatus{} })
	if live = read(); live.Status.Version != "" || len(live.Status.Conditions) != 0 {
		t.Errorf("status is %+v", live.Status)
	}

	if err := env.Client.Delete(t.Context(), read()); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, &platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}})
	step("an object that is gone", 1, func(a *platformv1.Application) { a.Status.Version = "8" })
}

// What was seen of an object says nothing of another one that has its name by now.
func TestStatusOfAnEarlierObjectIsNotWritten(t *testing.T) {
	namespace := env.Namespace(t)
	app := testkit.BuildApplication(namespace, "a").Build()
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	earlier := app.DeepCopy()
	if err := env.Client.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	again := testkit.BuildApplication(namespace, "a").Build()
	if err := env.Client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	after := earlier.DeepCopy()
	conditions.Report(after, outcome.Waiting("PodsNotReady", "pods start"), "")
	c, writes, err := env.CountingClient()
	if err != nil {
		t.Fatal(err)
	}
	if err := patch.Status(t.Context(), c, earlier, after); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(again), again); err != nil {
		t.Fatal(err)
	}
	if n := writes.Count(); n != 1 || len(again.Status.Conditions) != 0 {
		t.Errorf("after %d writes the new object has conditions of the earlier one: %+v", n, again.Status.Conditions)
	}
}
