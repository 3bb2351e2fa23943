// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/config/crd"
	"github.com/zeroinfra/model-operator/internal/kind"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "the controllers serve all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{aiv1.AddToScheme},
		CRDs:        []fs.FS{os.DirFS("../../../platform-core/config/crd/bases"), crd.FS},
		System:      "zeroinfra-system", Roles: []fs.FS{os.DirFS("../../config/rbac")},
	})
}

// of is the registration of the kind of an object.
func of[T any](t *testing.T) typed.Registration {
	t.Helper()
	for _, registered := range kind.All() {
		if _, is := registered.Object().(T); is {
			return registered
		}
	}
	t.Fatalf("the operator does not serve %T", *new(T))
	return nil
}

// modelOf is a Model with the versions 1.0 and 2.0, of which the first is in production.
func modelOf(namespace, name string) *aiv1.Model {
	m := &aiv1.Model{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: aiv1.ModelSpec{
		Format: aiv1.FormatGGUF, Stages: map[aiv1.ModelStage]aiv1.ModelVersionName{"Production": "1.0"},
	}}
	for _, digit := range []string{"1", "2"} {
		m.Spec.Versions = append(m.Spec.Versions, aiv1.ModelVersion{Name: aiv1.ModelVersionName(digit + ".0"),
			SHA256: strings.Repeat(digit, 64),
			Source: aiv1.ModelSource{HTTP: &aiv1.ModelHTTPSource{URL: "https://models.example.com/" + digit}}})
	}
	return m
}

// inProduction is the spec of an Inference that serves what is in production.
const inProduction = `{"version":"0.7","modelRef":{"name":"chat","stage":"Production"}}`

func kept(t *testing.T) kindtest.Kept {
	t.Helper()
	return kindtest.Kept{Kind: of[*aiv1.Inference](t), Spec: inProduction, Named: []client.Object{modelOf("", "chat")}}
}

func TestDataProtection(t *testing.T) { kindtest.DataProtection(t, env, kept(t)) }

func TestInstance(t *testing.T) { kindtest.Instance(t, env, kept(t)) }

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := env.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// says waits until an object is not ready for a reason, with a message that has the text.
func says(t *testing.T, obj typed.Object, reason, text string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, obj, "says "+text, func() error {
		c := conditions.Get(obj, platformv1.ReadyCondition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("Ready is %+v", c)
		}
		return nil
	})
}

// ready plays the engine: the Application is as it was asked.
func ready(t *testing.T, app *platformv1.Application) {
	t.Helper()
	before := app.DeepCopy()
	app.Status.ObservedGeneration, app.Status.Phase = app.Generation, platformv1.PhaseReady
	conditions.Report(app, outcome.Done(), "all components are ready")
	if err := patch.Status(t.Context(), env.Client, before, app); err != nil {
		t.Fatal(err)
	}
}

// serves waits until an Application is to serve a file, and reports it ready.
func serves(t *testing.T, app *platformv1.Application, digit string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, "serves "+digit, func() error {
		if got := app.Spec.Components[0].Parameters["model.sha256"]; string(got) != strings.Repeat(digit, 64) {
			return fmt.Errorf("it serves %q", got)
		}
		return nil
	})
	ready(t, app)
}

// counts waits until versions of a Model have so many users.
func counts(t *testing.T, m *aiv1.Model, first, second int32) {
	t.Helper()
	testkit.WaitFor(t, env.Client, m, "counts its users", func() error {
		users := map[aiv1.ModelVersionName]int32{}
		for _, version := range m.Status.Versions {
			users[version.Name] = version.InUse
		}
		if users["1.0"] != first || users["2.0"] != second {
			return fmt.Errorf("the versions are %+v", m.Status.Versions)
		}
		return nil
	})
}

