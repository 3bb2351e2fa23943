// SPDX-License-Identifier: Apache-2.0

//go:build integration

package entity

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// looks waits until the objects were looked at some times more.
func (f *fixture) looks(times int64) {
	f.Helper()
	from := f.observed.Load()
	testkit.Eventually(f, "a look at the objects", func(context.Context) error {
		if seen := f.observed.Load() - from; seen < times {
			return fmt.Errorf("%d looks", seen)
		}
		return nil
	})
}

// says waits until a command of redis-cli says something.
func (f *fixture) says(want, user, password string, command ...string) {
	f.Helper()
	testkit.Eventually(f, fmt.Sprintf("%v of %s", command, user), func(context.Context) error {
		if said := f.cli(user, password, command...); !strings.Contains(said, want) {
			return fmt.Errorf("it says %q, want %q", said, want)
		}
		return nil
	})
}

// stalled waits until an Entity is stalled for a reason that says something.
func (f *fixture) stalled(entity *platformv1.Entity, reason, says string) {
	f.Helper()
	testkit.WaitFor(f, env.Client, entity, "stalled", func() error {
		ready := conditions.Get(entity, platformv1.ReadyCondition)
		if ready == nil || ready.Reason != reason || !strings.Contains(ready.Message, says) ||
			!conditions.IsTrue(entity, platformv1.StalledCondition) {
			return fmt.Errorf("it says %+v, want %s: %s", ready, reason, says)
		}
		return nil
	})
}

func (f *fixture) change(entity *platformv1.Entity, change func()) {
	f.Helper()
	before := entity.DeepCopy()
	change()
	if err := env.Client.Patch(f.Context(), entity, client.MergeFrom(before)); err != nil {
		f.Fatal(err)
	}
}

func TestUserIsMadeKeptAndRemoved(t *testing.T) {
	f := newFixture(t)
	f.secret("users", map[string]string{"alice": "first"})
	alice := f.entity("alice", func(s *platformv1.EntitySpec) { s.DeletionPolicy = platformv1.EntityDelete })
	f.create(alice)
	f.run(-1)
	f.ready(alice)
	f.says("PONG", "alice", "first", "PING")
	f.says("NOPERM", "alice", "first", "SET", "app:x", "1")
	if alice.Status.Origin != platformv1.EntityCreated || alice.Status.Observed["keys"] != "~app:*" ||
		alice.Status.Observed["commands"] != "+@read +ping" || len(alice.Finalizers) != 1 {
		t.Errorf("status is %+v, finalizers are %v", alice.Status, alice.Finalizers)
	}
	// What nobody changes costs looks and no writes.
	version := alice.ResourceVersion
	f.looks(4)
	f.ready(alice)
	if alice.ResourceVersion != version {
		t.Errorf("an idle Entity was written: %+v", alice)
	}
	// A change of the spec, and of the password, reaches it, and neither is drift.
	f.change(alice, func() { alice.Spec.Parameters["commands"] = "+@all" })
	f.says("OK", "alice", "first", "SET", "app:x", "1")
	f.secret("users", map[string]string{"alice": "second"})
	f.says("PONG", "alice", "second", "PING")
	f.says("WRONGPASS", "alice", "first", "PING")
	f.ready(alice)
	if alice.Status.DriftRepairs != 0 {
		t.Errorf("changes that were asked for count as drift: %+v", alice.Status)
	}
	if err := env.Client.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, alice)
	if users := f.admin("ACL", "USERS"); users != "default" {
		t.Errorf("the users are %q", users)
	}
}

func TestDriftIsRepairedAndCounted(t *testing.T) {
	f := newFixture(t)
	f.secret("users", map[string]string{"alice": "secret"})
	alice := f.entity("alice", nil)
	f.create(alice)
	repairs := func() float64 {
		return counted(t, "zeroinfra_entity_drift_repairs_total", map[string]string{"type": "acl-user"})
	}
	before := repairs()
	f.run(-1)
	f.ready(alice)
	for i, drift := range []struct{ says, rule string }{
		{`parameter "commands" was`, "+set"}, {`parameter "keys" was`, "~*"}, {"it had another password", "nopass"},
		{`parameter "enabled" was "no"`, "off"},
	} {
		f.admin("ACL", "SETUSER", "alice", drift.rule)
		f.repaired(alice, int64(i+1), drift.says)
	}
	f.admin("ACL", "DELUSER", "alice")
	f.repaired(alice, 5, "it was gone")
	f.says("PONG", "alice", "secret", "PING")
	f.says("NOPERM", "alice", "secret", "SET", "app:x", "1")
	if got := repairs() - before; got != 5 {
		t.Errorf("the metric says %v repairs", got)
	}
}

