// SPDX-License-Identifier: Apache-2.0

// Package disruption serializes the disruptions of the pods of an Application: the rollout of its sets and the
// Operations that work on its pods. The holder of the lock sees everything that the previous holder did, and records
// its own disruption before it releases the lock: in the API, or in memory while a called pod has yet to report the
// call. The lock need not leave the process, since there is one leader. It is held for one step only.
package disruption

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Locks are the disruption locks of all Applications. The zero value is ready to use.
type Locks struct {
	mu   sync.Mutex
	held map[types.NamespacedName]struct{}
	// unreported are the latest calls that rollouts noted, by pod.
	unreported map[types.NamespacedName]unreported
}

// TryAcquire acquires the lock of an Application and returns the function that releases it. It returns false if the
// lock is held.
func (l *Locks) TryAcquire(application types.NamespacedName) (release func(), acquired bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.held[application]; held {
		return nil, false
	}
	if l.held == nil {
		l.held = map[types.NamespacedName]struct{}{}
	}
	l.held[application] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, application)
	}, true
}
