// SPDX-License-Identifier: Apache-2.0

package primary

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
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
func (r *Reconciler) writeRecord(ctx context.Context, set *platformv1.WorkloadSet, version string,
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
	err = r.Client.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, body),
		client.FieldOwner(facts.Owner))
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil, err
}
