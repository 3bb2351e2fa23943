// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// What a process forgot when it was started anew is no drift, also where the pod has yet to report that process. What
// is gone from one and the same process is.
func TestForgottenObjectsAreNoDrift(t *testing.T) {
	for name, test := range map[string]struct {
		// change is what happens to the process, whose objects are gone afterwards.
		change func(*instanceOf, *server)
		drift  int64
	}{
		"the answer is of a process that was not reported yet": {
			change: func(_ *instanceOf, s *server) { s.starts++ }},
		"the report is of another process": {
			change: func(i *instanceOf, s *server) { i.restarts(); s.starts++ }},
		"the process is the same": {
			change: func(*instanceOf, *server) {}, drift: 1},
		"an older agent, and the report is of another process": {
			change: func(i *instanceOf, s *server) { i.restarts(); s.starts = 0 }},
		"an older agent, and the process is the same": {
			change: func(_ *instanceOf, s *server) { s.starts = 0 }, drift: 1},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstance(t, byDriver, "main-0")
			i.restarts()
			s := i.servers["main-0"]
			s.starts, s.answer = 1, makes
			i.look(0)
			i.wants(platformv1.EntityCreated, platformv1.ReasonReady)
			test.change(i, s)
			clear(s.objects)
			i.look(time.Minute)
			i.wants(platformv1.EntityCreated, platformv1.ReasonReady)
			if got := i.entity().Status; got.DriftRepairs != test.drift || len(s.objects) != 1 {
				t.Errorf("%d repairs of drift are counted (%v), want %d; the process has %v", got.DriftRepairs, got.LastDrift,
					test.drift, s.objects)
			}
		})
	}
}

// Of a process that is new all objects are looked at, and not only those that are not settled.
func TestAllObjectsOfAnotherProcessAreLookedAt(t *testing.T) {
	i := newInstance(t, byDriver, "main-0")
	i.restarts()
	pod := &i.pods[0]
	items := moreThanACallReads(dueItem("new", func(it *item) { it.before.Status = platformv1.EntityStatus{} }))
	seen := &observation{now: i.clock, remembered: i.memory.of(client.ObjectKey{Namespace: "default", Name: "main"})}
	asked := func(starts int64) *group {
		g := &group{entityType: "role", items: items}
		i.servers["main-0"].starts = starts
		seen.looks[g.id()] = look{process: processOf(pod, 1), at: i.clock}
		if o := i.ask(t.Context(), seen, g, pod); o.Kind() != outcome.KindDone {
			t.Fatalf("it cannot be asked: %v", o)
		}
		return g
	}
	if g := asked(1); g.whole || len(g.items) != 1 {
		t.Errorf("%d objects of the same process were looked at, want 1", len(g.items))
	}
	if g := asked(2); !g.whole || len(g.items) != agentclient.MaxEntityQueries+1 || g.instance.now != processOf(pod, 2) {
		t.Errorf("%d objects of process %q were looked at, want all of the other one", len(g.items), g.instance.now)
	}
}

// What somebody removes after a process had forgotten it is drift, and its repair is another call.
func TestDriftAfterARestartIsRepairedByACallOfItsOwn(t *testing.T) {
	i := newInstance(t, byDriver, "main-0")
	s := i.servers["main-0"]
	var keys []string
	s.starts, s.answer = 1, func(s *server, key string, change agentclient.EntityChange) (string, string, error) {
		keys = append(keys, key)
		return makes(s, key, change)
	}
	i.look(0)
	s.starts++
	for range 2 {
		clear(s.objects)
		i.look(time.Minute)
	}
	i.wants(platformv1.EntityCreated, platformv1.ReasonReady)
	if slices.Sort(keys); len(slices.Compact(keys)) != 3 || i.entity().Status.DriftRepairs != 1 {
		t.Errorf("the calls were %q, and %d repairs of drift are counted; want 3 and 1", keys,
			i.entity().Status.DriftRepairs)
	}
}
