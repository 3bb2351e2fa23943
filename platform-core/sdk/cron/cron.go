// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"time"

	"github.com/robfig/cron/v3"
)

// Gap says what becomes of a time that the clocks leave out.
type Gap string

// Values of Gap.
const (
	GapShift Gap = "Shift"
	GapSkip  Gap = "Skip"
)

// Overlap says which of two moments counts at which the clocks show a time.
type Overlap string

// Values of Overlap.
const (
	OverlapFirst Overlap = "First"
	OverlapLast  Overlap = "Last"
	OverlapBoth  Overlap = "Both"
)

// Policy for changes of the clocks.
type Policy struct {
	Gap     Gap
	Overlap Overlap
}

const (
	// farthest is how far ahead a time is looked for. 29 February comes after 8 years at most.
	farthest = 10 * 366 * 24 * time.Hour
	// pastDay is beyond the end of any day.
	pastDay = 48 * time.Hour
	// longest is a span that has the last times of any line.
	longest = 100 * 365 * 24 * time.Hour
)

// Schedule is a set of cron lines in a zone. It is safe for concurrent use.
type Schedule struct {
	lines  []*cron.SpecSchedule
	zone   *time.Location
	policy Policy
}

// Zone of the schedule.
func (s Schedule) Zone() *time.Location { return s.zone }

// Next returns the first time after the given one, in the zone of the schedule; zero when there is none for ten years.
func (s Schedule) Next(after time.Time) time.Time {
	var next time.Time
	for _, line := range s.lines {
		if at := s.nextOf(line, after); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// Last returns the last n times after one time and up to another, in their order, and whether there are more before
// them. The cost depends on n and on how uneven the lines are, not on the length of the span.
func (s Schedule) Last(after, to time.Time, n int) (last []time.Time, more bool) {
	for span := time.Minute; ; span *= 8 {
		from := to.Add(-span)
		whole := !from.After(after) || span > longest
		if whole {
			from = after
		}
		var times []time.Time
		for at := s.Next(from); !at.IsZero() && !at.After(to); at = s.Next(at) {
			times = append(times, at)
		}
		if whole || len(times) > n {
			return times[max(0, len(times)-n):], len(times) > n
		}
	}
}

// segment is a span of time with one offset from UTC.
type segment struct {
	// start and end are zero where the zone has no earlier or later change.
	start, end time.Time
	// offset in force, and those before start and from end on.
	before, offset, after time.Duration
}

// segmentAt returns the segment that a time is in.
func (s Schedule) segmentAt(at time.Time) segment {
	at = at.In(s.zone)
	seg := segment{offset: offsetAt(at)}
	seg.start, seg.end = at.ZoneBounds()
	if !seg.end.IsZero() && !seg.end.After(at) {
		// On the last day of a leap year whose rules are extrapolated, ZoneBounds ends before the day does. No zone changes
		// around then.
		seg.end = at.Add(pastDay)
	}
	seg.before, seg.after = seg.offset, seg.offset
	if !seg.start.IsZero() {
		seg.before = offsetAt(seg.start.Add(-time.Second))
	}
	if !seg.end.IsZero() {
		seg.after = offsetAt(seg.end)
	}
	return seg
}

func offsetAt(at time.Time) time.Duration {
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second
}

// wall is what the clocks show at a moment under an offset, as if that were UTC.
func wall(at time.Time, offset time.Duration) time.Time { return at.UTC().Add(offset) }

// nextOf returns the first time of one line.
func (s Schedule) nextOf(line *cron.SpecSchedule, after time.Time) time.Time {
	limit := after.Add(farthest)
	for at := after; !at.After(limit); {
		seg := s.segmentAt(at)
		if found := s.within(line, seg, after); !found.IsZero() {
			return found.In(s.zone)
		}
		if seg.end.IsZero() {
			break
		}
		at = seg.end
	}
	return time.Time{}
}

// within returns the first time of a line after a moment in one segment; zero when there is none.
func (s Schedule) within(line *cron.SpecSchedule, seg segment, after time.Time) time.Time {
	from := after
	if !seg.start.IsZero() && after.Before(seg.start) {
		from = seg.start.Add(-time.Second)
		if s.policy.Gap == GapShift && seg.offset > seg.before &&
			named(line, wall(seg.start, seg.before), wall(seg.start, seg.offset)) {
			return seg.start
		}
	}
	shown := wall(from, seg.offset)
	if repeated := wall(seg.start, seg.before); !seg.start.IsZero() && seg.offset < seg.before &&
		s.policy.Overlap == OverlapFirst && shown.Before(repeated) {
		// The clocks have shown these times before.
		shown = repeated.Add(-time.Second)
	}
	next := nextWall(line, shown)
	if next.IsZero() {
		return time.Time{}
	}
	at := next.Add(-seg.offset)
	switch {
	case seg.end.IsZero():
		return at
	case !at.Before(seg.end):
		return time.Time{}
	case seg.after < seg.offset && s.policy.Overlap == OverlapLast && !next.Before(wall(seg.end, seg.after)):
		// The clocks show this time once more.
		return time.Time{}
	}
	return at
}

// named says whether a line names a time from one on and before another.
func named(line *cron.SpecSchedule, from, before time.Time) bool {
	next := nextWall(line, from.Add(-time.Second))
	return !next.IsZero() && next.Before(before)
}

// nextWall is the first time of a line after another, without a zone; zero for never. The library gives up after five
// years, and 29 February is further away where a century has no leap year.
func nextWall(line *cron.SpecSchedule, after time.Time) time.Time {
	for range 2 {
		if next := line.Next(after); !next.IsZero() {
			return next
		}
		after = after.AddDate(5, 0, 0)
	}
	return time.Time{}
}
