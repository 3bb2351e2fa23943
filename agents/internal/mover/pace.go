// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"time"
)

// maxCredit is for how long what was not used can be made up for.
const maxCredit = time.Second

// pace bounds how many bytes are moved in a second; 0 is no bound.
type pace struct {
	perSecond int64
	// due is when all that was moved is paid for.
	due time.Time
}

// wait until some more bytes can be moved.
func (p *pace) wait(ctx context.Context, bytes int) error {
	if p.perSecond == 0 {
		return nil
	}
	now := time.Now()
	if earliest := now.Add(-maxCredit); p.due.Before(earliest) {
		p.due = earliest
	}
	if p.due.After(now) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(p.due.Sub(now)):
		}
	}
	p.due = p.due.Add(time.Duration(float64(bytes) / float64(p.perSecond) * float64(time.Second)))
	return nil
}
