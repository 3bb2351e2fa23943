// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

const (
	// entityReady bounds the time until an object inside the middleware is as asked.
	entityReady = 2 * time.Minute
	// manyEntities is how many users one Redis gets, and manyReady how long that may take.
	manyEntities = 1000
	manyReady    = 10 * time.Minute
)

// user is an Entity for a user who may read, with the password of the key of its name in the Secret "users".
func (i *instance) user(name string, changes ...func(*platformv1.EntitySpec)) *platformv1.Entity {
	return i.userOf(i.application(), name, changes...)
}

// userOf is the same for an Application.
func (s *space) userOf(application, name string, changes ...func(*platformv1.EntitySpec)) *platformv1.Entity {
	entity := &platformv1.Entity{ObjectMeta: named(name), Spec: platformv1.EntitySpec{
		ApplicationRef: platformv1.ApplicationReference{Name: application}, Type: "acl-user", Name: name,
		Parameters:   platformv1.Parameters{"keys": "~app:*", "commands": "+@read +ping"},
		PasswordFrom: &platformv1.SecretKeyReference{Name: "users", Key: name}, DeletionPolicy: platformv1.EntityDelete,
	}}
	entity.Namespace = s.name
	for _, change := range changes {
		change(&entity.Spec)
	}
	return entity
}

// entityIs waits until an Entity says so of its present spec.
func (s *space) entityIs(name, reason string) *platformv1.Entity {
	s.Helper()
	entity := &platformv1.Entity{}
	s.eventually(entityReady, name+" "+reason, func() error {
		s.mustGet(name, entity)
		ready := conditions.Get(entity, platformv1.ReadyCondition)
		if ready == nil || ready.Reason != reason || ready.ObservedGeneration != entity.Generation {
			return fmt.Errorf("%s: %s", name, describe(entity.Status.Conditions))
		}
		return nil
	})
	return entity
}

// saysAs runs a command as one of the users; its output has what Redis refuses, too.
func (i *instance) saysAs(user, password string, arguments ...string) string {
	i.Helper()
	return i.saysTo(i.account(), user, password, arguments...)
}

// saysTo is the same for who is reached as an account.
func (s *space) saysTo(a account, user, password string, arguments ...string) string {
	s.Helper()
	a.username, a.password = user, password
	out, err := s.told(func() (string, error) { return s.redisCLI(a, arguments...) })
	if err != nil {
		return out + err.Error()
	}
	return out
}

// wantSays waits until a user's command says something.
func (i *instance) wantSays(want, user, password string, arguments ...string) {
	i.Helper()
	i.eventually(entityReady, fmt.Sprintf("%v of %s", arguments, user), func() error {
		if said := i.saysAs(user, password, arguments...); !strings.Contains(said, want) {
			return fmt.Errorf("it says %q, want %q", said, want)
		}
		return nil
	})
}

