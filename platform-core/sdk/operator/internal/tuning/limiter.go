// SPDX-License-Identifier: Apache-2.0

package tuning

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limiter limits the requests to the API server, of all clients together. It can be changed
// while they are made, and those that wait then wait by the new limits.
type Limiter struct {
	bucket *rate.Limiter

	mu sync.Mutex
	// changed is closed when the limits change.
	changed chan struct{}
}

// NewLimiter returns a limiter of so many requests per second, and so many at once.
func NewLimiter(qps float64, burst int) *Limiter {
	return &Limiter{bucket: rate.NewLimiter(rate.Limit(qps), burst), changed: make(chan struct{})}
}

// Set changes the limits.
func (l *Limiter) Set(qps float64, burst int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.SetBurst(burst)
	l.bucket.SetLimit(rate.Limit(qps))
	close(l.changed)
	l.changed = make(chan struct{})
}

// TryAccept implements flowcontrol.RateLimiter.
func (l *Limiter) TryAccept() bool { return l.bucket.Allow() }

// Accept implements flowcontrol.RateLimiter.
func (l *Limiter) Accept() { _ = l.Wait(context.Background()) } // This context has no end.

// Wait implements flowcontrol.RateLimiter.
func (l *Limiter) Wait(ctx context.Context) error {
	for {
		wait, changed, release := l.reserve()
		if wait == 0 {
			return nil
		}
		turn := time.NewTimer(wait)
		select {
		case <-turn.C:
			return nil
		case <-changed:
			release()
		case <-ctx.Done():
			release()
			turn.Stop()
			return ctx.Err()
		}
		turn.Stop()
	}
}

// reserve takes a turn, and returns how long it is until then and what tells of other limits.
func (l *Limiter) reserve() (wait time.Duration, changed <-chan struct{}, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := l.bucket.Reserve() // Never refused: a burst is at least 1.
	return turn.Delay(), l.changed, turn.Cancel
}

// Stop implements flowcontrol.RateLimiter; there is nothing to stop.
func (l *Limiter) Stop() {}

// QPS implements flowcontrol.RateLimiter.
func (l *Limiter) QPS() float32 { return float32(l.bucket.Limit()) }
