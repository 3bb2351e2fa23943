// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// dueItem is of an Entity that is ready at its generation, with what it asks for now.
func dueItem(name string, change func(*item)) *item {
	it := newItem(&platformv1.Entity{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1},
		Status: platformv1.EntityStatus{Conditions: []metav1.Condition{
			{Type: platformv1.ReadyCondition, Status: metav1.ConditionTrue, ObservedGeneration: 1}}}})
	it.wanted = &accept.EntityWanted{Type: &schema.Entity{}, Parameters: map[string]string{"size": "1"}}
	it.before.Status.Applied = it.digest()
	if change != nil {
		change(it)
	}
	return it
}

// moreThanACallReads are these items, and as many that are settled as one call reads.
func moreThanACallReads(items ...*item) []*item {
	for i := range agentclient.MaxEntityQueries {
		items = append(items, dueItem(fmt.Sprint("settled-", i), nil))
	}
	return items
}

// Between two looks at all objects those are looked at whose Entities are not settled, or ask for something else.
func TestObjectsThatAreDue(t *testing.T) {
	const interval = 5 * time.Minute
	now := time.Now()
	owed := "owed"
	items := moreThanACallReads(
		dueItem("new", func(it *item) { it.before.Status = platformv1.EntityStatus{} }),
		dueItem("changed", func(it *item) { it.entity.Generation = 2 }),
		dueItem("other parameters", func(it *item) { it.wanted.Parameters["size"] = "2" }),
		dueItem("other password", func(it *item) { it.secret = "2" }),
		dueItem("going", func(it *item) { it.entity.DeletionTimestamp = &metav1.Time{Time: now} }),
		dueItem(owed, nil),
	)
	const unsettled = 6
	for name, tc := range map[string]struct {
		last  look
		each  bool
		few   bool
		whole bool
	}{
		"never":            {last: look{}, whole: true},
		"a moment ago":     {last: look{"a/1", now.Add(-time.Second)}},
		"long ago":         {last: look{"a/1", now.Add(-interval)}, whole: true},
		"another process":  {last: look{"a/0", now.Add(-time.Second)}, whole: true},
		"a clock set back": {last: look{"a/1", now.Add(time.Hour)}, whole: true},
		"one call":         {last: look{"a/1", now.Add(-time.Second)}, few: true, whole: true},
		"in each pod":      {last: look{"a/1", now.Add(-time.Second)}, each: true, whole: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := &group{entityType: "user", items: items, instance: instance{now: "a/1"}, each: tc.each}
			if tc.few {
				g.items = items[:agentclient.MaxEntityQueries]
			}
			seen := &observation{now: now, remembered: &remembered{looks: map[string]look{g.id(): tc.last},
				owed: map[types.UID]bool{types.UID(owed): true}}}
			due, again := seen.due(g, interval)
			want := len(g.items)
			if !tc.whole {
				want = unsettled
			}
			if len(due) != want || !tc.whole && due[0].entity.Name != "new" {
				t.Errorf("%d are due, want %d", len(due), want)
			}
			if again <= 0 || again > interval {
				t.Errorf("the next look is after %v", again)
			}
		})
	}
}

// Of those that are not settled no more are looked at than a turn can change.
func TestDueInOneTurn(t *testing.T) {
	var items []*item
	for i := range changesInTurn + 1 {
		items = append(items, dueItem(fmt.Sprint(i), func(it *item) { it.before.Status = platformv1.EntityStatus{} }))
	}
	g := &group{entityType: "user", items: items, instance: instance{now: "a/1"}}
	now := time.Now()
	seen := &observation{now: now, remembered: &remembered{looks: map[string]look{g.id(): {"a/1", now}}}}
	if due, again := seen.due(g, time.Hour); len(due) != changesInTurn || again != nextTurn {
		t.Errorf("%d of %d are due, the others after %v", len(due), len(items), again)
	}
}

// What a turn did not come to is due in the next one, whatever its status says, until it is done.
func TestWhatATurnDidNotComeTo(t *testing.T) {
	it := dueItem("a", nil)
	all := moreThanACallReads(it)
	g := &group{entityType: "user", items: all, instance: instance{now: "a/1"}, whole: true}
	seen := &observation{now: time.Now(), remembered: &remembered{looks: map[string]look{}, owed: map[types.UID]bool{}}}
	for _, other := range all[1:] {
		other.observed(agentclient.EntityState{})
	}
	seen.rememberLook(g)
	if due, _ := seen.due(g, time.Hour); len(due) != 1 {
		t.Error("it is not due")
	}
	it.observed(agentclient.EntityState{})
	seen.rememberLook(g)
	if due, _ := seen.due(g, time.Hour); len(due) != 0 {
		t.Error("it is due once it is done")
	}
}

// A turn makes so many changes, and those that were refused before leave room for others.
func TestChangesOfATurn(t *testing.T) {
	var changes []*item
	for i := range changesInTurn {
		changes = append(changes, dueItem(fmt.Sprint(i), func(it *item) {
			it.before.Status.Conditions = []metav1.Condition{{Type: platformv1.StalledCondition, Status: metav1.ConditionTrue}}
		}))
	}
	if turn := inTurn(changes); len(turn) != changesInTurn {
		t.Errorf("%d of %d have their turn", len(turn), changesInTurn)
	}
	changes = append(changes, dueItem("another", nil))
	if turn := inTurn(changes); len(turn) != changesInTurn || turn[0].entity.Name != "another" ||
		turn[1].entity.Name != "0" {
		t.Errorf("%d have their turn, first %q", len(turn), turn[0].entity.Name)
	}
}
