// SPDX-License-Identifier: Apache-2.0

// Package record converts the record of the primary of a WorkloadSet between its forms: that of the API, that of the
// protocol between agents, and that in which it is sent to an agent. It is pure.
package record

import (
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// Of returns the record in the form of the protocol.
func Of(w *platformv1.PrimaryRecord) permission.Record {
	if w == nil {
		return permission.Record{}
	}
	record := permission.Record{Term: w.Term, Primary: MemberOf(w.Member), List: listOf(&w.List)}
	if w.Previous != nil {
		record.Previous = new(listOf(w.Previous))
	}
	return record
}

// MemberOf returns a member in the form of the protocol; nil for none.
func MemberOf(m *platformv1.SetMember) *permission.Member {
	if m == nil {
		return nil
	}
	return &permission.Member{Name: m.Name, Identity: m.Identity}
}

func listOf(l *platformv1.MemberList) permission.List {
	list := permission.List{Version: l.Version, SynchronousReplicas: int(l.SynchronousReplicas)}
	for _, m := range l.Members {
		list.Members = append(list.Members, permission.Member{Name: m.Name, Identity: m.Identity})
	}
	return list
}

// Stored returns the record of a step in the form of the API. before is the record that it replaces.
func Stored(step failover.Step, before *platformv1.PrimaryRecord, now time.Time) *platformv1.PrimaryRecord {
	r := step.Record
	stored := &platformv1.PrimaryRecord{Term: r.Term, Member: storedMember(r.Primary), List: StoredList(r.List),
		Former:  storedMember(step.Former),
		Changes: storedChanges(step, before, now)}
	if r.Previous != nil {
		stored.Previous = new(StoredList(*r.Previous))
	}
	if before != nil {
		stored.Access = before.Access
	}
	if before != nil && before.Term == stored.Term && reflect.DeepEqual(before.Member, stored.Member) {
		stored.Since = before.Since
	} else {
		stored.Since = &metav1.Time{Time: now}
	}
	return stored
}

var causes = map[failover.Cause]platformv1.PrimaryChangeCause{
	failover.Failed: platformv1.PrimaryFailed, failover.Ordered: platformv1.PrimaryOrdered,
	failover.Recovered: platformv1.PrimaryRecovered,
}

// storedChanges returns the latest changes of the primary, with that of the step. The first primary of a set is no
// change.
func storedChanges(step failover.Step, before *platformv1.PrimaryRecord, now time.Time) []platformv1.PrimaryChange {
	if before == nil {
		return nil
	}
	changes := slices.Clone(before.Changes)
	if begun := step.Change; begun != nil && step.Record.Term > before.Term {
		change := platformv1.PrimaryChange{Term: step.Record.Term, Cause: causes[begun.Cause], Reason: begun.Why,
			Operation: begun.By, Deposed: metav1.NewMicroTime(now)}
		if before.Member != nil {
			change.From = before.Member.Name
		}
		changes = append(changes, change)
	}
	if last := len(changes) - 1; step.Record.Primary != nil && last >= 0 && changes[last].Term == step.Record.Term &&
		changes[last].Named == nil {
		change := &changes[last]
		change.To, change.Named, change.Choice = step.Record.Primary.Name, new(metav1.NewMicroTime(now)), step.Reason
		if step.Chosen != nil {
			change.Order, change.Lag = new(step.Chosen.Order), step.Chosen.Lag
		}
	}
	return changes[max(0, len(changes)-platformv1.MaxPrimaryChanges):]
}

func storedMember(m *permission.Member) *platformv1.SetMember {
	if m == nil {
		return nil
	}
	return &platformv1.SetMember{Name: m.Name, Identity: m.Identity}
}

// StoredList returns a list of members in the form of the API.
func StoredList(l permission.List) platformv1.MemberList {
	list := platformv1.MemberList{Version: l.Version, SynchronousReplicas: int32(l.SynchronousReplicas)}
	for _, m := range l.Members {
		list.Members = append(list.Members, platformv1.SetMember{Name: m.Name, Identity: m.Identity})
	}
	return list
}

// Sent returns the record in the form that agents receive.
func Sent(r permission.Record) *agentv1.PrimaryRecord {
	sent := &agentv1.PrimaryRecord{Term: r.Term, List: sentList(r.List)}
	if r.Primary != nil {
		sent.Primary = &agentv1.Member{Name: r.Primary.Name, Identity: r.Primary.Identity}
	}
	if r.Previous != nil {
		sent.Previous = sentList(*r.Previous)
	}
	return sent
}

func sentList(l permission.List) *agentv1.MemberList {
	list := &agentv1.MemberList{Version: l.Version, SynchronousReplicas: int32(l.SynchronousReplicas)}
	for _, m := range l.Members {
		list.Members = append(list.Members, &agentv1.Member{Name: m.Name, Identity: m.Identity})
	}
	return list
}

// Same says whether two records say the same.
func Same(a, b permission.Record) bool {
	same := func(a, b permission.List) bool {
		return a.Version == b.Version && a.SynchronousReplicas == b.SynchronousReplicas && slices.Equal(a.Members, b.Members)
	}
	if (a.Primary == nil) != (b.Primary == nil) || (a.Previous == nil) != (b.Previous == nil) {
		return false
	}
	return a.Term == b.Term && (a.Primary == nil || *a.Primary == *b.Primary) && same(a.List, b.List) &&
		(a.Previous == nil || same(*a.Previous, *b.Previous))
}
