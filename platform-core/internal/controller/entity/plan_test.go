// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func userOf(ready metav1.ConditionStatus, since time.Time) *item {
	entity := &platformv1.Entity{ObjectMeta: metav1.ObjectMeta{UID: "1", Generation: 1}}
	entity.Status.Conditions = []metav1.Condition{
		{Type: platformv1.ReadyCondition, Status: ready, ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(since)}}
	return newItem(entity)
}

// One key for one change, however often it is asked how it stands, and another for the next of the kind.
func TestKeysOfChanges(t *testing.T) {
	begin := time.Unix(1000, 0)
	g := &group{entityType: "acl-user", attempts: map[string]int{}, running: map[types.UID]string{}, self: "me"}
	key := func(it *item) string { return g.key([]*item{it}) }
	created := key(userOf(metav1.ConditionFalse, begin))
	if again := key(userOf(metav1.ConditionFalse, begin.Add(time.Minute))); again != created {
		t.Error("a creation that is not settled has another key the next time")
	}
	settled := userOf(metav1.ConditionTrue, begin)
	first := key(settled)
	if first == created || key(userOf(metav1.ConditionTrue, begin.Add(time.Minute))) == first {
		t.Error("what was gone after it was made has the key that it was made with")
	}
	// It is not settled while its change is under way, and the key stays.
	g.underWay([]*item{settled})
	r := &remembered{written: map[types.UID]*platformv1.Entity{}, instances: map[string]string{},
		secrets: map[types.UID]string{}, running: g.running}
	g.items = []*item{settled}
	r.rememberItems(g)
	if key(userOf(metav1.ConditionFalse, begin.Add(time.Second))) != first {
		t.Error("a change that is under way is asked for with another key")
	}
	g.items = []*item{userOf(metav1.ConditionFalse, begin)}
	if r.rememberItems(g); len(g.running) > 0 {
		t.Errorf("a change that has ended is remembered: %v", g.running)
	}
	other := &group{attempts: map[string]int{first: 1}, self: "another"}
	g.attempts[first] = 1
	if g.keyOf(first) == other.keyOf(first) || g.keyOf(created) != other.keyOf(created) {
		t.Error("the first attempt is anybody's, and later ones are not")
	}
}

// TestAttemptsAreBounded: one Entity that is refused for good keeps the counts of its group, and others come with it in
// ever new batches.
func TestAttemptsAreBounded(t *testing.T) {
	g := &group{entityType: "role", attempts: map[string]int{}, running: map[types.UID]string{},
		claims: map[types.UID]*claim{}, self: "me"}
	c := &Controller{Deps: Deps{Now: time.Now}}
	agent := &server{answer: refuses, objects: map[string]map[string]string{}}
	for n := range 3 * mostAttempts {
		it := userOf(metav1.ConditionFalse, time.Unix(1000, 0))
		it.entity.Generation = int64(n)
		it.wanted = &accept.EntityWanted{Type: &schema.Entity{}}
		c.change(t.Context(), agent, g, []*item{it})
		base := g.key([]*item{it})
		if len(g.attempts) > mostAttempts || g.attempts[base] != 1 {
			t.Fatalf("after %d batches %d are counted, the last one %d times", n+1, len(g.attempts), g.attempts[base])
		}
	}
}

