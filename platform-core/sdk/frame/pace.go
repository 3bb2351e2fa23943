// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// A status that only tells how far the work is waits until it is written: each step of each pod would be a write at
// every level otherwise. The more objects are at work, the longer it waits, so that all of them together tell so much
// in a second, and what nobody acts on does not hold up the work itself.
const (
	// Progress is how long the first waits at least. Each that follows and has the same reason waits twice as long, up to
	// slowProgress, until something that matters is written.
	Progress     = 2 * time.Second
	slowProgress = 8 * time.Second
	// progressEach is what each object that is at work adds.
	progressEach = 250 * time.Millisecond
	// longestProgress is the most that it grows to.
	longestProgress = time.Minute
	// firsts is how many objects that come at the same time have their first status at once.
	firsts = 16
)

// Pace knows which objects have such a status, and since when. An object is in it as long as its next turn is due.
type Pace struct {
	now   func() time.Time
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
	// next is how long the next status of an object waits at least, where it told of progress before.
	next map[types.NamespacedName]time.Duration
	// first lets first statuses pass.
	first *rate.Limiter
}

// NewPace returns a Pace that nothing is in. now tells the time.
func NewPace(now func() time.Time) *Pace {
	return &Pace{now: now, since: map[types.NamespacedName]time.Time{}, next: map[types.NamespacedName]time.Duration{},
		first: rate.NewLimiter(rate.Every(progressEach), firsts)}
}

// Wait returns how long the status of an object is still to be held back; 0 when its time has come.
func (p *Pace) Wait(key types.NamespacedName) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.held(key)
	if left := p.longest(key) - held; left > 0 {
		return left
	}
	delete(p.since, key)
	p.next[key] = min(2*max(p.next[key], Progress), slowProgress)
	return 0
}

// WaitFirst returns how long the first status of an object, which tells that it is at work, is still to be held back;
// 0 when its time has come. A few objects have it at once. Of thousands that are made together most are ready before
// their turn comes, and are written once.
func (p *Pace) WaitFirst(key types.NamespacedName) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, waits := p.since[key]; !waits && p.first.AllowN(p.now(), 1) {
		return 0
	}
	held := p.held(key)
	if left := min(p.crowd(), longestProgress) - held; left > 0 {
		return left
	}
	delete(p.since, key)
	return 0
}

// held returns for how long the status of an object has waited, which begins with the first call.
func (p *Pace) held(key types.NamespacedName) time.Duration {
	now := p.now()
	if _, waits := p.since[key]; !waits {
		p.since[key] = now
	}
	return now.Sub(p.since[key])
}

// crowd is what all that are at work add.
func (p *Pace) crowd() time.Duration { return time.Duration(len(p.since)) * progressEach }

// longest is how long the status of an object waits while so many objects are at work.
func (p *Pace) longest(key types.NamespacedName) time.Duration {
	return min(max(Progress, p.next[key], p.crowd()), longestProgress)
}

// Hasten has the status of an object wait no longer than the first one did: it has another reason than what is written.
func (p *Pace) Hasten(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.next, key)
}

// Rest says that there is nothing to tell of an object for now.
func (p *Pace) Rest(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, key)
}

// Forget takes an object out, since something that matters was written of it.
func (p *Pace) Forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, key)
	delete(p.next, key)
}
