// SPDX-License-Identifier: Apache-2.0

//go:build integration

package typed_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "the controllers serve all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{example.AddToScheme},
		CRDs:        []fs.FS{crd.FS, example.CRDs, example.BundleCRDs},
		System:      "zeroinfra-system", Roles: []fs.FS{example.Role(), example.BundleRole()},
	})
}

// start runs the frame for Sample until the test, or stop, ends it.
func start(t *testing.T) (stop func()) {
	t.Helper()
	return serve(t, env.System.Config, typed.Register(example.Kind{}))
}

// serve runs the frame for kinds with the rights of an account until the test, or stop, ends it.
func serve(t *testing.T, cfg *rest.Config, kinds ...typed.Registration) (stop func()) {
	t.Helper()
	mgr, err := ctrl.NewManager(cfg, manager.Options{
		Scheme:     env.Scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := typed.Setup(mgr, typed.Settings{Domain: "database"}, kinds...); err != nil {
		t.Fatal(err)
	}
	return testkit.Run(t, mgr)
}

func create(t *testing.T, name string, spec example.SampleSpec) *example.Sample {
	t.Helper()
	s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: name}, Spec: spec}
	if err := env.Client.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func applicationOf(s *example.Sample) *platformv1.Application {
	return &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "sample-" + s.Name}}
}

// settle plays the engine: it reports an outcome and an endpoint for the Application's present generation.
func settle(t *testing.T, app *platformv1.Application, o outcome.Outcome, phase platformv1.Phase) {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatal(err)
	}
	before := app.DeepCopy()
	conditions.Report(app, o, "the state matches the spec")
	app.Status.Phase = phase
	app.Status.Endpoints = []platformv1.Endpoint{{Name: "redis", Host: "redis.example", Port: 6379}}
	if err := patch.Status(t.Context(), env.Client, before, app); err != nil {
		t.Fatal(err)
	}
}

func lint(t *testing.T, s *example.Sample) {
	t.Helper()
	if err := testkit.StatusLint(s); err != nil {
		t.Errorf("the status of %q breaks %v", s.Name, err)
	}
}

func TestLifeOfATypedObject(t *testing.T) {
	stop := start(t)
	s := create(t, "a", example.SampleSpec{Version: "7.0", Replicas: 1})
	app := applicationOf(s)
	testkit.WaitFor(t, env.Client, app, "is made", nil)
	if !metav1.IsControlledBy(app, s) || app.Labels[platformv1.DomainLabel] != "database" ||
		app.Labels[platformv1.ManagedByLabel] != platformv1.ManagedBy {
		t.Errorf("metadata is %+v", app.ObjectMeta)
	}
	testkit.WaitForCondition(t, env.Client, s, platformv1.ReconcilingCondition, metav1.ConditionTrue)
	if s.Status.Phase != platformv1.PhaseCreating {
		t.Errorf("phase is %q", s.Status.Phase)
	}
	lint(t, s)

	settle(t, app, outcome.Stalled("SecretNotFound", "Secret \"x\" is absent"), platformv1.PhaseStalled)
	testkit.WaitForCondition(t, env.Client, s, platformv1.StalledCondition, metav1.ConditionTrue)
	lint(t, s)

	settle(t, app, outcome.Done(), platformv1.PhaseReady)
	testkit.WaitForReady(t, env.Client, s)
	if s.Status.Host != "redis.example" || s.Status.Phase != platformv1.PhaseReady ||
		s.Status.ObservedGeneration != s.Generation {
		t.Errorf("status is %+v", s.Status)
	}
	lint(t, s)

	if err := testkit.Edit(t.Context(), env.Client, s, func() { s.Spec.Replicas = 3 }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "has the new number", func() error {
		if got := *app.Spec.Components[0].Replicas; got != 3 {
			return fmt.Errorf("replicas is %d", got)
		}
		return nil
	})
	testkit.WaitForCondition(t, env.Client, s, platformv1.ReadyCondition, metav1.ConditionFalse)
	settle(t, app, outcome.Done(), platformv1.PhaseReady)
	testkit.WaitForReady(t, env.Client, s)

	// Drift is repaired.
	image := client.MergeFrom(app.DeepCopy())
	*app.Spec.Components[0].Replicas = 1
	if err := env.Client.Patch(t.Context(), app, image); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "is repaired", func() error {
		if got := *app.Spec.Components[0].Replicas; got != 3 {
			return fmt.Errorf("replicas is %d", got)
		}
		return nil
	})
	settle(t, app, outcome.Done(), platformv1.PhaseReady)
	testkit.WaitForReady(t, env.Client, s)

	// At rest, and over a restart, nothing is written.
	before := writes(t)
	stop()
	start(t)
	witness := create(t, "witness", example.SampleSpec{Version: "7.0"})
	testkit.WaitFor(t, env.Client, applicationOf(witness), "is made", nil)
	testkit.WaitForCondition(t, env.Client, witness, platformv1.ReconcilingCondition, metav1.ConditionTrue)
	after := writes(t)
	// The witness costs its creation and its status; its Application one apply. All else stayed.
	if got := after["samples"] - before["samples"]; got != 2 {
		t.Errorf("%d writes of Samples, want 2 for the witness", got)
	}
	if got := after["applications"] - before["applications"]; got != 1 {
		t.Errorf("%d writes of Applications, want 1 for the witness", got)
	}
}

