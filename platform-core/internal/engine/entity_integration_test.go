// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

func entityOf(namespace, name, entityType string) *platformv1.Entity {
	return &platformv1.Entity{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: platformv1.EntitySpec{ApplicationRef: platformv1.ApplicationReference{Name: "redis-a"}, Type: entityType,
			Name:       name,
			Parameters: platformv1.Parameters{"commands": "+@read"}, PasswordFrom: &platformv1.SecretKeyReference{Name: "users"},
			DeletionPolicy: platformv1.EntityDelete},
	}
}

func waitReason(t *testing.T, entity *platformv1.Entity, reason, says string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, entity, reason, func() error {
		ready := conditions.Get(entity, platformv1.ReadyCondition)
		if ready == nil || ready.Reason != reason || !strings.Contains(ready.Message, says) {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	if err := testkit.StatusLint(entity); err != nil {
		t.Error(err)
	}
}

// An Entity that a user makes before its Application says so, is claimed with it, and asks its pod; where nobody
// answers, it waits, and can be let go.
func TestEntityIsClaimedAndWaits(t *testing.T) {
	namespace := env.Namespace(t)
	_, _, stop := run(t, -1)
	defer stop()
	node(t, namespace)
	user, topic := entityOf(namespace, "alice", "acl-user"), entityOf(namespace, "news", "topic")
	for _, entity := range []*platformv1.Entity{user, topic} {
		if err := env.Client.Create(t.Context(), entity); err != nil {
			t.Fatal(err)
		}
	}
	waitReason(t, user, platformv1.ReasonApplicationNotFound, `there is no Application "redis-a"`)
	if err := env.Client.Create(t.Context(), application(namespace)); err != nil {
		t.Fatal(err)
	}
	waitReason(t, topic, platformv1.ReasonTypeNotFound, `has no entities of type "topic": it has acl-user`)
	waitReason(t, user, platformv1.ReasonSecretNotFound, `there is no Secret "users"`)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "users"},
		StringData: map[string]string{"password": "x"}}
	if err := env.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	waitReason(t, user, platformv1.ReasonMiddlewareNotReady, "")
	testkit.WaitFor(t, env.Client, user, "the claim", func() error {
		if user.Labels[platformv1.DomainLabel] != "database" || len(user.Finalizers) != 0 {
			return fmt.Errorf("labels %v, finalizers %v", user.Labels, user.Finalizers)
		}
		return nil
	})
	for _, entity := range []*platformv1.Entity{user, topic} {
		if err := env.Client.Delete(t.Context(), entity); err != nil {
			t.Fatal(err)
		}
		testkit.WaitGone(t, env.Client, entity)
	}
}
