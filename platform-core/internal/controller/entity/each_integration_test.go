// SPDX-License-Identifier: Apache-2.0

//go:build integration

package entity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Each pod has each user: one that comes later too, and one that lost them gets them back.
func TestEveryPodHasItsUsers(t *testing.T) {
	f := newCluster(t)
	second := f.member(t, "redis-a-node-0-1")
	f.secret("users", map[string]string{"alice": "first"})
	alice := f.entity("alice", func(s *platformv1.EntitySpec) { s.DeletionPolicy = platformv1.EntityDelete })
	f.create(alice)
	f.run(-1)
	f.ready(alice)
	for _, m := range []*fixture{f, second} {
		m.says("PONG", "alice", "first", "PING")
	}
	// What nobody changes costs looks and no writes.
	version := alice.ResourceVersion
	f.looks(4)
	third := f.member(t, "redis-a-node-1-0")
	third.says("PONG", "alice", "first", "PING")
	f.looks(2)
	f.ready(alice)
	if alice.ResourceVersion != version || alice.Status.DriftRepairs != 0 {
		t.Errorf("another pod had the Entity be written: %+v", alice.Status)
	}
	// Drift of one of them is put right there, and counted.
	second.admin("ACL", "SETUSER", "alice", "+set")
	f.repaired(alice, 1, `parameter "commands" was`)
	second.says("NOPERM", "alice", "first", "SET", "app:x", "1")
	f.secret("users", map[string]string{"alice": "second"})
	for _, m := range []*fixture{f, second, third} {
		m.says("PONG", "alice", "second", "PING")
	}
	// One that is not well may have it: it is removed there before the Entity goes.
	third.reports(report.Unhealthy)
	if err := env.Client.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, alice, "waiting for the pod", func() error {
		if ready := conditions.Get(alice, platformv1.ReadyCondition); ready == nil ||
			!strings.Contains(ready.Message, "pod redis-a-node-1-0 is not healthy") {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	if users := second.admin("ACL", "USERS"); users != "default" {
		t.Errorf("the users are %q", users)
	}
	third.reports(report.Healthy)
	testkit.WaitGone(t, env.Client, alice)
	if users := third.admin("ACL", "USERS"); users != "default" {
		t.Errorf("the users are %q", users)
	}
}

// A user of that name that somebody made in any of them is left alone, and so are the others.
func TestAUserInOneOfThePods(t *testing.T) {
	f := newCluster(t)
	second := f.member(t, "redis-a-node-0-1")
	second.admin("ACL", "SETUSER", "bob", "on", ">his", "+ping")
	f.secret("users", map[string]string{"bob": "ours"})
	bob := f.entity("bob", nil)
	f.create(bob)
	f.run(-1)
	f.stalled(bob, platformv1.ReasonAlreadyExists, "set adopt to true")
	if users := f.admin("ACL", "USERS"); users != "default" {
		t.Errorf("the other pod has %q", users)
	}
	second.says("PONG", "bob", "his", "PING")
	f.change(bob, func() { bob.Spec.Adopt = true })
	f.ready(bob)
	for _, m := range []*fixture{f, second} {
		m.says("PONG", "bob", "ours", "PING")
	}
}

// Whatever it dies at, the next controller goes on in all pods.
func TestCrashAnywhereInEachPod(t *testing.T) {
	for effects := range 10 {
		f := newCluster(t)
		second := f.member(t, "redis-a-node-0-1")
		f.secret("users", map[string]string{"alice": "secret"})
		alice := f.entity("alice", nil)
		f.create(alice)
		f.crash(effects, func() error {
			if alice.Status.Phase != platformv1.PhaseReady {
				return fmt.Errorf("phase is %q: %+v", alice.Status.Phase, alice.Status.Conditions)
			}
			return nil
		}, alice)
		for _, m := range []*fixture{f, second} {
			m.says("PONG", "alice", "secret", "PING")
		}
		if alice.Status.Origin != platformv1.EntityCreated || alice.Status.DriftRepairs != 0 {
			t.Errorf("killed after %d effects: status is %+v", effects, alice.Status)
		}
	}
}

// Types of a topology are those of its components.
func TestTypesOfATopology(t *testing.T) {
	f := newCluster(t)
	f.secret("users", map[string]string{"a": "x"})
	f.run(-1)
	a := f.entity("a", func(s *platformv1.EntitySpec) { s.Type = "topic" })
	f.create(a)
	f.stalled(a, platformv1.ReasonTypeNotFound, `it has acl-user with topology "cluster"`)
}
