// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// AnswerTimeout is how long a server may take.
const AnswerTimeout = 5 * time.Second

// pollEvery is how often a condition is looked at.
const pollEvery = 100 * time.Millisecond

// Poll looks at a condition until it holds, and says what it last lacked when the time is over.
func Poll(ctx context.Context, limit time.Duration, what string, condition func() error) (time.Duration, error) {
	start := time.Now()
	last := errors.New("it was never reconciled")
	err := wait.PollUntilContextTimeout(ctx, pollEvery, limit, true, func(context.Context) (bool, error) {
		last = condition()
		return last == nil, nil
	})
	if err != nil {
		return time.Since(start), fmt.Errorf("%s: not within %s: %w", what, limit, last)
	}
	return time.Since(start), nil
}

// Eventually ends the test when a condition does not come to hold in time. It returns how long that took.
func (s *Namespace) Eventually(limit time.Duration, what string, condition func() error) time.Duration {
	s.Helper()
	took, err := Poll(s.Ctx, limit, what, condition)
	if err != nil {
		s.Fatal(err)
	}
	return took
}

// Throughout ends the test as soon as a condition does not hold during the period.
func (s *Namespace) Throughout(period time.Duration, what string, condition func() error) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Ctx, pollEvery, period, true, func(context.Context) (bool, error) {
		return false, condition()
	})
	if !wait.Interrupted(err) || s.Ctx.Err() != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// FormatSeconds prints a duration in seconds.
func FormatSeconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
