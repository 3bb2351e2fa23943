// SPDX-License-Identifier: Apache-2.0

// Package turns has those who take pods of an Application out do so one at a time: the rollout of its sets and the
// Operations that work through its pods. Who has the turn sees all that the other one did before, and has recorded what
// it does itself by the time that it gives the turn back: in the API, or here where a pod is called and has yet to
// report it. There is one leader, so that it need not leave the process; a turn is as short as one step.
package turns

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Turns are those of all Applications. The zero value is ready.
type Turns struct {
	mu    sync.Mutex
	taken map[types.NamespacedName]struct{}
	// unreported are the latest calls that rollouts noted, by pod.
	unreported map[types.NamespacedName]unreported
}

// Take takes the turn of an Application and returns how it is given back; false when another one has it.
func (t *Turns) Take(application types.NamespacedName) (release func(), taken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, is := t.taken[application]; is {
		return nil, false
	}
	if t.taken == nil {
		t.taken = map[types.NamespacedName]struct{}{}
	}
	t.taken[application] = struct{}{}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.taken, application)
	}, true
}