func writes(t *testing.T) map[string]int {
	t.Helper()
	counts, err := env.ServedWrites(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

func TestWhatDoesNotCompileStalls(t *testing.T) {
	start(t)
	tests := map[string]*example.Sample{
		"at most 5":             create(t, "many", example.SampleSpec{Version: "7.0", Replicas: 6}),
		"at most 31 characters": create(t, strings.Repeat("n", 32), example.SampleSpec{Version: "7.0"}),
		"name of a Service":     create(t, "my.app", example.SampleSpec{Version: "7.0"}),
	}
	for text, s := range tests {
		testkit.WaitForCondition(t, env.Client, s, platformv1.StalledCondition, metav1.ConditionTrue)
		stalled := conditions.Get(s, platformv1.StalledCondition)
		if stalled.Reason != platformv1.ReasonInvalidSpec || !strings.Contains(stalled.Message, text) {
			t.Errorf("stalled with %s: %s", stalled.Reason, stalled.Message)
		}
		lint(t, s)
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(applicationOf(s)),
			&platformv1.Application{}); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("an Application was made: %v", err)
		}
	}
	many := tests["at most 5"]
	if err := testkit.Edit(t.Context(), env.Client, many, func() { many.Spec.Replicas = 5 }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForCondition(t, env.Client, many, platformv1.ReconcilingCondition, metav1.ConditionTrue)
	lint(t, many)
}

// TestVolumesAreKeptAtOnce whatever else of the spec is not taken up; that fewer are kept waits for all of it.
func TestVolumesAreKeptAtOnce(t *testing.T) {
	start(t)
	for name, hinder := range map[string]func(*example.SampleSpec){
		"stalled":   func(spec *example.SampleSpec) { spec.Replicas = 6 },
		"refused":   func(spec *example.SampleSpec) { spec.Version = strings.Repeat("7", 64) },
		"suspended": func(spec *example.SampleSpec) { spec.Suspend = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := create(t, name, example.SampleSpec{Version: "7.0", DeletionPolicy: platformv1.DeletionPolicyDelete})
			app := applicationOf(s)
			testkit.WaitFor(t, env.Client, app, "is made", nil)
			asks := func(policy platformv1.DeletionPolicy) {
				if err := testkit.Edit(t.Context(), env.Client, s,
					func() { hinder(&s.Spec); s.Spec.DeletionPolicy = policy }); err != nil {
					t.Fatal(err)
				}
			}
			for _, policy := range []platformv1.DeletionPolicy{platformv1.DeletionPolicySnapshot,
				platformv1.DeletionPolicyRetain} {
				asks(policy)
				testkit.WaitFor(t, env.Client, app, "keeps more", func() error {
					if app.Spec.DeletionPolicy != policy || app.Spec.Version != "7.0" || *app.Spec.Components[0].Replicas != 0 {
						return fmt.Errorf("it is %+v", app.Spec)
					}
					return nil
				})
			}
			before := app.Generation
			asks(platformv1.DeletionPolicyDelete)
			if err := testkit.Edit(t.Context(), env.Client, s, func() {
				s.Spec = example.SampleSpec{Version: "8.0", DeletionPolicy: platformv1.DeletionPolicyDelete}
			}); err != nil {
				t.Fatal(err)
			}
			testkit.WaitFor(t, env.Client, app, "has what can be taken up", func() error {
				if app.Spec.Version != "8.0" {
					return fmt.Errorf("it has %s", app.Spec.Version)
				}
				return nil
			})
			if app.Spec.DeletionPolicy != platformv1.DeletionPolicyDelete || app.Generation != before+1 {
				t.Errorf("it is %s after %d writes", app.Spec.DeletionPolicy, app.Generation-before)
			}
		})
	}
}

