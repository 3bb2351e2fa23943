// SPDX-License-Identifier: Apache-2.0

// Package maintenance says whether an instance may be disturbed now, and if not, when. It is pure: the clock is the
// caller's.
package maintenance

import (
	"fmt"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/schedule"
	"github.com/zeroinfra/platform-core/sdk/cron"
)

// Bounds of a window.
const (
	shortest = time.Minute
	longest  = 7 * 24 * time.Hour
)

// Windows of an instance. None stands for always.
type Windows []window

type window struct {
	cron.Schedule
	duration time.Duration
}

// Parse reads the windows of a spec. The error names the one that is wrong.
func Parse(spec *platformv1.Maintenance) (Windows, error) {
	if spec == nil {
		return nil, nil
	}
	windows := make(Windows, 0, len(spec.Windows))
	for i, w := range spec.Windows {
		s, err := schedule.Parse(string(w.Schedule), string(w.TimeZone))
		if err != nil {
			return nil, fmt.Errorf("maintenance.windows[%d]: %w", i, err)
		}
		if d := w.Duration.Duration; d < shortest || d > longest {
			return nil, fmt.Errorf("maintenance.windows[%d]: duration %s is not between 1m and 168h", i, d)
		}
		windows = append(windows, window{s, w.Duration.Duration})
	}
	return windows, nil
}

// Closed says whether no window is open at a time, and when the first one opens after it.
func (w Windows) Closed(now time.Time) (Opening, bool) {
	var first time.Time
	for _, window := range w {
		// One that opened at most its duration ago is open.
		next := window.Next(now.Add(-window.duration))
		if !next.After(now) {
			return Opening{}, false
		}
		if first.IsZero() || next.Before(first) {
			first = next
		}
	}
	return Opening{first}, len(w) > 0
}

// Seen returns up to when everything that was to happen after a time and waited for a window has had one: now while one
// is open, else the end of the last one, or the zero time when there was none since.
func (w Windows) Seen(since, now time.Time) time.Time {
	if _, closed := w.Closed(now); !closed {
		return now
	}
	var latest time.Time
	for _, window := range w {
		opened, _ := window.Last(since.Add(-window.duration), now, 1)
		if len(opened) == 0 {
			continue
		}
		// The moment at which it closes is not part of it.
		if end := opened[0].Add(window.duration - time.Nanosecond); end.After(latest) {
			latest = end
		}
	}
	return latest
}

// Opening is when a window opens, in its own zone.
type Opening struct{ time.Time }

// String returns the time to the minute, with the offset and the name of the zone.
func (o Opening) String() string {
	return fmt.Sprintf("%s (%s)", o.Format("2006-01-02T15:04Z07:00"), o.Location())
}