// counted is what the metrics that this program shows say under a name, with these labels and any others.
func counted(t *testing.T, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	count := 0.0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			has := map[string]string{}
			for _, label := range metric.GetLabel() {
				has[label.GetName()] = label.GetValue()
			}
			if family.GetName() == name && contains(has, labels) {
				count += metric.GetCounter().GetValue()
			}
		}
	}
	return count
}

// contains says whether all of some is in a map.
func contains(all, some map[string]string) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}

// What is removed by hand looks as it did before it was made: that call is not repeated for it.
func TestFirstDriftIsRepairedAtOnce(t *testing.T) {
	f := newFixture(t)
	f.secret("users", map[string]string{"alice": "secret"})
	alice := f.entity("alice", nil)
	f.create(alice)
	f.run(-1)
	f.ready(alice)
	begin := time.Now()
	f.admin("ACL", "DELUSER", "alice")
	f.repaired(alice, 1, "it was gone")
	if took := time.Since(begin); took >= refusedRetry {
		t.Errorf("it took %v", took)
	}
	f.says("PONG", "alice", "secret", "PING")
	// One that a restarted process would not have is put right before there is a restart.
	f.Write(nil, "config", "users", "entities.conf")
	f.repaired(alice, 2, "not kept for a restart")
}

// Another interval counts from the next look on, in the process that runs.
func TestAnotherIntervalCountsFromTheNextLookOn(t *testing.T) {
	f := newFixture(t)
	f.settings.UseEntityInterval(time.Hour)
	f.secret("users", map[string]string{"alice": "secret"})
	alice := f.entity("alice", nil)
	f.create(alice)
	f.run(-1)
	f.ready(alice)
	f.settings.UseEntityInterval(testInterval)
	// What is changed is looked at, and from then on it is by itself.
	f.change(alice, func() { alice.Spec.Parameters["commands"] = "+@all" })
	f.says("OK", "alice", "secret", "SET", "app:x", "1")
	f.looks(8)
	f.admin("ACL", "DELUSER", "alice")
	f.repaired(alice, 1, "it was gone")
}

func (f *fixture) repaired(entity *platformv1.Entity, times int64, says string) {
	f.Helper()
	testkit.WaitFor(f, env.Client, entity, "repaired", func() error {
		drift := entity.Status.LastDrift
		if entity.Status.DriftRepairs != times || drift == nil || !strings.Contains(drift.Message, says) {
			return fmt.Errorf("%d repairs, the latest is %+v; want %q", entity.Status.DriftRepairs, drift, says)
		}
		return nil
	})
}

// Users are back at once when the process is killed; what it forgot none the less is made anew, and is no drift.
func TestRestartOfTheProcess(t *testing.T) {
	f := newFixture(t)
	kill := func() { f.admin("SHUTDOWN", "NOSAVE") }
	f.secret("users", map[string]string{"alice": "secret"})
	alice := f.entity("alice", nil)
	f.create(alice)
	stop, _ := f.run(-1)
	f.ready(alice)
	stop()
	kill()
	f.startRedis()
	if said := f.cli("alice", "secret", "PING"); said != "PONG" {
		t.Errorf("without the operator, right after the restart: %s", said)
	}
	f.run(-1)
	f.looks(2)
	kill()
	f.Write(nil, "config", "users", "entities.conf")
	f.startRedis()
	f.says("PONG", "alice", "secret", "PING")
	f.ready(alice)
	if alice.Status.DriftRepairs != 0 {
		t.Errorf("what a process forgot counts as drift: %+v", alice.Status)
	}
}

func TestWhatIsThereIsLeftAloneUnlessAdopted(t *testing.T) {
	f := newFixture(t)
	f.admin("ACL", "SETUSER", "bob", "on", ">his", "+ping")
	f.secret("users", map[string]string{"bob": "ours", "twin": "x"})
	bob := f.entity("bob", nil)
	f.create(bob)
	f.run(-1)
	f.stalled(bob, platformv1.ReasonAlreadyExists, "set adopt to true")
	f.looks(2)
	f.says("PONG", "bob", "his", "PING")
	f.change(bob, func() { bob.Spec.Adopt = true })
	f.ready(bob)
	f.says("PONG", "bob", "ours", "PING")
	if bob.Status.Origin != platformv1.EntityAdopted || bob.Status.DriftRepairs != 0 {
		t.Errorf("status is %+v", bob.Status)
	}
	twin := f.entity("twin", func(s *platformv1.EntitySpec) { s.Name = "bob" })
	f.create(twin)
	f.stalled(twin, platformv1.ReasonNameTaken, `Entity "bob" is of the same object`)
	// Retained: the object outlives its Entity, and the next one may not take it.
	for _, entity := range []*platformv1.Entity{twin, bob} {
		if err := env.Client.Delete(t.Context(), entity); err != nil {
			t.Fatal(err)
		}
		testkit.WaitGone(t, env.Client, entity)
	}
	f.says("PONG", "bob", "ours", "PING")
}

