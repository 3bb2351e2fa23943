// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// retries remember, for each set with a call that failed, when it may be made again: one pod of a set is called at a time. They
// are in memory alone: after a restart of the operator the next attempt waits as long as the last one did. The zero value is
// ready to use.
type retries struct {
	mu  sync.Mutex
	due map[types.NamespacedName]retry
}

type retry struct {
	// key of the call that failed.
	key string
	at  time.Time
}

// wait is how long it is until the call after the one of this key may be made: delay from when it is first asked for.
func (r *retries) wait(set types.NamespacedName, key string, now time.Time, delay time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.due[set]
	if known.key != key {
		if r.due == nil {
			r.due = map[types.NamespacedName]retry{}
		}
		known = retry{key: key, at: now.Add(delay)}
		r.due[set] = known
	}
	return known.at.Sub(now)
}

// forget a set that has no call that failed.
func (r *retries) forget(set types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.due, set)
}
