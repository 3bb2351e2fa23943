// SPDX-License-Identifier: Apache-2.0

//go:build integration

package typed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// adoptingKind has a Bundle take over the instance of the Sample that it names, with three replicas. Its topics are the
// users.
type adoptingKind struct{}

func (adoptingKind) Name() string         { return "Bundle" }
func (adoptingKind) New() *example.Bundle { return &example.Bundle{} }
func (adoptingKind) Adopted(b *example.Bundle) typed.Adopted {
	return typed.Adopted{Kind: "Sample", Name: b.Spec.SampleRef.Name, Field: "spec.sampleRef"}
}

func (adoptingKind) Adoptable(_ *example.Bundle, app *platformv1.Application) string {
	if *app.Spec.Components[0].Replicas == 5 {
		return "five are too many: have fewer first"
	}
	return ""
}

func (adoptingKind) Compile(b *example.Bundle) (*typed.Output, error) {
	s := &example.Sample{Spec: example.SampleSpec{Version: "7.0", Replicas: 3, Users: b.Spec.Topics}}
	if len(b.Spec.Restarts) > 0 {
		s.Spec.Version = b.Spec.Restarts[0]
	}
	return example.Kind{}.Compile(s)
}

// mortal has a controller die after some writes: those after them, and what it reads then, fail.
type mortal struct {
	http.RoundTripper
	left *atomic.Int64
}

func (m mortal) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && m.left.Add(-1) < 0 || m.left.Load() < 0 {
		return nil, errors.New("the controller is dead")
	}
	return m.RoundTripper.RoundTrip(request)
}

// serveAdoption runs both kinds until the test, or stop, ends that, or until so many writes were made. dead says
// whether they were.
func serveAdoption(t *testing.T, writes int64) (stop func(), dead func() bool) {
	t.Helper()
	left := &atomic.Int64{}
	left.Store(writes)
	cfg := rest.CopyConfig(env.Config)
	cfg.Wrap(func(to http.RoundTripper) http.RoundTripper { return mortal{to, left} })
	stop = serve(t, cfg, typed.Register(example.Kind{}), typed.Register(adoptingKind{}))
	return stop, func() bool { return left.Load() < 0 }
}

const unlimited = 1 << 30

// running makes a Sample with two users that is ready.
func running(t *testing.T, name string, replicas int32) (*example.Sample, *platformv1.Application) {
	t.Helper()
	s := create(t, name, example.SampleSpec{Version: "7.0", Replicas: replicas, Users: []string{"ada", "bob"}})
	app := applicationOf(s)
	for _, user := range s.Spec.Users {
		testkit.WaitFor(t, env.Client, userOf(s, user), "is made", nil)
	}
	testkit.WaitFor(t, env.Client, app, "is made", nil)
	settle(t, app, outcome.Done(), platformv1.PhaseReady)
	testkit.WaitFor(t, env.Client, s, "is read", nil)
	return s, app
}

func userOf(s *example.Sample, name string) *platformv1.Entity {
	return &platformv1.Entity{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace,
		Name: platformv1.EntityNameFor("sample-"+s.Name, "acl-user", name)}}
}

// adopting makes a Bundle that takes the instance of a Sample over.
func adopting(t *testing.T, s *example.Sample, restarts ...string) *example.Bundle {
	t.Helper()
	b := &example.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}, Spec: example.BundleSpec{
		SampleRef: &example.BundleReference{Name: s.Name}, Topics: []string{"ada", "bob"}, Restarts: restarts,
	}}
	if err := env.Client.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAnInstanceIsTakenOver, and nothing of it is made anew.
func TestAnInstanceIsTakenOver(t *testing.T) {
	dyingAfter(t, unlimited, "taken")
}

// TestATakeoverSurvivesKills whatever write of the controller is its last one: the next one goes on.
func TestATakeoverSurvivesKills(t *testing.T) {
	for writes, died := int64(0), true; died; writes++ {
		died = dyingAfter(t, writes, fmt.Sprintf("taken-%d", writes))
		if t.Failed() {
			t.Fatalf("after %d writes", writes)
		}
	}
}

// dyingAfter has an instance be taken over by a controller that dies after some writes, and by the next one. died says
// whether the first one had as many to make.
func dyingAfter(t *testing.T, writes int64, name string) (died bool) {
	t.Helper()
	stop, _ := serveAdoption(t, unlimited)
	s, app := running(t, name, 1)
	uids := map[string]types.UID{app.Name: app.UID}
	for _, user := range s.Spec.Users {
		entity := userOf(s, user)
		testkit.WaitFor(t, env.Client, entity, "is read", nil)
		uids[entity.Name] = entity.UID
	}
	stop()
	b := adopting(t, s)
	stop, dead := serveAdoption(t, writes)
	testkit.Eventually(t, "the controller dies, or all is done", func(ctx context.Context) error {
		if err := takenOver(ctx, b, s, uids); err != nil && !dead() {
			return err
		}
		return nil
	})
	died = dead()
	stop()
	if died {
		stop, _ = serveAdoption(t, unlimited)
		testkit.Eventually(t, "all is taken over", func(ctx context.Context) error { return takenOver(ctx, b, s, uids) })
		stop()
	}
	if err := env.Client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return died
}