// Under the name of a user that Redis refused somebody else's can be made, which is left alone, and outlives the
// Entity.
func TestWhatWasRefusedCanBeSomebodyElses(t *testing.T) {
	f := newFixture(t)
	f.secret("users", map[string]string{"carol": "ours"})
	carol := f.entity("carol", func(s *platformv1.EntitySpec) {
		s.DeletionPolicy, s.Parameters = platformv1.EntityDelete, platformv1.Parameters{"commands": "+nonsense"}
	})
	f.create(carol)
	f.run(-1)
	f.stalled(carol, platformv1.ReasonRefusedByMiddleware, "Unknown command")
	if carol.Status.Origin != "" {
		t.Errorf("status is %+v", carol.Status)
	}
	// Until it is time for another attempt it costs looks and no writes.
	version, changed := carol.ResourceVersion, f.changed.Load()
	f.looks(4)
	f.stalled(carol, platformv1.ReasonRefusedByMiddleware, "Unknown command")
	if carol.ResourceVersion != version || f.changed.Load() != changed {
		t.Errorf("it was asked for again %d times: %+v", f.changed.Load()-changed, carol)
	}
	f.admin("ACL", "SETUSER", "carol", "on", ">his", "+ping")
	f.stalled(carol, platformv1.ReasonAlreadyExists, "set adopt to true")
	f.says("PONG", "carol", "his", "PING")
	if err := env.Client.Delete(t.Context(), carol); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, carol)
	f.says("PONG", "carol", "his", "PING")
}

func TestWrongSpecsAreRefused(t *testing.T) {
	f := newFixture(t)
	f.secret("users", map[string]string{"a": "x", "empty": "", "file": "from a file\n"})
	f.run(-1)
	for name, test := range map[string]struct {
		change       func(*platformv1.EntitySpec)
		reason, says string
	}{
		"type": {func(s *platformv1.EntitySpec) { s.Type = "topic" }, platformv1.ReasonTypeNotFound,
			`has no entities of type "topic": it has acl-user with topology "standalone"`},
		"default": {func(s *platformv1.EntitySpec) { s.Name = "default" }, platformv1.ReasonInvalidSpec,
			"default and sentinel are taken"},
		"parameter": {func(s *platformv1.EntitySpec) { s.Parameters = platformv1.Parameters{"key": "~*"} },
			platformv1.ReasonInvalidParameters, `did you mean "keys"`},
		"value": {func(s *platformv1.EntitySpec) { s.Parameters = platformv1.Parameters{"keys": "app:*"} },
			platformv1.ReasonInvalidParameters, `it must be patterns such as "~app:* %R~shared:*"`},
		"no-secret": {func(s *platformv1.EntitySpec) { s.PasswordFrom.Name = "none" }, platformv1.ReasonSecretNotFound,
			`there is no Secret "none"`},
		"no-key": {func(s *platformv1.EntitySpec) { s.PasswordFrom.Key = "none" }, platformv1.ReasonSecretNotFound,
			`nothing under the key "none"`},
		"password": {func(s *platformv1.EntitySpec) { s.PasswordFrom = nil }, platformv1.ReasonInvalidSpec,
			"name the Secret that holds it in passwordFrom"},
		"command": {func(s *platformv1.EntitySpec) {
			s.PasswordFrom.Key, s.Parameters = "a", platformv1.Parameters{"commands": "+nonsense"}
		}, platformv1.ReasonRefusedByMiddleware, "Unknown command"},
		"newline": {func(s *platformv1.EntitySpec) { s.PasswordFrom.Key = "file" }, platformv1.ReasonSecretInvalid,
			`the value under the key "file" of Secret "users" ends with a newline`},
	} {
		entity := f.entity(name, test.change)
		f.create(entity)
		f.stalled(entity, test.reason, test.says)
	}
	if users := f.admin("ACL", "USERS"); users != "default" {
		t.Errorf("the users are %q", users)
	}
	// What was missing is found when it comes, without another look.
	late := f.entity("late", func(s *platformv1.EntitySpec) { s.PasswordFrom.Name = "later" })
	f.create(late)
	f.stalled(late, platformv1.ReasonSecretNotFound, `there is no Secret "later"`)
	f.secret("later", map[string]string{"late": "x"})
	f.ready(late)
	// One field that cannot change.
	before := late.DeepCopy()
	late.Spec.Name = "other"
	if err := env.Client.Patch(t.Context(), late, client.MergeFrom(before)); err == nil ||
		!strings.Contains(err.Error(), "name is immutable") {
		t.Errorf("another name: %v", err)
	}
}

