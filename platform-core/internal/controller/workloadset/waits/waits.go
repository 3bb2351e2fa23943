// SPDX-License-Identifier: Apache-2.0

// Package waits has in-memory waits of the sub-reconcilers of WorkloadSets.
package waits

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Waits hold, for each set or pod, until when it waits: one key at a time. They are in-memory state: after a restart of
// the operator a wait begins again. The zero value is ready to use.
type Waits struct {
	mu  sync.Mutex
	due map[types.NamespacedName]wait
}

type wait struct {
	// key of the wait, such as the call that failed.
	key string
	at  time.Time
}

// Left returns the rest of the wait with this key: delay from the first call. It is not positive once the wait is over.
func (w *Waits) Left(set types.NamespacedName, key string, now time.Time, delay time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.due[set]
	if known.key != key {
		if w.due == nil {
			w.due = map[types.NamespacedName]wait{}
		}
		known = wait{key: key, at: now.Add(delay)}
		w.due[set] = known
	}
	return known.at.Sub(now)
}

// ForgetPods forgets the pods of a set.
func (w *Waits) ForgetPods(set types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ForgetPods(w.due, set)
}

// ForgetPods drops the state of the pods of a set.
func ForgetPods[V any](by map[types.NamespacedName]V, set types.NamespacedName) {
	maps.DeleteFunc(by, func(pod types.NamespacedName, _ V) bool {
		return pod.Namespace == set.Namespace && platformv1.WorkloadSetNameOf(pod.Name) == set.Name
	})
}

// Forget drops the wait of a set.
func (w *Waits) Forget(set types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.due, set)
}

// Len is how many sets and pods wait.
func (w *Waits) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.due)
}
