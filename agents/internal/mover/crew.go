// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"sync"
)

// crew are goroutines of which the first that fails ends all.
type crew struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	group  sync.WaitGroup
}

func newCrew(ctx context.Context) *crew {
	c := &crew{}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// have has some of them do something; then is called when all of these are through, whatever came of it.
func (c *crew) have(count int, do func() error, then func()) {
	var these sync.WaitGroup
	for range count {
		these.Add(1)
		c.group.Go(func() {
			defer these.Done()
			if err := do(); err != nil {
				c.cancel(err)
			}
		})
	}
	c.group.Go(func() {
		these.Wait()
		then()
	})
}

// wait waits for all of them, and returns what the first one failed of.
func (c *crew) wait() error {
	c.group.Wait()
	err := context.Cause(c.ctx)
	c.cancel(nil)
	return err
}

// give hands something on; the error is why nobody takes it any more.
func give[T any](ctx context.Context, to chan<- T, what T) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case to <- what:
		return nil
	}
}
