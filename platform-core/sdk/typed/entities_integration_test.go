// SPDX-License-Identifier: Apache-2.0

//go:build integration

package typed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

func entityOf(s *example.Sample, user string) *platformv1.Entity {
	return &platformv1.Entity{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace,
		Name: platformv1.EntityNameFor("sample-"+s.Name, "acl-user", user)}}
}

// tell plays the engine: it reports an outcome for the Entity's present generation.
func tell(t *testing.T, entity *platformv1.Entity, o outcome.Outcome) {
	t.Helper()
	testkit.WaitFor(t, env.Client, entity, "is made", nil)
	before := entity.DeepCopy()
	conditions.Report(entity, o, "the state matches the spec")
	if err := patch.Status(t.Context(), env.Client, before, entity); err != nil {
		t.Fatal(err)
	}
}

// restsWhileItWaits proves that another look at what waits writes nothing. It starts the frame, and returns what stops
// it.
func restsWhileItWaits(t *testing.T, s *example.Sample) (stop func()) {
	t.Helper()
	earlier := s.DeepCopy()
	for i := range s.Status.Conditions {
		s.Status.Conditions[i].LastTransitionTime = metav1.NewTime(s.CreationTimestamp.Add(-time.Hour))
	}
	if err := patch.Status(t.Context(), env.Client, earlier, s); err != nil {
		t.Fatal(err)
	}
	stop = start(t)
	other := create(t, "other", example.SampleSpec{Version: "7.0"})
	testkit.WaitForCondition(t, env.Client, other, platformv1.ReconcilingCondition, metav1.ConditionTrue)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
		t.Fatal(err)
	}
	if stalled := conditions.Get(s, platformv1.StalledCondition); stalled == nil ||
		!stalled.LastTransitionTime.Before(&s.CreationTimestamp) {
		t.Errorf("the status of what waits was written anew: %+v", stalled)
	}
	return stop
}

func TestEntitiesOfATypedObject(t *testing.T) {
	stop := start(t)
	s := create(t, "u", example.SampleSpec{Version: "7.0", Users: []string{"app", "Ops@shop"}})
	app := applicationOf(s)
	testkit.WaitFor(t, env.Client, app, "is made", nil)
	settle(t, app, outcome.Done(), platformv1.PhaseReady)

	first, second := entityOf(s, "app"), entityOf(s, "Ops@shop")
	testkit.WaitFor(t, env.Client, second, "is made", nil)
	testkit.WaitFor(t, env.Client, first, "is made", nil)
	if !metav1.IsControlledBy(first, s) || first.Labels[platformv1.DomainLabel] != "database" ||
		first.Spec.ApplicationRef.Name != app.Name || first.Spec.DeletionPolicy != platformv1.EntityDelete {
		t.Errorf("it is %+v", first)
	}
	says := func(condition, text string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, s, "says "+text, func() error {
			c := conditions.Get(s, condition)
			if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, text) {
				return fmt.Errorf("%s is %+v", condition, c)
			}
			return nil
		})
		lint(t, s)
	}
	says(platformv1.ReconcilingCondition, `acl-user "app"`)
	tell(t, second, outcome.Stalled(platformv1.ReasonSecretNotFound, "Secret \"x\" is absent"))
	says(platformv1.StalledCondition, `acl-user "Ops@shop": Secret "x" is absent`)
	stop()
	stop = restsWhileItWaits(t, s)
	tell(t, first, outcome.Done())
	tell(t, second, outcome.Done())
	testkit.WaitForReady(t, env.Client, s)

	// At rest, and over a restart, nothing is written.
	before := writes(t)
	stop()
	start(t)
	witness := create(t, "witness", example.SampleSpec{Version: "7.0"})
	testkit.WaitForCondition(t, env.Client, witness, platformv1.ReconcilingCondition, metav1.ConditionTrue)
	if after := writes(t); after["entities"] != before["entities"] {
		t.Errorf("%d writes of Entities after a restart, want none", after["entities"]-before["entities"])
	}

	// What is declared no more goes, what somebody else made stays, and drift is repaired.
	foreign := &platformv1.Entity{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "by-hand"},
		Spec: platformv1.EntitySpec{ApplicationRef: platformv1.ApplicationReference{Name: app.Name}, Type: "acl-user",
			Name: "hand"}}
	if err := env.Client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	change := client.MergeFrom(first.DeepCopy())
	first.Spec.DeletionPolicy = platformv1.EntityRetain
	if err := env.Client.Patch(t.Context(), first, change); err != nil {
		t.Fatal(err)
	}
	shorter := client.MergeFrom(s.DeepCopy())
	s.Spec.Users = []string{"app"}
	if err := env.Client.Patch(t.Context(), s, shorter); err != nil {
		t.Fatal(err)
	}
	testkit.LetGo(t, env.Client, second)
	testkit.WaitFor(t, env.Client, first, "is repaired", func() error {
		if first.Spec.DeletionPolicy != platformv1.EntityDelete {
			return fmt.Errorf("deletionPolicy is %q", first.Spec.DeletionPolicy)
		}
		return nil
	})
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Errorf("what somebody else made is gone: %v", err)
	}
}

