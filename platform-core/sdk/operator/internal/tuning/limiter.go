// SPDX-License-Identifier: Apache-2.0

package tuning

import (
	"context"

	"golang.org/x/time/rate"
)

// Limiter limits the requests to the API server, of all clients together. It can be changed
// while they are made.
type Limiter struct{ bucket *rate.Limiter }

// NewLimiter returns a limiter of so many requests per second, and so many at once.
func NewLimiter(qps float64, burst int) *Limiter {
	return &Limiter{rate.NewLimiter(rate.Limit(qps), burst)}
}

// Set changes the limits.
func (l *Limiter) Set(qps float64, burst int) {
	l.bucket.SetBurst(burst)
	l.bucket.SetLimit(rate.Limit(qps))
}

// TryAccept implements flowcontrol.RateLimiter.
func (l *Limiter) TryAccept() bool { return l.bucket.Allow() }

// Accept implements flowcontrol.RateLimiter.
func (l *Limiter) Accept() { _ = l.bucket.Wait(context.Background()) } // This context has no end.

// Wait implements flowcontrol.RateLimiter.
func (l *Limiter) Wait(ctx context.Context) error { return l.bucket.Wait(ctx) }

// Stop implements flowcontrol.RateLimiter; there is nothing to stop.
func (l *Limiter) Stop() {}

// QPS implements flowcontrol.RateLimiter.
func (l *Limiter) QPS() float32 { return float32(l.bucket.Limit()) }
