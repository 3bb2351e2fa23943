// SPDX-License-Identifier: Apache-2.0

//go:build integration

package typed_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
)

func named(name string) func(*example.BundleSpec) {
	return func(s *example.BundleSpec) { s.SampleRef = &example.BundleReference{Name: name} }
}

// host waits until the object of a Bundle has the host of the Sample that it names.
func host(t *testing.T, b *example.Bundle, want string) {
	t.Helper()
	object := configMap(b.Namespace, b.Name+"-host")
	testkit.WaitFor(t, env.Client, object, "has the host", func() error {
		if got := object.Data["host"]; got != want {
			return fmt.Errorf("it has %q, want %q", got, want)
		}
		return nil
	})
}

func TestReferencesAreFollowed(t *testing.T) {
	startBundles(t)
	namespace := env.Namespace(t)
	b := bundle(t, namespace, "b", named("s"))
	stalls(t, b, platformv1.ReasonReferenceNotFound, `spec.sampleRef names Sample "s", which does not exist`)
	s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s",
		Finalizers: []string{"test.example/held"}}, Spec: example.SampleSpec{Version: "7.0"}}
	if err := env.Client.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, b)
	host(t, b, "")
	app := applicationOf(s)
	testkit.WaitFor(t, env.Client, app, "is made", nil)
	settle(t, app, outcome.Done(), platformv1.PhaseReady)
	host(t, b, "redis.example")

	// One that goes stalls who names it, and what that declared stays as it is.
	if err := env.Client.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	stalls(t, b, platformv1.ReasonReferenceDeleting, `Sample "s", which is being deleted`)
	host(t, b, "redis.example")
	if err := testkit.Edit(t.Context(), env.Client, s, func() { s.Finalizers = nil }); err != nil {
		t.Fatal(err)
	}
	stalls(t, b, platformv1.ReasonReferenceNotFound)
	host(t, b, "redis.example")
}

func TestReferencesToOtherNamespacesAndKinds(t *testing.T) {
	startBundles(t)
	namespace, other := env.Namespace(t), env.Namespace(t)
	s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "s"},
		Spec: example.SampleSpec{Version: "7.0"}}
	if err := env.Client.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	elsewhere := bundle(t, namespace, "a",
		func(spec *example.BundleSpec) { spec.SampleRef = &example.BundleReference{Namespace: other, Name: "s"} })
	stalls(t, elsewhere, platformv1.ReasonReferenceNotAllowed, other, fmt.Sprintf("name one in namespace %q", namespace))
	own := bundle(t, other, "a",
		func(spec *example.BundleSpec) { spec.SampleRef = &example.BundleReference{Namespace: other, Name: "s"} })
	testkit.WaitForReady(t, env.Client, own)

	// A kind that the operator does not serve.
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"}}
	b := bundle(t, namespace, "b", func(spec *example.BundleSpec) { spec.QuotaRef = &example.BundleReference{Name: "q"} })
	stalls(t, b, platformv1.ReasonReferenceNotFound, `spec.quotaRef names ResourceQuota "q"`)
	if err := env.Client.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, b)
	if err := env.Client.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	stalls(t, b, platformv1.ReasonReferenceNotFound)
}

// An Entity may be inside the Application of another object.
func TestEntitiesInsideAnotherObject(t *testing.T) {
	startBundles(t)
	namespace := env.Namespace(t)
	s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"},
		Spec: example.SampleSpec{Version: "7.0"}}
	if err := env.Client.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	b := bundle(t, namespace, "b", func(spec *example.BundleSpec) { named("s")(spec); spec.Topics = []string{"orders"} })
	topic := &platformv1.Entity{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: platformv1.EntityNameFor("sample-s", "topic", "orders")}}
	testkit.WaitFor(t, env.Client, topic, "is made", nil)
	if !metav1.IsControlledBy(topic, b) || topic.Spec.ApplicationRef.Name != "sample-s" {
		t.Errorf("it is %+v", topic)
	}
	testkit.WaitForCondition(t, env.Client, b, platformv1.ReconcilingCondition, metav1.ConditionTrue)
	tell(t, topic, outcome.Done())
	testkit.WaitForReady(t, env.Client, b)
}

