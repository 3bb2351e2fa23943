// SPDX-License-Identifier: Apache-2.0

//go:build integration

package entity

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// A thousand settle in one turn of few calls, and two writes for each.
func TestThousand(t *testing.T) {
	f := newFixture(t)
	f.settings.UseEntityInterval(time.Hour)
	f.secret("users", map[string]string{"all": "secret"})
	const count = 1000
	for i := range count {
		f.create(f.entity(fmt.Sprintf("user-%d", i), func(s *platformv1.EntitySpec) {
			s.PasswordFrom.Key, s.Parameters = "all",
				platformv1.Parameters{"keys": platformv1.ParameterValue(fmt.Sprintf("~user-%d:*", i)),
					"commands": "+@all -@dangerous"}
		}))
	}
	before, err := env.ServedWrites(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Turns that were not through before their deadline, on a machine that is slow, are taken again.
	turns := func(labels ...string) float64 {
		all := map[string]string{"controller": owner}
		for i := 0; i < len(labels); i += 2 {
			all[labels[i]] = labels[i+1]
		}
		return counted(t, "controller_runtime_reconcile_total", all)
	}
	turnsBefore, cutBefore := turns(), turns("result", "error")
	begin := time.Now()
	f.run(-1)
	testkit.Eventually(t, "all ready", func(ctx context.Context) error {
		var list platformv1.EntityList
		if err := env.Client.List(ctx, &list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		ready := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == platformv1.PhaseReady {
				ready++
			}
		}
		if ready < count {
			return fmt.Errorf("%d are ready", ready)
		}
		return nil
	})
	took, changed, observed := time.Since(begin), f.changed.Load(), f.observed.Load()
	after, err := env.ServedWrites(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d entities ready after %v: %d calls that change, %d that observe, writes %v (before: %v)", count, took,
		changed, observed, after, before)
	taken, cut, running := int64(turns()-turnsBefore), int64(turns("result", "error")-cutBefore), f.running.Load()
	t.Logf("there were %d turns, of which %d were cut short, and %d calls that took longer than their answer", taken, cut,
		running)
	// One turn is enough; the watch of the Secret may have it look again. What is left of one that was cut short is asked
	// for again, too.
	if taken > 3 && cut+running == 0 {
		t.Errorf("there were %d turns that nothing asked for", taken-1)
	}
	// A turn reads all before and after, and changes 500 with each call.
	if most := 2 * (taken + 1); changed < 2 || changed > most || observed < 2 || observed > most || cut+running == 0 &&
		(changed != 2 || observed > 3) {
		t.Errorf("%d calls looked at %d entities, and %d changed them, in %d turns", observed, count, changed, taken)
	}
	for resource, n := range after {
		n := int64(n - before[resource])
		switch most := count * (2 + cut + running); {
		case resource == "entities" && (n < 2*count || n > most), resource != "entities" && resource != "events" && n != 0:
			t.Errorf("%d writes of %s for %d entities", n, resource, count)
		}
	}
	if users := strings.Count(f.admin("ACL", "LIST"), "user user-"); users != count {
		t.Errorf("%d users are there", users)
	}
}
