// SPDX-License-Identifier: Apache-2.0

package database

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
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// entityReady bounds the time until an object inside the middleware is as asked.
	entityReady = 2 * time.Minute
	// manyEntities is how many users one Redis gets, and manyReady how long that may take.
	manyEntities = 1000
	manyReady    = 10 * time.Minute
)

// user is an Entity for a user who may read, with the password of the key of its name in the Secret "users".
func user(i *framework.Instance, name string, changes ...func(*platformv1.EntitySpec)) *platformv1.Entity {
	return userOf(i.Namespace, i.Application(), name, changes...)
}

// userOf is the same for an Application.
func userOf(s *framework.Namespace, application, name string,
	changes ...func(*platformv1.EntitySpec)) *platformv1.Entity {
	entity := &platformv1.Entity{ObjectMeta: framework.ObjectMeta(name), Spec: platformv1.EntitySpec{
		ApplicationRef: platformv1.ApplicationReference{Name: application}, Type: "acl-user", Name: name,
		Parameters:   platformv1.Parameters{"keys": "~app:*", "commands": "+@read +ping"},
		PasswordFrom: &platformv1.SecretKeyReference{Name: "users", Key: name}, DeletionPolicy: platformv1.EntityDelete,
	}}
	entity.Namespace = s.Name
	for _, change := range changes {
		change(&entity.Spec)
	}
	return entity
}

// entityIs waits until an Entity says so of its present spec.
func entityIs(s *framework.Namespace, name, reason string) *platformv1.Entity {
	s.Helper()
	entity := &platformv1.Entity{}
	s.Eventually(entityReady, name+" "+reason, func() error {
		s.MustGet(name, entity)
		ready := conditions.Get(entity, platformv1.ReadyCondition)
		if ready == nil || ready.Reason != reason || ready.ObservedGeneration != entity.Generation {
			return fmt.Errorf("%s: %s", name, framework.Describe(entity.Status.Conditions))
		}
		return nil
	})
	return entity
}

// saysAs runs a command as one of the users; its output has what Redis refuses, too.
func saysAs(i *framework.Instance, user, password string, arguments ...string) string {
	i.Helper()
	return saysTo(i.Namespace, i.Account(), user, password, arguments...)
}

// saysTo is the same for who is reached as an account.
func saysTo(s *framework.Namespace, a framework.Account, user, password string, arguments ...string) string {
	s.Helper()
	a.Username, a.Password = user, password
	out, err := s.RunClientCommand(func() (string, error) { return s.RedisCLI(a, arguments...) })
	if err != nil {
		return out + err.Error()
	}
	return out
}

// wantSays waits until a user's command says something.
func wantSays(i *framework.Instance, want, user, password string, arguments ...string) {
	i.Helper()
	i.Eventually(entityReady, fmt.Sprintf("%v of %s", arguments, user), func() error {
		if said := saysAs(i, user, password, arguments...); !strings.Contains(said, want) {
			return fmt.Errorf("it says %q, want %q", said, want)
		}
		return nil
	})
}

// TestACLUsers has Entities be users of a Redis: made, let in, changed, kept over a restart, put right, taken over,
// refused and removed.
func TestACLUsers(t *testing.T) {
	s := framework.NewNamespace(t, "entities")
	i := s.CreateRedis("db", framework.WithFsyncAlways())
	s.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta("users"),
		StringData: map[string]string{"alice": "first", "bob": "ours", "bad": "x"}})
	s.Create(user(i, "alice"))
	i.WaitReady()
	alice := entityIs(s, "alice", platformv1.ReasonReady)
	if alice.Status.Observed["keys"] != "~app:*" || alice.Status.Origin != platformv1.EntityCreated {
		t.Errorf("status is %+v", alice.Status)
	}
	wantSays(i, "PONG", "alice", "first", "PING")
	wantSays(i, "NOPERM", "alice", "first", "SET", "app:x", "1")
	s.ExpectTableColumns(platformv1.GroupVersion.WithResource("entities"), "alice", "Application", "Type", "Name", "Ready",
		"Phase", "Age")

	// Another password, from its Secret.
	secret := &corev1.Secret{}
	s.MustGet("users", secret)
	before := secret.DeepCopy()
	secret.Data["alice"] = []byte("second")
	if err := framework.Cluster.Client.Patch(s.Ctx, secret, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	wantSays(i, "PONG", "alice", "second", "PING")
	wantSays(i, "WRONGPASS", "alice", "first", "PING")

	// The process is started anew: users are there with it.
	s.Create(framework.NewRestartOperation("restart", i.Reference()))
	s.ExpectOperationSucceeded("restart")
	wantSays(i, "PONG", "alice", "second", "PING")

	// Changed by hand, and put right: another Entity brings the next look at once.
	look := func(name string) {
		s.Create(user(i, name, func(e *platformv1.EntitySpec) { e.PasswordFrom.Key = "alice" }))
		entityIs(s, name, platformv1.ReasonReady)
	}
	look("look")
	i.MustDo("ACL", "SETUSER", "alice", "+set", "~*")
	look("again")
	wantSays(i, "NOPERM", "alice", "second", "SET", "app:x", "1")
	s.Eventually(entityReady, "a repair is counted", func() error {
		s.MustGet("alice", alice)
		if alice.Status.DriftRepairs != 1 {
			return fmt.Errorf("%d repairs", alice.Status.DriftRepairs)
		}
		return nil
	})

	adopts(i, "bob")
	refusesUsers(i)
	removes(i.Namespace, "alice", "look", "again", "bob")
	if users := strings.TrimSpace(i.MustDo("ACL", "USERS")); users != "default" {
		t.Errorf("the users are %q", users)
	}
}