// takenOver says what is not a Bundle's yet of what a Sample had.
func takenOver(ctx context.Context, b *example.Bundle, s *example.Sample, uids map[string]types.UID) error {
	app := applicationOf(s)
	err := env.Client.Get(ctx, client.ObjectKeyFromObject(s), &example.Sample{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("the Sample is there: %v", err)
	}
	for _, owned := range []client.Object{app, userOf(s, "ada"), userOf(s, "bob")} {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(owned), owned); err != nil {
			return err
		}
		former := slices.ContainsFunc(owned.GetManagedFields(), func(of metav1.ManagedFieldsEntry) bool {
			return of.Manager == "typed/sample"
		})
		same := owned.GetUID() == uids[owned.GetName()] && len(owned.GetOwnerReferences()) == 1
		if !metav1.IsControlledBy(owned, b) || !same || former {
			return fmt.Errorf("%s has the metadata %+v", owned.GetName(), owned)
		}
	}
	if got := *app.Spec.Components[0].Replicas; got != 3 || app.Labels[platformv1.DeclaredAsLabel] != "bundle-"+b.Name {
		return fmt.Errorf("it has %d replicas and the labels %v", got, app.Labels)
	}
	live := &example.Bundle{}
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(b), live); err != nil {
		return err
	}
	if !conditions.IsTrue(live, platformv1.AdoptedCondition) {
		return fmt.Errorf("the Bundle says: %v", live.Status.Conditions)
	}
	return nil
}

// TestAnInstanceIsNotTakenOver that must not be, and is left as it is.
func TestAnInstanceIsNotTakenOver(t *testing.T) {
	serveAdoption(t, unlimited)
	for name, test := range map[string]struct {
		prepare func(s *example.Sample, app *platformv1.Application)
		version string
		says    string
	}{
		"protected": {says: "deletionProtection", prepare: func(_ *example.Sample, app *platformv1.Application) {
			edit(t, app, func() { app.Spec.DeletionProtection = true })
		}},
		"not-ready": {says: "has to be Ready", prepare: func(_ *example.Sample, app *platformv1.Application) {
			settle(t, app, outcome.Waiting("PodsNotReady", "a pod starts"), platformv1.PhaseUpdating)
		}},
		"busy": {says: `Operation "restart"`, prepare: func(_ *example.Sample, app *platformv1.Application) {
			before := app.DeepCopy()
			app.Status.ActiveOperation = "restart"
			if err := patch.Status(t.Context(), env.Client, before, app); err != nil {
				t.Fatal(err)
			}
		}},
		"too-many": {says: "five are too many", prepare: func(s *example.Sample, app *platformv1.Application) {
			edit(t, s, func() { s.Spec.Replicas = 5 })
			testkit.WaitFor(t, env.Client, app, "has five", func() error {
				if *app.Spec.Components[0].Replicas != 5 {
					return errors.New("it has not")
				}
				return nil
			})
			settle(t, app, outcome.Done(), platformv1.PhaseReady)
		}},
		"invalid": {says: "spec.version", version: strings.Repeat("7", 64)},
		"gone": {says: "does not exist", prepare: func(s *example.Sample, _ *platformv1.Application) {
			if err := env.Client.Delete(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			testkit.WaitGone(t, env.Client, s)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, app := running(t, name, 1)
			if test.prepare != nil {
				test.prepare(s, app)
			}
			var restarts []string
			if test.version != "" {
				restarts = []string{test.version}
			}
			b := adopting(t, s, restarts...)
			testkit.WaitFor(t, env.Client, b, "says why not", func() error {
				if c := conditions.Get(b, platformv1.ReadyCondition); c == nil || !strings.Contains(c.Message, test.says) {
					return fmt.Errorf("it says %v", b.Status.Conditions)
				}
				return nil
			})
			err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app)
			if err != nil || !metav1.IsControlledBy(app, s) {
				t.Errorf("the Application is not the Sample's any more: %v, %v", err, app.OwnerReferences)
			}
			if err := testkit.StatusLint(b); err != nil {
				t.Errorf("the status breaks %v", err)
			}
		})
	}
}

func edit(t *testing.T, obj client.Object, change func()) {
	t.Helper()
	if err := testkit.Edit(t.Context(), env.Client, obj, change); err != nil {
		t.Fatal(err)
	}
}

// TestAnObjectGoesOnThatNobodyTakesOver any more: who asked is gone, and it takes up changes again.
func TestAnObjectGoesOnThatNobodyTakesOver(t *testing.T) {
	serveAdoption(t, unlimited)
	s, app := running(t, "asked", 1)
	edit(t, s, func() {
		s.Annotations = map[string]string{platformv1.AdoptedByAnnotation: "Bundle/asked/0"}
		s.Spec.Replicas = 2
	})
	testkit.WaitFor(t, env.Client, app, "has the new number", func() error {
		if got := *app.Spec.Components[0].Replicas; got != 2 {
			return fmt.Errorf("replicas is %d", got)
		}
		return nil
	})
	testkit.WaitFor(t, env.Client, s, "hands nothing over", func() error {
		if mark := s.Annotations[platformv1.AdoptedByAnnotation]; mark != "" {
			return fmt.Errorf("it hands over to %s", mark)
		}
		return nil
	})
}
