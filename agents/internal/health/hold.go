// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/zeroinfra/platform-core/agentproto/report"
)

const (
	// holdTime is how long something bad or unfinished must last before it is written: a process
	// that is restarted in place causes one write, when it is over, and not four.
	holdTime = 500 * time.Millisecond
	// firstHold is how long a new pod may start before anything is written about it.
	firstHold = 3 * time.Second
)

// Hold decides when a report is written.
type Hold struct {
	// written is the report that was handed out last.
	written string
	// since is when what is to be said began to differ from it; zero while it does not.
	since time.Time
}

// NewHold makes a hold; remembered is what an earlier run of the agent wrote, or "".
func NewHold(remembered string) *Hold { return &Hold{written: remembered} }

// Due returns the text to write, or "" and how long to wait before asking again (0: until something changes).
func (h *Hold) Due(now time.Time, r report.Report) (string, time.Duration) {
	text := r.String()
	if text == h.written {
		h.since = time.Time{}
		return "", 0
	}
	if h.since.IsZero() {
		h.since = now
	}
	if wait := h.since.Add(holdOf(r, h.written)).Sub(now); wait > 0 {
		return "", wait
	}
	h.written, h.since = text, time.Time{}
	return text, 0
}

func holdOf(r report.Report, written string) time.Duration {
	if part := partOf(r); part != "" {
		// The engine waits for who the members are, and acts on a writer that is gone.
		if before, err := report.Parse(written); err != nil || part != partOf(before) {
			return 0
		}
	}
	if r.FailedForMs > 0 {
		// It has lasted already.
		return 0
	}
	unfinished := r.LastCall != nil && r.LastCall.Phase == report.CallRunning
	switch {
	case r.Health == report.Starting && written == "":
		return firstHold
	case r.Health == report.Healthy || r.Health == report.Stopped:
		if unfinished {
			return holdTime
		}
		return 0
	}
	return holdTime
}

// partOf is what the engine is told at once of who may write.
func partOf(r report.Report) string {
	switch {
	case r.Member == nil:
		return ""
	case r.WriterUnreachable:
		return r.Member.Identity + " alone"
	}
	return r.Member.Identity
}