// adopts has an Entity meet somebody else's user, which is left alone until it is adopted.
func adopts(i *framework.Instance, name string) {
	i.Helper()
	s := i.Namespace
	i.MustDo("ACL", "SETUSER", name, "on", ">his", "+ping")
	s.Create(user(i, name))
	entityIs(s, name, platformv1.ReasonAlreadyExists)
	wantSays(i, "PONG", name, "his", "PING")
	bob := &platformv1.Entity{}
	s.MustGet(name, bob)
	adopted := bob.DeepCopy()
	adopted.Spec.Adopt = true
	if err := framework.Cluster.Client.Patch(s.Ctx, adopted, client.MergeFrom(bob)); err != nil {
		i.Fatal(err)
	}
	entityIs(s, name, platformv1.ReasonReady)
	wantSays(i, "PONG", name, "ours", "PING")
}

// refusesUsers asks for what is wrong, which is refused before it is stored.
func refusesUsers(i *framework.Instance) {
	i.Helper()
	s := i.Namespace
	for says, change := range map[string]func(*platformv1.EntitySpec){
		`has no entities of type "topic": it has acl-user`: func(e *platformv1.EntitySpec) { e.Type = "topic" },
		"default and sentinel are taken":                   func(e *platformv1.EntitySpec) { e.Name = "default" },
		"it must be patterns":                              func(e *platformv1.EntitySpec) { e.Parameters["keys"] = "app:*" },
		`did you mean "keys"?`: func(e *platformv1.EntitySpec) {
			e.Parameters = platformv1.Parameters{"key": "~*"}
		},
		"name the Secret that": func(e *platformv1.EntitySpec) { e.PasswordFrom = nil },
	} {
		s.WaitForRefusal(says, func() error {
			return framework.Cluster.Client.Create(s.Ctx, user(i, "bad", change), client.DryRunAll)
		})
	}
}

// removes deletes Entities, whose users go first.
func removes(s *framework.Namespace, names ...string) {
	s.Helper()
	for _, name := range names {
		entity := &platformv1.Entity{ObjectMeta: framework.ObjectMeta(name)}
		entity.Namespace = s.Name
		if err := framework.Cluster.Client.Delete(s.Ctx, entity); err != nil {
			s.Fatal(err)
		}
		s.Eventually(entityReady, name+" is gone", func() error {
			err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(entity), entity)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is there: %w", err)
		})
	}
}

// TestManyACLUsers measures how long many users of one Redis take.
func TestManyACLUsers(t *testing.T) {
	s := framework.NewNamespace(t, "manyusers")
	i := s.CreateRedis("db", framework.WithFsyncAlways())
	i.WaitReady()
	s.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta("users"), StringData: map[string]string{"all": "secret"}})
	begin := time.Now()
	for n := range manyEntities {
		s.Create(user(i, fmt.Sprintf("user-%d", n), func(e *platformv1.EntitySpec) { e.PasswordFrom.Key = "all" }))
	}
	made := time.Since(begin)
	s.Eventually(manyReady, "all users", func() error { return allEntitiesReady(s, s.Ctx) })
	t.Logf("%d Entities made in %s, all ready %s after the first", manyEntities, framework.FormatSeconds(made),
		framework.FormatSeconds(time.Since(begin)))
	if users := strings.Count(i.MustDo("ACL", "USERS"), "user-"); users != manyEntities {
		t.Errorf("%d users are there", users)
	}
}

func allEntitiesReady(s *framework.Namespace, ctx context.Context) error {
	var list platformv1.EntityList
	if err := framework.Cluster.Client.List(ctx, &list, client.InNamespace(s.Name)); err != nil {
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