// An object that declares an Application with Entities and goes as a whole takes nothing out of the middleware: what
// becomes of the data is for it to say. One that declares Entities in the instance of another does what these say.
func TestOwnerThatGoesFirst(t *testing.T) {
	f := newFixture(t)
	f.secret("users", map[string]string{"alice": "secret", "bob": "secret", "carol": "secret"})
	instance := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "instance"}}
	guest := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "guest"}}
	f.create(instance)
	f.create(guest)
	by := func(owner *corev1.ConfigMap) []metav1.OwnerReference {
		return []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	}
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "redis-a"}}
	if err := testkit.Edit(t.Context(), env.Client, app, func() { app.OwnerReferences = by(instance) }); err != nil {
		t.Fatal(err)
	}
	owned := func(name string, owner *corev1.ConfigMap) *platformv1.Entity {
		entity := f.entity(name, func(s *platformv1.EntitySpec) { s.DeletionPolicy = platformv1.EntityDelete })
		entity.OwnerReferences = by(owner)
		f.create(entity)
		return entity
	}
	alice, bob, carol := owned("alice", instance), owned("bob", instance), owned("carol", guest)
	f.run(-1)
	f.ready(alice)
	f.ready(bob)
	f.ready(carol)
	for _, obj := range []client.Object{bob, instance, alice, guest, carol} {
		if err := env.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
		testkit.WaitGone(t, env.Client, obj)
	}
	if users := f.admin("ACL", "USERS"); users != "alice\ndefault" {
		t.Errorf("the users are %q: bob was declared no more, alice went with the instance, and carol alone", users)
	}
}

// No finalizer outlives what it waits for.
func TestApplicationThatGoesFirst(t *testing.T) {
	f := newFixture(t)
	f.secret("users", map[string]string{"alice": "secret"})
	alice := f.entity("alice", func(s *platformv1.EntitySpec) { s.DeletionPolicy = platformv1.EntityDelete })
	f.create(alice)
	f.run(-1)
	f.ready(alice)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "redis-a"}}
	if err := env.Client.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	f.stalled(alice, platformv1.ReasonApplicationNotFound, "there is no Application")
	if err := env.Client.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, alice)
	f.says("PONG", "alice", "secret", "PING")
}

// Whatever it dies at, the next controller goes on, and knows the user that it made for its own.
func TestCrashAnywhere(t *testing.T) {
	for effects := range 12 {
		f := newFixture(t)
		f.secret("users", map[string]string{"alice": "secret"})
		alice := f.entity("alice", func(s *platformv1.EntitySpec) { s.DeletionPolicy = platformv1.EntityDelete })
		f.create(alice)
		f.crash(effects, func() error {
			if alice.Status.Phase != platformv1.PhaseReady {
				return fmt.Errorf("phase is %q: %+v", alice.Status.Phase, alice.Status.Conditions)
			}
			return nil
		}, alice)
		f.says("PONG", "alice", "secret", "PING")
		if alice.Status.Origin != platformv1.EntityCreated || alice.Status.DriftRepairs != 0 {
			t.Errorf("killed after %d effects: status is %+v", effects, alice.Status)
		}
		if err := env.Client.Delete(t.Context(), alice); err != nil {
			t.Fatal(err)
		}
		stop, done := f.run(effects % 4)
		select {
		case <-done:
		case <-time.After(2 * testInterval):
			stop()
		}
		f.run(-1)
		testkit.WaitGone(t, env.Client, alice)
		if users := f.admin("ACL", "USERS"); users != "default" {
			t.Errorf("killed after %d effects: the users are %q", effects, users)
		}
	}
}

// crash runs a controller that dies after some effects, and then others until all is as it should.
func (f *fixture) crash(effects int, check func() error, entity *platformv1.Entity) {
	f.Helper()
	stop, done := f.run(effects)
	testkit.WaitFor(f, env.Client, entity, "dead or done", func() error {
		select {
		case <-done:
			return nil
		default:
			return check()
		}
	})
	stop()
	stop, _ = f.run(-1)
	testkit.WaitFor(f, env.Client, entity, "done", check)
	stop()
}
