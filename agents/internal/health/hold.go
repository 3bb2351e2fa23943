// SPDX-License-Identifier: Apache-2.0

package health

import (
	"reflect"
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
	// written is the report that was handed out last, without for how long it had been so.
	written string
	// seen is what was asked about last, and text how that is written: most are the same as the one before.
	seen report.Report
	text string
	// since is when what is to be said began to differ from it; zero while it does not.
	since time.Time
	// unhealthy is since when the health is that; zero while it is another one.
	unhealthy time.Time
}

// NewHold makes a hold; remembered is what an earlier run of the agent wrote, or "".
func NewHold(remembered string) *Hold {
	if r, err := report.Parse(remembered); err == nil && remembered != "" {
		remembered = untimed(r)
	}
	return &Hold{written: remembered}
}

// untimed is a report without for how long it has been so: that alone is no news.
func untimed(r report.Report) string {
	r.FailedForMs = 0
	return r.String()
}

// Due returns the text to write, or "" and how long to wait before asking again (0: until something changes).
func (h *Hold) Due(now time.Time, r report.Report) (string, time.Duration) {
	if h.text == "" || !reflect.DeepEqual(r, h.seen) {
		h.seen, h.text = r, untimed(r)
	}
	text := h.text
	switch {
	case r.Health != report.Unhealthy:
		h.unhealthy = time.Time{}
	case h.unhealthy.IsZero():
		h.unhealthy = now
	}
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
	if r.Health == report.Unhealthy && r.FailedForMs == 0 {
		// Who acts on it counts from when it began, and not from when it was told.
		r.FailedForMs = now.Sub(h.unhealthy).Milliseconds()
	}
	return r.String(), 0
}

func holdOf(r report.Report, written string) time.Duration {
	if part := partOf(r); part != "" {
		// The engine waits for who the members are, and acts on a primary that is gone.
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
	case r.PrimaryUnreachable:
		return r.Member.Identity + " alone"
	}
	return r.Member.Identity
}