// An Inference waits for its Model, and follows the stage. What it uses cannot go.
func TestInferenceFollowsTheStageOfItsModel(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, kind.All()...)
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "answers"}}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Stage: "Production"}
	create(t, i)
	says(t, i, platformv1.ReasonReferenceNotFound, `spec.modelRef names Model "chat", which does not exist`)
	m := modelOf(namespace, "chat")
	create(t, m)
	testkit.WaitForReady(t, env.Client, m)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-answers"}}
	serves(t, app, "1")
	testkit.WaitForReady(t, env.Client, i)
	counts(t, m, 1, 0)

	// Until all pods have the other version both are in use.
	edit := func(change func()) error { return testkit.Edit(t.Context(), env.Client, m, change) }
	if err := edit(func() { m.Spec.Stages["Production"] = "2.0" }); err != nil {
		t.Fatal(err)
	}
	counts(t, m, 1, 1)
	refusal := edit(func() {
		m.Spec.Versions = slices.DeleteFunc(m.Spec.Versions, func(v aiv1.ModelVersion) bool { return v.Name == "1.0" })
	})
	testkit.Refused(t, refusal, "a version that an Inference uses cannot be taken out")
	serves(t, app, "2")
	counts(t, m, 0, 1)
	if s := i.Status.Model; s == nil || s.Digest == "" {
		t.Errorf("the Inference serves %+v", s)
	}

	// A Model that is deleted stays while it is used.
	if err := env.Client.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	says(t, m, platformv1.ReasonDeleting, `it is used by Inference "answers", and goes when nothing uses it any more`)
	says(t, i, platformv1.ReasonReferenceDeleting, `Model "chat", which is being deleted`)
	if err := env.Client.Delete(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, m)
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}

// A canary uses its version, has pods of its own, and is refused where the replicas cannot have its weight.
func TestInferenceWithACanary(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, kind.All()...)
	m := modelOf(namespace, "chat")
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "answers"}}
	i.Spec.Version, i.Spec.ModelRef, i.Spec.Replicas = "0.7", aiv1.InferenceModelReference{Name: "chat", Version: "1.0"},
		new(int32(4))
	i.Spec.Canary = &aiv1.InferenceCanary{ModelRef: aiv1.InferenceModelReference{Name: "chat", Version: "2.0"},
		Weight: new(int32(50))}
	create(t, m, i)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-answers"}}
	serves(t, app, "1")
	if sets := app.Spec.Components[0].Sets; len(sets) != 2 || *sets[1].Replicas != 2 ||
		sets[1].Parameters["model.sha256"] != platformv1.ParameterValue(strings.Repeat("2", 64)) {
		t.Errorf("the sets are %+v", sets)
	}
	testkit.WaitForReady(t, env.Client, i)
	counts(t, m, 1, 1)
	if s := i.Status.Canary; s == nil || s.Mechanism != aiv1.CanaryByReplicas || s.Model == nil ||
		s.Model.Version != "2.0" {
		t.Errorf("the canary is %+v", s)
	}
	if err := testkit.Edit(t.Context(), env.Client, i, func() { i.Spec.Canary.Weight = new(int32(10)) }); err != nil {
		t.Fatal(err)
	}
	says(t, i, platformv1.ReasonInvalidSpec, "1 of 4 pods would have 25 %")
	if err := testkit.Edit(t.Context(), env.Client, i, func() {
		i.Spec.HTTPRoute = &aiv1.InferenceHTTPRoute{Host: "chat.example.org", Gateway: "public"}
	}); err != nil {
		t.Fatal(err)
	}
	says(t, i, platformv1.ReasonKindNotInstalled, "HTTPRoute")
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}

