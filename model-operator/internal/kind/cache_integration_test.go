// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/kind"
)

// cachedModel is modelOf with a cache.
func cachedModel(namespace, name string) *aiv1.Model {
	m := modelOf(namespace, name)
	m.Spec.Cache = &aiv1.ModelCache{ServiceAccountName: "preparer",
		Storage: aiv1.DatasetStorage{Size: resource.MustParse("1Gi")}}
	return m
}

// keeps waits until a Dataset has these versions and no others.
func keeps(t *testing.T, ds *aiv1.Dataset, versions ...aiv1.DatasetVersionName) {
	t.Helper()
	testkit.WaitFor(t, env.Client, ds, fmt.Sprintf("keeps %v", versions), func() error {
		has := map[aiv1.DatasetVersionName]bool{}
		for _, version := range ds.Spec.Versions {
			has[version.Name] = true
		}
		for _, name := range versions {
			if !has[name] {
				return fmt.Errorf("it has %v", has)
			}
		}
		if len(has) != len(versions) {
			return fmt.Errorf("it has %v", has)
		}
		return nil
	})
}

// cached waits until a Model says this of how many versions the cache has.
func cached(t *testing.T, m *aiv1.Model, want string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, m, "has cached "+want, func() error {
		if m.Status.Cached != want {
			return fmt.Errorf("it has %s of %+v", m.Status.Cached, m.Status.Versions)
		}
		return nil
	})
}

// reports plays the controller of Datasets: all versions of the spec have the phase and a claim.
func reports(t *testing.T, ds *aiv1.Dataset, o outcome.Outcome, phases ...aiv1.DatasetPhase) {
	t.Helper()
	before := ds.DeepCopy()
	ds.Status.Versions, ds.Status.ObservedGeneration = nil, ds.Generation
	for n, version := range ds.Spec.Versions {
		known := aiv1.DatasetVersionStatus{Name: version.Name, Phase: phases[n]}
		if known.Phase == aiv1.DatasetReady {
			known.Claim = "dataset-" + ds.Name + "." + string(version.Name)
		} else {
			known.Message = "fetch runs"
		}
		ds.Status.Versions = append(ds.Status.Versions, known)
	}
	conditions.Report(ds, o, "every version can be read")
	if err := patch.Status(t.Context(), env.Client, before, ds); err != nil {
		t.Fatal(err)
	}
}

// mounts waits until an Application mounts a claim, and reports it ready.
func mounts(t *testing.T, app *platformv1.Application, claim string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, "mounts "+claim, func() error {
		got := app.Spec.Components[0].Mounts
		if len(got) != 1 || got[0].PersistentVolumeClaim == nil || got[0].PersistentVolumeClaim.Name != claim {
			return fmt.Errorf("it mounts %+v", got)
		}
		return nil
	})
	ready(t, app)
}

// A version is cached before it is served, and is taken out once nobody uses it.
func TestModelWithACache(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, kind.All()...)
	m := cachedModel(namespace, "chat")
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "answers"}}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Stage: "Production"}
	create(t, m, i)
	says(t, i, platformv1.ReasonReferenceNotReady,
		`version "1.0" of Model "chat", which is served once it is in the cache`)
	ds := &aiv1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model-chat"}}
	keeps(t, ds, "1.0")
	cached(t, m, "0/1")
	reports(t, ds, outcome.Waiting(platformv1.ReasonProgressing, `version "1.0" is being prepared`), aiv1.DatasetPreparing)
	says(t, i, platformv1.ReasonReferenceNotReady, "is Preparing there: fetch runs")
	says(t, m, platformv1.ReasonProgressing, `version "1.0" is being prepared`)
	reports(t, ds, outcome.Done(), aiv1.DatasetReady)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-answers"}}
	mounts(t, app, "dataset-model-chat.1.0")
	testkit.WaitForReady(t, env.Client, i)
	testkit.WaitForReady(t, env.Client, m)
	cached(t, m, "1/1")

	// The pods go on with the version of before until the next is there. One that cannot be fetched holds up no other.
	stage := func(version aiv1.ModelVersionName) {
		t.Helper()
		err := testkit.Edit(t.Context(), env.Client, m, func() { m.Spec.Stages["Production"] = version })
		if err != nil {
			t.Fatal(err)
		}
	}
	stage("2.0")
	keeps(t, ds, "1.0", "2.0")
	reports(t, ds, outcome.Stalled(platformv1.ReasonOperationFailed, `version "2.0" cannot be prepared`),
		aiv1.DatasetReady, aiv1.DatasetFailed)
	cached(t, m, "1/2")
	says(t, i, platformv1.ReasonReferenceNotReady, "is Failed there: fetch runs")
	stage("1.0")
	testkit.WaitForReady(t, env.Client, i)
	keeps(t, ds, "1.0")
	stage("2.0")
	keeps(t, ds, "1.0", "2.0")
	reports(t, ds, outcome.Done(), aiv1.DatasetReady, aiv1.DatasetReady)
	mounts(t, app, "dataset-model-chat.2.0")
	keeps(t, ds, "2.0")
	reports(t, ds, outcome.Done(), aiv1.DatasetReady)

	// Pods let go of a claim when the cache goes, or somebody deletes its Dataset.
	if err := env.Client.Delete(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	keeps(t, &aiv1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model-chat"}}, "2.0")
	if err := testkit.Edit(t.Context(), env.Client, m, func() { m.Spec.Cache = nil }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, ds)
	testkit.WaitFor(t, env.Client, app, "downloads", func() error {
		if main := app.Spec.Components[0]; len(main.Mounts) > 0 || main.Parameters["model.url"] == "" {
			return errors.New("it still mounts the claim")
		}
		return nil
	})
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}

// Whoever has files fetched as an account could act as that himself.
func TestWhoMayHaveFilesFetched(t *testing.T) {
	namespace := env.Namespace(t)
	models := rbacv1.PolicyRule{APIGroups: []string{aiv1.GroupVersion.Group}, Resources: []string{"models"},
		Verbs: []string{"create", "get", "update"}}
	ada := env.User(t, namespace, "ada", models, rbacv1.PolicyRule{APIGroups: []string{""},
		Resources: []string{"serviceaccounts"}, ResourceNames: []string{"preparer"}, Verbs: []string{"impersonate"}})
	bob := env.User(t, namespace, "bob", models)
	const refusal = "user 'bob' may not have files fetched as ServiceAccount 'preparer'"
	// The policy is in force a moment after it was made.
	testkit.Eventually(t, "bob is refused", func(ctx context.Context) error {
		err := bob.Create(ctx, cachedModel(namespace, "bobs"), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), refusal) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	m := cachedModel(namespace, "chat")
	if err := ada.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	testkit.Refused(t, bob.Create(t.Context(), modelOf(namespace, "plain"), client.DryRunAll), "")
	m.Spec.Stages["Production"] = "2.0"
	testkit.Refused(t, bob.Update(t.Context(), m.DeepCopy(), client.DryRunAll), "")
	more := m.Spec.Versions[0].DeepCopy()
	more.Name = "3.0"
	m.Spec.Versions = append(m.Spec.Versions, *more)
	testkit.Refused(t, bob.Update(t.Context(), m.DeepCopy(), client.DryRunAll), refusal)
	testkit.Refused(t, ada.Update(t.Context(), m.DeepCopy(), client.DryRunAll), "")
}
