// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Progress is the longest that a status which only tells how far the work is waits until it is written, and so the
// shortest time between two of them: each step of each pod would be a write at every level otherwise.
const Progress = 2 * time.Second

// pace knows which objects have such a status, and since when. An object is in it as long as its next turn is due.
type pace struct {
	now   func() time.Time
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// wait returns how long the status of an object is still to be held back; 0 when its time has come, and then it is forgotten.
func (p *pace) wait(key types.NamespacedName) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	since, found := p.since[key]
	if !found {
		if p.since == nil {
			p.since = map[types.NamespacedName]time.Time{}
		}
		p.since[key] = now
		return Progress
	}
	if left := Progress - now.Sub(since); left > 0 {
		return left
	}
	delete(p.since, key)
	return 0
}

func (p *pace) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, key)
}