// TestACLUsers has Entities be users of a Redis: made, let in, changed, kept over a restart, put right, taken over, refused and removed.
func TestACLUsers(t *testing.T) {
	s := newSpace(t, "entities")
	i := s.redis("db", safe())
	s.create(&corev1.Secret{ObjectMeta: named("users"), StringData: map[string]string{"alice": "first", "bob": "ours", "bad": "x"}})
	s.create(i.user("alice"))
	i.ready()
	alice := s.entityIs("alice", platformv1.ReasonReady)
	if alice.Status.Observed["keys"] != "~app:*" || alice.Status.Origin != platformv1.EntityCreated {
		t.Errorf("status is %+v", alice.Status)
	}
	i.wantSays("PONG", "alice", "first", "PING")
	i.wantSays("NOPERM", "alice", "first", "SET", "app:x", "1")
	s.wantColumns(platformv1.GroupVersion.WithResource("entities"), "alice", "Application", "Type", "Name", "Ready", "Phase", "Age")

	// Another password, from its Secret.
	secret := &corev1.Secret{}
	s.mustGet("users", secret)
	before := secret.DeepCopy()
	secret.Data["alice"] = []byte("second")
	if err := world.client.Patch(s.ctx, secret, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	i.wantSays("PONG", "alice", "second", "PING")
	i.wantSays("WRONGPASS", "alice", "first", "PING")

	// The process is started anew: users are there with it.
	s.create(restartOf("restart", i.reference()))
	s.succeeded("restart")
	i.wantSays("PONG", "alice", "second", "PING")

	// Changed by hand, and put right: another Entity brings the next look at once.
	look := func(name string) {
		s.create(i.user(name, func(e *platformv1.EntitySpec) { e.PasswordFrom.Key = "alice" }))
		s.entityIs(name, platformv1.ReasonReady)
	}
	look("look")
	i.must("ACL", "SETUSER", "alice", "+set", "~*")
	look("again")
	i.wantSays("NOPERM", "alice", "second", "SET", "app:x", "1")
	s.eventually(entityReady, "a repair is counted", func() error {
		s.mustGet("alice", alice)
		if alice.Status.DriftRepairs != 1 {
			return fmt.Errorf("%d repairs", alice.Status.DriftRepairs)
		}
		return nil
	})

	i.adopts("bob")
	i.refusesUsers()
	i.removes("alice", "look", "again", "bob")
	if users := strings.TrimSpace(i.must("ACL", "USERS")); users != "default" {
		t.Errorf("the users are %q", users)
	}
}

// adopts has an Entity meet somebody else's user, which is left alone until it is adopted.
func (i *instance) adopts(name string) {
	i.Helper()
	s := i.space
	i.must("ACL", "SETUSER", name, "on", ">his", "+ping")
	s.create(i.user(name))
	s.entityIs(name, platformv1.ReasonAlreadyExists)
	i.wantSays("PONG", name, "his", "PING")
	bob := &platformv1.Entity{}
	s.mustGet(name, bob)
	adopted := bob.DeepCopy()
	adopted.Spec.Adopt = true
	if err := world.client.Patch(s.ctx, adopted, client.MergeFrom(bob)); err != nil {
		i.Fatal(err)
	}
	s.entityIs(name, platformv1.ReasonReady)
	i.wantSays("PONG", name, "ours", "PING")
}

// refusesUsers asks for what is wrong, which is refused before it is stored.
func (i *instance) refusesUsers() {
	i.Helper()
	s := i.space
	for says, change := range map[string]func(*platformv1.EntitySpec){
		`has no entities of type "topic": it has acl-user`: func(e *platformv1.EntitySpec) { e.Type = "topic" },
		"default and sentinel are taken":                   func(e *platformv1.EntitySpec) { e.Name = "default" },
		"it must be patterns":                              func(e *platformv1.EntitySpec) { e.Parameters["keys"] = "app:*" },
		`did you mean "keys"?`:                             func(e *platformv1.EntitySpec) { e.Parameters = platformv1.Parameters{"key": "~*"} },
		"name the Secret that":                             func(e *platformv1.EntitySpec) { e.PasswordFrom = nil },
	} {
		s.refusedAtLast(says, func() error { return world.client.Create(s.ctx, i.user("bad", change), client.DryRunAll) })
	}
}

// removes deletes Entities, whose users go first.
func (s *space) removes(names ...string) {
	s.Helper()
	for _, name := range names {
		entity := &platformv1.Entity{ObjectMeta: named(name)}
		entity.Namespace = s.name
		if err := world.client.Delete(s.ctx, entity); err != nil {
			s.Fatal(err)
		}
		s.eventually(entityReady, name+" is gone", func() error {
			err := world.client.Get(s.ctx, client.ObjectKeyFromObject(entity), entity)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is there: %w", err)
		})
	}
}

// TestManyACLUsers measures how long many users of one Redis take.
func TestManyACLUsers(t *testing.T) {
	s := newSpace(t, "manyusers")
	i := s.redis("db", safe())
	i.ready()
	s.create(&corev1.Secret{ObjectMeta: named("users"), StringData: map[string]string{"all": "secret"}})
	begin := time.Now()
	for n := range manyEntities {
		s.create(i.user(fmt.Sprintf("user-%d", n), func(e *platformv1.EntitySpec) { e.PasswordFrom.Key = "all" }))
	}
	made := time.Since(begin)
	s.eventually(manyReady, "all users", func() error { return s.allEntitiesReady(s.ctx) })
	t.Logf("%d Entities made in %s, all ready %s after the first", manyEntities, seconds(made), seconds(time.Since(begin)))
	if users := strings.Count(i.must("ACL", "USERS"), "user-"); users != manyEntities {
		t.Errorf("%d users are there", users)
	}
}

func (s *space) allEntitiesReady(ctx context.Context) error {
	var list platformv1.EntityList
	if err := world.client.List(ctx, &list, client.InNamespace(s.name)); err != nil {
		return err
	}
	waiting := 0
	for i := range list.Items {
		if list.Items[i].Status.Phase != platformv1.PhaseReady {
			waiting++
		}
	}
	if waiting > 0 {
		return fmt.Errorf("%d of %d are not ready", waiting, len(list.Items))
	}
	return nil
}
