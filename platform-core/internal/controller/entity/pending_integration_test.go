// SPDX-License-Identifier: Apache-2.0

//go:build integration

package entity

import (
	"fmt"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// TestAPendingObjectIsReadyLater: what the middleware still works on is told, and nothing is asked for again meanwhile.
func TestAPendingObjectIsReadyLater(t *testing.T) {
	f := newFixture(t)
	f.secret("users", map[string]string{"alice": "first"})
	f.pending.Store(new("2 of 6 partitions are copied to more brokers"))
	alice := f.entity("alice", func(*platformv1.EntitySpec) {})
	f.create(alice)
	f.run(-1)
	testkit.WaitFor(f, env.Client, alice, "pending", func() error {
		ready := conditions.Get(alice, platformv1.ReadyCondition)
		if ready == nil || ready.Reason != platformv1.ReasonProgressing || ready.Message != *f.pending.Load() {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	changed := f.changed.Load()
	f.looks(2)
	if now := f.changed.Load(); now != changed {
		t.Errorf("%d changes were asked for while the first was at work", now-changed)
	}
	f.pending.Store(nil)
	f.ready(alice)
	if alice.Status.DriftRepairs != 0 {
		t.Errorf("it counts as drift: %+v", alice.Status)
	}
}