// operation waits for the Operation that a Bundle declares under a name.
func operation(t *testing.T, b *example.Bundle, name string) *platformv1.Operation {
	t.Helper()
	op := &platformv1.Operation{}
	testkit.WaitFor(t, env.Client, b, "has run "+name, func() error {
		for _, run := range b.Status.Runs {
			if run.Name == name && run.UID != "" {
				op.Namespace, op.Name = b.Namespace, run.Operation
				return nil
			}
		}
		return fmt.Errorf("runs are %+v", b.Status.Runs)
	})
	testkit.WaitFor(t, env.Client, op, "is made", nil)
	return op
}

// enter plays the engine: an Operation has come to a phase.
func enter(t *testing.T, op *platformv1.Operation, phase platformv1.OperationPhase) {
	t.Helper()
	before := op.DeepCopy()
	op.Status.Phase, op.Status.ObservedGeneration = phase, op.Generation
	if err := patch.Status(t.Context(), env.Client, before, op); err != nil {
		t.Fatal(err)
	}
}

func TestOperationsOfATypedObject(t *testing.T) {
	startBundles(t)
	namespace := env.Namespace(t)
	s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"},
		Spec: example.SampleSpec{Version: "7.0"}}
	if err := env.Client.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	b := bundle(t, namespace, "b", func(spec *example.BundleSpec) {
		named("s")(spec)
		spec.Restarts = []string{"one",
			"two"}
	})
	one, two := operation(t, b, "one"), operation(t, b, "two")
	if !metav1.IsControlledBy(one, b) || one.Labels[platformv1.DomainLabel] != "database" ||
		one.Spec.TemplateRef != "Restart" {
		t.Errorf("it is %+v", one)
	}
	testkit.WaitForCondition(t, env.Client, b, platformv1.ReconcilingCondition, metav1.ConditionTrue)
	enter(t, one, platformv1.OperationSucceeded)
	enter(t, two, platformv1.OperationSucceeded)
	testkit.WaitForReady(t, env.Client, b)

	// A record that is gone is not run again.
	if err := env.Client.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, one)
	if err := testkit.Edit(t.Context(), env.Client, b, func() {
		b.Spec.Restarts = append(b.Spec.Restarts,
			"three")
	}); err != nil {
		t.Fatal(err)
	}
	three := operation(t, b, "three")
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(one), one); client.IgnoreNotFound(err) != nil ||
		err == nil {
		t.Errorf("it was run again: %v", err)
	}
	if run := b.Status.Runs[0]; run.Name != "one" || run.Phase != platformv1.OperationSucceeded {
		t.Errorf("runs are %+v", b.Status.Runs)
	}

	// One that was created is never changed, and says so.
	if err := testkit.Edit(t.Context(), env.Client, b,
		func() { b.Spec.Timeout = &metav1.Duration{Duration: 60e9}; b.Spec.Restarts = []string{"three"} }); err != nil {
		t.Fatal(err)
	}
	stalls(t, b, platformv1.ReasonInvalidSpec, three.Name, "declare the new one under another name")

	// One that is declared no more is cancelled, and its record stays.
	if err := testkit.Edit(t.Context(), env.Client, b, func() { b.Spec.Restarts = nil }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, three, "is cancelled", func() error {
		if !three.Spec.Cancel {
			return fmt.Errorf("cancel is false")
		}
		return nil
	})
	testkit.WaitForReady(t, env.Client, b)
	enter(t, three, platformv1.OperationCancelled)
	testkit.WaitFor(t, env.Client, b, "tells of it", func() error {
		for _, run := range b.Status.Runs {
			if run.Name == "three" && run.Phase == platformv1.OperationCancelled {
				return nil
			}
		}
		return fmt.Errorf("runs are %+v", b.Status.Runs)
	})
	if conditions.Get(b, platformv1.StalledCondition) != nil {
		t.Errorf("conditions are %+v", b.Status.Conditions)
	}
}
