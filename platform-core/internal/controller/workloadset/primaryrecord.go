// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// primaryStates hold the in-memory state of each set whose primary the engine names. After a restart of the operator a
// failover takes longer, and is as safe. The zero value is ready to use.
type primaryStates struct {
	mu    sync.Mutex
	known map[types.NamespacedName]*primaryState
	// began is what times are counted from.
	began time.Time
}

// primaryState is the in-memory state of one set. Only one reconcile at a time uses it.
type primaryState struct {
	uid    types.UID
	memory failover.Memory
	// wrote is the record that this process wrote last; a cache may be older.
	wrote *platformv1.PrimaryRecord
}

func (w *primaryStates) of(set *platformv1.WorkloadSet, now time.Time) *primaryState {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		// Times are greater than zero, which stands for none.
		w.known, w.began = map[types.NamespacedName]*primaryState{}, now.Add(-time.Hour)
	}
	key := client.ObjectKeyFromObject(set)
	if known := w.known[key]; known == nil || known.uid != set.UID {
		w.known[key] = &primaryState{uid: set.UID}
	}
	return w.known[key]
}

func (w *primaryStates) since(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return now.Sub(w.began)
}

// started identifies this process, so that keys of calls differ from those of a previous process.
func (w *primaryStates) started() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.began.Unix()
}

// forget drops the state of a set whose primary is not reconciled.
func (w *primaryStates) forget(set types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, set)
}

// behind says whether a record is older than the one that this process wrote.
func (w *primaryState) behind(read *platformv1.PrimaryRecord) bool {
	wrote := w.wrote
	switch {
	case wrote == nil:
		return false
	case read == nil || read.Term != wrote.Term:
		return read == nil || read.Term < wrote.Term
	case (read.Member == nil) != (wrote.Member == nil):
		return read.Member == nil
	case read.List.Version != wrote.List.Version:
		return read.List.Version < wrote.List.Version
	}
	return read.Previous != nil && wrote.Previous == nil
}

// writeRecord writes a record with the resource version that was read as a precondition. It says whether it did;
// otherwise there was a conflict.
func (c *Controller) writeRecord(ctx context.Context, set *platformv1.WorkloadSet, version string,
	record *platformv1.PrimaryRecord) (bool, error) {
	data, err := json.Marshal(record)
	if err != nil {
		return false, err
	}
	// Fields that the record lacks are removed.
	fields := map[string]any{"member": nil, "previous": nil, "former": nil, "since": nil, "data": nil, "access": nil,
		"changes": nil}
	if err := json.Unmarshal(data, &fields); err != nil {
		return false, err
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": set.UID, "resourceVersion": version},
		"status":   map[string]any{"primary": fields},
	})
	if err != nil {
		return false, err
	}
	written := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	err = c.client.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil, err
}

// recordOf returns the record in the form of the protocol.
func recordOf(w *platformv1.PrimaryRecord) permission.Record {
	if w == nil {
		return permission.Record{}
	}
	record := permission.Record{Term: w.Term, Primary: memberOf(w.Member), List: listOf(&w.List)}
	if w.Previous != nil {
		record.Previous = new(listOf(w.Previous))
	}
	return record
}

func memberOf(m *platformv1.SetMember) *permission.Member {
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

// storedRecord returns the record of a step in the form of the API. before is the record that it replaces.
func storedRecord(step failover.Step, before *platformv1.PrimaryRecord, now time.Time) *platformv1.PrimaryRecord {
	r := step.Record
	stored := &platformv1.PrimaryRecord{Term: r.Term, Member: storedMember(r.Primary), List: storedList(r.List),
		Former:  storedMember(step.Former),
		Changes: storedChanges(step, before, now)}
	if r.Previous != nil {
		stored.Previous = new(storedList(*r.Previous))
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

func storedList(l permission.List) platformv1.MemberList {
	list := platformv1.MemberList{Version: l.Version, SynchronousReplicas: int32(l.SynchronousReplicas)}
	for _, m := range l.Members {
		list.Members = append(list.Members, platformv1.SetMember{Name: m.Name, Identity: m.Identity})
	}
	return list
}

// sentRecord returns the record in the form that agents receive.
func sentRecord(r permission.Record) *agentv1.PrimaryRecord {
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