func TestUpdateThatChangedNothing(t *testing.T) {
	state := func(commands string) agentclient.EntityState {
		return agentclient.EntityState{Parameters: map[string]string{"commands": commands}}
	}
	for name, test := range map[string]struct {
		observed, found, after string
		attempt                int
		want                   bool
	}{
		"as before":                          {"+get -acl", "+set", "+set", 0, true},
		"put right":                          {"+get -acl", "+set", "+get -acl", 0, false},
		"only the password was another one":  {"+get -acl", "+get -acl", "+get -acl", 0, false},
		"the same by other words, once more": {"", "+get -acl", "+get -acl", 1, false},
	} {
		it := userOf(metav1.ConditionTrue, time.Unix(1000, 0))
		it.wanted = &accept.EntityWanted{Type: &schema.Entity{Driver: "redis"},
			Parameters: map[string]string{"commands": "+get"}}
		it.intent, it.there, it.found, it.attempt = agentclient.EntityUpdate, true, state(test.found), test.attempt
		if test.observed != "" {
			it.before.Status.Applied, it.before.Status.Observed = it.digest(), state(test.observed).Parameters
		}
		if got := it.unchanged(state(test.after)); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// Of two processes that put the same in other words each is compared with its own, and neither counts as changed by
// somebody.
func TestFactsAreToldAndComparedWithNothing(t *testing.T) {
	it := userOf(metav1.ConditionTrue, time.Unix(1000, 0))
	it.wanted = &accept.EntityWanted{Type: &schema.Entity{Driver: "minio"},
		Parameters: map[string]string{"prefix": "logs/"}}
	it.before.Status.Origin, it.entity.Status.Origin = platformv1.EntityCreated, platformv1.EntityCreated
	it.before.Status.Applied, it.before.Status.Observed = it.digest(), it.wanted.Parameters
	it.before.Status.Facts = map[string]string{"failed": "1"}
	state := agentclient.EntityState{Parameters: it.wanted.Parameters, Facts: map[string]string{"failed": "2"}}
	decide(it, map[string]agentclient.EntityState{"": state}, instance{now: "first", before: "first"}, time.Unix(2000, 0))
	if it.intent != "" || it.drift != "" || it.entity.Status.Facts["failed"] != "2" {
		t.Errorf("got %q %q %v", it.intent, it.drift, it.entity.Status.Facts)
	}
	g := &group{entityType: "replication", attempts: map[string]int{}}
	it.found = state
	key := g.key([]*item{it})
	it.found.Facts = map[string]string{"failed": "3"}
	if g.key([]*item{it}) != key {
		t.Error("a change has another key since a count is another")
	}
}

func TestEachProcessHasItsOwnWords(t *testing.T) {
	r := &remembered{forms: map[string]*forms{}}
	words := map[string]string{"redis-a-0": "+get", "redis-a-1": "+get -acl"}
	wanted := &accept.EntityWanted{Type: &schema.Entity{Driver: "redis", Pods: schema.EntityEach},
		Parameters: map[string]string{"commands": "+get"}}
	status := map[string]string{}
	turn := func(pod, process, commands string) *item {
		g := &group{entityType: "acl-user", each: true, pod: pod,
			instance: instance{now: process, before: process, ofMany: true}}
		it := userOf(metav1.ConditionTrue, time.Unix(1000, 0))
		it.wanted = wanted
		it.before.Status.Origin, it.entity.Status.Origin = platformv1.EntityCreated, platformv1.EntityCreated
		it.before.Status.Applied, it.before.Status.Observed = it.digest(), status
		known := r.formsOf(g)
		known.tell([]*item{it})
		decide(it, map[string]agentclient.EntityState{"": {Parameters: map[string]string{"commands": commands}}}, g.instance,
			time.Unix(2000, 0))
		if it.intent == agentclient.EntityUpdate {
			// It is asked for, and reads back as before.
			it.observed(agentclient.EntityState{Parameters: map[string]string{"commands": words[pod]}})
		}
		known.learn([]*item{it})
		status = it.entity.Status.Observed
		return it
	}
	for _, pod := range []string{"redis-a-0", "redis-a-1"} {
		turn(pod, "first", words[pod])
	}
	for range 2 {
		for _, pod := range []string{"redis-a-0", "redis-a-1"} {
			if it := turn(pod, "first", words[pod]); it.intent != "" || it.drift != "" {
				t.Errorf("%s, which is as asked, is to be changed: %q", pod, it.drift)
			}
		}
	}
	if it := turn("redis-a-0", "first", "+get +set"); it.intent != agentclient.EntityUpdate || it.drift == "" {
		t.Errorf("somebody changed it: %q %q", it.intent, it.drift)
	}
	// Another process may have other words.
	if it := turn("redis-a-1", "second", "+get -acl -config"); it.form != nil {
		t.Errorf("it is known as %v", it.form)
	}
}

// An object that the middleware has taken and is still at work on is not ready, is not asked for again, and is looked
// at soon.
func TestAnObjectThatIsPendingIsNotReady(t *testing.T) {
	it := userOf(metav1.ConditionTrue, time.Unix(1000, 0))
	it.wanted = &accept.EntityWanted{Type: &schema.Entity{Driver: "topic"},
		Parameters: map[string]string{"replication-factor": "3"}}
	it.entity.Status.Origin = platformv1.EntityCreated
	state := agentclient.EntityState{Parameters: it.wanted.Parameters,
		Pending: "2 of 6 partitions are copied to more brokers"}
	decide(it, map[string]agentclient.EntityState{"": state}, instance{now: "first", before: "first"}, time.Unix(2000, 0))
	if o := it.told(); it.intent != "" || o.Kind() != outcome.KindWaiting || o.Message() != state.Pending ||
		o.After() != pendingPoll {
		t.Errorf("got %q, %v %q after %v", it.intent, o.Kind(), o.Message(), o.After())
	}
	state.Pending, it.outcome = "", nil
	decide(it, map[string]agentclient.EntityState{"": state}, instance{now: "first", before: "first"}, time.Unix(2000, 0))
	if o := it.told(); o.Kind() != outcome.KindDone {
		t.Errorf("when nothing is left to do: %v", o.Kind())
	}
}
