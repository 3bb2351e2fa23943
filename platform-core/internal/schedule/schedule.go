// SPDX-License-Identifier: Apache-2.0

// Package schedule says when a cron line in a time zone comes next. It is pure: the clock is the caller's.
//
// A line speaks of what the clocks on the wall show there, and each time that it names comes once:
//   - a time that the clocks leave out, when they are put forward, comes at the moment they are;
//   - a time that they show twice, when they are put back, comes the first time only.
package schedule

import (
	"fmt"
	"strings"
	"time"
	// An image has no zones of its own.
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

// fields of a line, as cron has them. Names such as @daily, and a zone within the line, are not among them.
var fields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// longest is a span that has the last times of any line: no two are further apart than 8 years.
const longest = 100 * 365 * 24 * time.Hour

// Schedule is a cron line in a time zone.
type Schedule struct {
	line *cron.SpecSchedule
	zone *time.Location
}

// Parse reads a line of five fields (minute, hour, day of month, month, day of week) and the name of a zone, such as
// Europe/Berlin. A line that names no day that ever comes is an error too.
func Parse(line, zone string) (Schedule, error) {
	if zone == "" || zone == "Local" {
		return Schedule{}, fmt.Errorf("time zone %q is none: name one such as Europe/Berlin or UTC", zone)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return Schedule{}, fmt.Errorf("there is no time zone %q: name one such as Europe/Berlin or UTC", zone)
	}
	if strings.ContainsAny(line, "=@") {
		return Schedule{}, fmt.Errorf("schedule %q is no cron line: give minute, hour, day of month, month and day of week",
			line)
	}
	parsed, err := fields.Parse(line)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q is no cron line: %w", line, err)
	}
	s := Schedule{line: parsed.(*cron.SpecSchedule), zone: location}
	s.line.Location = time.UTC
	if s.Next(time.Unix(0, 0)).IsZero() {
		return Schedule{}, fmt.Errorf("schedule %q names a day that never comes", line)
	}
	return s, nil
}

// Zone that the line is in.
func (s Schedule) Zone() *time.Location { return s.zone }

// Next returns the first time after the given one, in the zone of the schedule.
func (s Schedule) Next(after time.Time) time.Time {
	for wall := wallOf(after.In(s.zone)); ; {
		if wall = s.line.Next(wall); wall.IsZero() {
			return time.Time{}
		}
		// While the clocks show an hour for the second time, what the line names in it has been.
		if at := first(wall, s.zone); at.After(after) {
			return at
		}
	}
}

// Last returns the last n times after one time and up to another, in their order, and whether there are more before
// them. What it costs depends on n and on how uneven the line is, not on how long the span is.
func (s Schedule) Last(after, to time.Time, n int) (last []time.Time, more bool) {
	for span := time.Hour; ; span *= 8 {
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

// wallOf returns what the clocks show at t, as if that were UTC: a day there has no gap.
func wallOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// first returns when the clocks of a zone first show a time or, should they leave it out, a later one.
func first(wall time.Time, zone *time.Location) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(),
		zone)
	start, end := t.ZoneBounds()
	// In a gap t is on either side of it.
	switch shown := wallOf(t); {
	case shown.After(wall):
		return start
	case shown.Before(wall):
		return end
	case start.IsZero():
		return t
	}
	_, before := start.Add(-1).Zone()
	_, offset := t.Zone()
	if earlier := t.Add(time.Duration(offset-before) * time.Second); earlier.Before(start) {
		return earlier
	}
	return t
}