func TestATakenNameStallsAndSaysSoOnce(t *testing.T) {
	namespace := env.Namespace(t)
	theirs := testkit.BuildApplication(namespace, "sample-b").Build()
	if err := env.Client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	start(t)
	s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"},
		Spec: example.SampleSpec{Version: "7.0"}}
	if err := env.Client.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForCondition(t, env.Client, s, platformv1.StalledCondition, metav1.ConditionTrue)
	if reason := conditions.Get(s, platformv1.StalledCondition).Reason; reason != platformv1.ReasonNameTaken {
		t.Errorf("reason is %s", reason)
	}
	lint(t, s)
	// Woken again, it says nothing new.
	err := testkit.Edit(t.Context(), env.Client, s, func() { s.Labels = map[string]string{"touched": "yes"} })
	if err != nil {
		t.Fatal(err)
	}
	events := &eventsv1.EventList{}
	testkit.Eventually(t, "the event", func(ctx context.Context) error {
		if err := env.Client.List(ctx, events, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(events.Items) == 0 {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	if len(events.Items) != 1 || events.Items[0].Reason != platformv1.ReasonNameTaken ||
		events.Items[0].Regarding.Name != "b" {
		t.Errorf("events are %+v", events.Items)
	}
	live := &platformv1.Application{}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), live); err != nil ||
		live.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("the object of another was touched: %v", err)
	}
}

func TestSuspendLeavesEverythingAlone(t *testing.T) {
	start(t)
	s := create(t, "c", example.SampleSpec{Version: "7.0", Replicas: 1})
	app := applicationOf(s)
	testkit.WaitForCondition(t, env.Client, s, platformv1.ReconcilingCondition, metav1.ConditionTrue)
	settle(t, app, outcome.Done(), platformv1.PhaseReady)
	testkit.WaitForReady(t, env.Client, s)

	if err := testkit.Edit(t.Context(), env.Client, s, func() { s.Spec.Suspend, s.Spec.Replicas = true, 4 }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForCondition(t, env.Client, s, typed.SuspendedCondition, metav1.ConditionTrue)
	if !conditions.IsTrue(s, platformv1.ReadyCondition) {
		t.Error("suspending made it not ready")
	}
	lint(t, s)
	testkit.WaitFor(t, env.Client, app, "is as it was", func() error {
		if got := *app.Spec.Components[0].Replicas; got != 1 {
			return fmt.Errorf("replicas is %d", got)
		}
		return nil
	})

	if err := testkit.Edit(t.Context(), env.Client, s, func() { s.Spec.Suspend = false }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "has what was asked meanwhile", func() error {
		if got := *app.Spec.Components[0].Replicas; got != 4 {
			return fmt.Errorf("replicas is %d", got)
		}
		return nil
	})
	settle(t, app, outcome.Done(), platformv1.PhaseReady)
	testkit.WaitFor(t, env.Client, s, "is no longer suspended", func() error {
		if conditions.Get(s, typed.SuspendedCondition) != nil {
			return fmt.Errorf("it still says so")
		}
		return nil
	})
}

// A kind without a field for the version of the plugin keeps the one that an Operation brought an object to.
func TestPluginVersionOfAKindWithoutAField(t *testing.T) {
	start(t)
	s := create(t, "e", example.SampleSpec{Version: "7.0"})
	app := applicationOf(s)
	testkit.WaitFor(t, env.Client, app, "is made", nil)
	if app.Spec.PluginVersion != "1.0.0" {
		t.Fatalf("it begins with version %s", app.Spec.PluginVersion)
	}
	testkit.WaitFor(t, env.Client, s, "exists", nil)
	before := s.DeepCopy()
	s.Annotations = map[string]string{platformv1.PluginVersionAnnotation: "1.1.0"}
	if err := env.Client.Patch(t.Context(), s, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	upgraded := func() error {
		if got := app.Spec.PluginVersion; got != "1.1.0" {
			return fmt.Errorf("pluginVersion is %s", got)
		}
		return nil
	}
	testkit.WaitFor(t, env.Client, app, "has the version of the annotation", upgraded)
	if err := testkit.Edit(t.Context(), env.Client, s, func() { s.Spec.Replicas = 2 }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "has what was asked", func() error {
		if got := *app.Spec.Components[0].Replicas; got != 2 {
			return fmt.Errorf("replicas is %d", got)
		}
		return upgraded()
	})
}

func TestDeletionIsShown(t *testing.T) {
	start(t)
	s := create(t, "d", example.SampleSpec{Version: "7.0"})
	testkit.WaitFor(t, env.Client, applicationOf(s), "is made", nil)
	testkit.WaitFor(t, env.Client, s, "exists", nil)
	if err := env.Client.Delete(t.Context(), s, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, s, "says that it is being deleted", func() error {
		if s.Status.Phase != platformv1.PhaseDeleting ||
			conditions.Get(s, platformv1.ReadyCondition).Reason != platformv1.ReasonDeleting {
			return fmt.Errorf("phase is %q", s.Status.Phase)
		}
		return nil
	})
	lint(t, s)
}