// TestAnEntityOfAnother has an object stall whose Entity's name is somebody else's.
func TestAnEntityOfAnother(t *testing.T) {
	start(t)
	s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "v"},
		Spec: example.SampleSpec{Version: "7.0", Users: []string{"app"}}}
	taken := entityOf(s, "app")
	taken.Spec = platformv1.EntitySpec{ApplicationRef: platformv1.ApplicationReference{Name: "else"}, Type: "acl-user",
		Name: "app"}
	for _, obj := range []client.Object{taken, s} {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	testkit.WaitForCondition(t, env.Client, s, platformv1.StalledCondition, metav1.ConditionTrue)
	if stalled := conditions.Get(s, platformv1.StalledCondition); stalled.Reason != platformv1.ReasonNameTaken ||
		!strings.HasPrefix(stalled.Message, `acl-user "app": Entity "`) || !strings.Contains(stalled.Message, taken.Name) {
		t.Errorf("stalled with %s: %s", stalled.Reason, stalled.Message)
	}
}

// A controller that has yet to hear of a newer declaration deletes nothing by the older one: the leader before it may
// have made what that adds.
func TestNothingGoesByADeclarationOfBefore(t *testing.T) {
	way := &testkit.Transport{}
	cfg := rest.CopyConfig(env.System.Config)
	cfg.Wrap(way.Wrap)
	serve(t, cfg, typed.Register(example.Kind{}))
	t.Cleanup(way.Release)
	s := create(t, "behind", example.SampleSpec{Version: "7.0", Users: []string{"app"}})
	first, second := entityOf(s, "app"), entityOf(s, "ops")
	testkit.WaitFor(t, env.Client, first, "is made", nil)
	testkit.WaitForCondition(t, env.Client, s, platformv1.ReconcilingCondition, metav1.ConditionTrue)

	way.Hold("samples")
	declared := client.MergeFrom(s.DeepCopy())
	s.Spec.Users = append(s.Spec.Users, "ops")
	if err := env.Client.Patch(t.Context(), s, declared); err != nil {
		t.Fatal(err)
	}
	second.Labels, second.OwnerReferences, second.Spec = first.Labels, first.OwnerReferences, first.Spec
	second.Spec.Name = "ops"
	asked := way.Requests(http.MethodGet, "samples")
	if err := env.Client.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	uid := second.UID
	testkit.Eventually(t, "the controller to look", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(second), second); err != nil ||
			second.DeletionTimestamp != nil {
			t.Fatalf("what is declared is deleted: %v", err)
		}
		if way.Requests(http.MethodGet, "samples") == asked {
			return errors.New("nobody has asked whether the object is as it was read")
		}
		return nil
	})
	way.Release()
	testkit.WaitFor(t, env.Client, second, "is the controller's", func() error {
		if second.Annotations[platformv1.AppliedAnnotation] == "" {
			return errors.New("it is yet to be applied")
		}
		return nil
	})
	if second.UID != uid {
		t.Error("it was deleted, and made anew")
	}
}