// An Inference mounts a version of a Dataset once it can be read.
func TestInferenceMountsADataset(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, kind.All()...)
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "answers"}}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Version: "1.0"}
	i.Spec.Datasets = []aiv1.InferenceDataset{{Name: "points", Version: "1.0"}}
	create(t, modelOf(namespace, "chat"), i)
	says(t, i, platformv1.ReasonReferenceNotFound, `spec.datasets[0] names Dataset "points", which does not exist`)
	ds := &aiv1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "points"}}
	ds.Spec = aiv1.DatasetSpec{ServiceAccountName: "preparer",
		Storage: aiv1.DatasetStorage{Size: resource.MustParse("1Gi")}, Versions: []aiv1.DatasetVersion{{Name: "1.0",
			Files:  []aiv1.DatasetFile{{Path: "a.csv", SHA256: strings.Repeat("a", 64)}},
			Source: &aiv1.DatasetSource{PVC: &aiv1.DatasetPVCSource{ClaimName: "shared", Path: "points"}}}}}
	create(t, ds)
	says(t, i, platformv1.ReasonReferenceNotReady,
		`spec.datasets[0] names version "1.0" of Dataset "points", which is Pending`)
	before, digest := ds.DeepCopy(), "sha256:"+strings.Repeat("d", 64)
	ds.Status.Versions = []aiv1.DatasetVersionStatus{{Name: "1.0", Phase: aiv1.DatasetReady, Claim: "shared",
		Path: "points", Digest: digest}}
	if err := patch.Status(t.Context(), env.Client, before, ds); err != nil {
		t.Fatal(err)
	}
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-answers"}}
	serves(t, app, "1")
	if mounts := app.Spec.Components[0].Mounts; len(mounts) != 1 || mounts[0].Name != "data-points" ||
		mounts[0].PersistentVolumeClaim.Name != "shared" || mounts[0].SubPath != "points" {
		t.Errorf("the mounts are %+v", mounts)
	}
	testkit.WaitForReady(t, env.Client, i)
	if s := i.Status.Datasets; len(s) != 1 || s[0].Version != "1.0" || s[0].Digest != digest {
		t.Errorf("the datasets are %+v", s)
	}
}

// A Model is of no use without those that it requires, and keeps them. Until they are there it is not served, nor is a
// version of it that is put into a stage.
func TestRequiredModelsStay(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, kind.All()...)
	adapter, base := modelOf(namespace, "adapter"), modelOf(namespace, "base")
	adapter.Spec.Requires = []aiv1.ModelReference{{Name: "base"}}
	create(t, adapter)
	says(t, adapter, platformv1.ReasonReferenceNotFound, `spec.requires[0] names Model "base", which does not exist`)
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "answers"}}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "adapter", Stage: "Production"}
	create(t, i)
	says(t, i, platformv1.ReasonReferenceNotReady,
		`spec.modelRef names Model "adapter", which is not ready: spec.requires[0] names Model "base", which does not exist`)
	create(t, base)
	testkit.WaitForReady(t, env.Client, adapter)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-answers"}}
	serves(t, app, "1")
	testkit.WaitForReady(t, env.Client, i)
	testkit.WaitFor(t, env.Client, base, "is in use", func() error {
		if base.Status.InUse != 1 {
			return fmt.Errorf("inUse is %d", base.Status.InUse)
		}
		return nil
	})

	// A version is promoted together with a requirement that nothing meets: pods go on with the one before.
	if err := testkit.Edit(t.Context(), env.Client, adapter, func() {
		adapter.Spec.Requires = append(adapter.Spec.Requires, aiv1.ModelReference{Name: "tokenizer"})
		adapter.Spec.Stages["Production"] = "2.0"
	}); err != nil {
		t.Fatal(err)
	}
	says(t, i, platformv1.ReasonReferenceNotReady, `names Model "tokenizer", which does not exist`)
	serves(t, app, "1")
	if err := testkit.Edit(t.Context(), env.Client, adapter, func() {
		adapter.Spec.Requires = adapter.Spec.Requires[:1]
	}); err != nil {
		t.Fatal(err)
	}
	serves(t, app, "2")
	if err := env.Client.Delete(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, i)
	if err := env.Client.Delete(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	says(t, base, platformv1.ReasonDeleting, `it is used by Model "adapter"`)
	if err := env.Client.Delete(t.Context(), adapter); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, base)
}
