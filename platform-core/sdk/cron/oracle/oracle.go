// SPDX-License-Identifier: Apache-2.0

// Package oracle computes the times of cron lines by looking at each minute of the wall clock. It shares no code with
// package cron, and is for its tests and those of what builds on it.
package oracle

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Clock is what the clocks of a zone show at each minute.
type Clock struct {
	// minutes that the clocks show, or leave out, in order, with the moments at which they do.
	minutes []minute
}

// minute of the wall clock.
type minute struct {
	shown   time.Time
	moments []time.Time
	// change is the moment of the change of the clocks that leaves it out.
	change time.Time
}

// NewClock looks at each minute between two moments.
func NewClock(t testing.TB, zone string, begin, end time.Time) *Clock {
	t.Helper()
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	index := map[int64]int{}
	c := &Clock{}
	var last time.Time
	for at := begin; at.Before(end); at = at.Add(time.Minute) {
		there := at.In(location)
		shown := time.Date(there.Year(), there.Month(), there.Day(), there.Hour(), there.Minute(), 0, 0, time.UTC)
		if !last.IsZero() {
			for skipped := last.Add(time.Minute); skipped.Before(shown); skipped = skipped.Add(time.Minute) {
				if _, known := index[skipped.Unix()]; !known {
					c.minutes = append(c.minutes, minute{shown: skipped, change: at})
				}
			}
		}
		if i, known := index[shown.Unix()]; known {
			c.minutes[i].moments = append(c.minutes[i].moments, at)
		} else {
			index[shown.Unix()] = len(c.minutes)
			c.minutes = append(c.minutes, minute{shown: shown, moments: []time.Time{at}})
		}
		last = shown
	}
	return c
}

// Line is a cron line with the minutes that it names, and the seconds within each.
type Line struct {
	named   []minute
	seconds []time.Duration
}

// Line finds the times that a line of five or six fields names.
func (c *Clock) Line(line string) Line {
	if line == "@weekly" {
		line = "0 0 * * 0"
	}
	words := strings.Fields(line)
	l := Line{seconds: []time.Duration{0}}
	if len(words) == 6 {
		l.seconds = nil
		named := values(words[0], 0, 59)
		for second := range 60 {
			if named[second] {
				l.seconds = append(l.seconds, time.Duration(second)*time.Second)
			}
		}
		words = words[1:]
	}
	minutes, hours := values(words[0], 0, 59), values(words[1], 0, 23)
	days, months, weekdays := values(words[2], 1, 31), values(words[3], 1, 12), values(words[4], 0, 6)
	for _, m := range c.minutes {
		day, weekday := days[m.shown.Day()], weekdays[int(m.shown.Weekday())]
		either := day && weekday
		if words[2] != "*" && words[4] != "*" {
			either = day || weekday
		}
		if either && minutes[m.shown.Minute()] && hours[m.shown.Hour()] && months[int(m.shown.Month())] {
			l.named = append(l.named, m)
		}
	}
	return l
}

// Times of a line under the policies for gaps and overlaps.
func (l Line) Times(gap, overlap string) []time.Time {
	var times []time.Time
	for _, m := range l.named {
		moments := m.moments
		switch {
		case len(moments) == 0:
			if gap == "Shift" {
				times = append(times, m.change)
			}
		case overlap == "First":
			moments = moments[:1]
		case overlap == "Last":
			moments = moments[len(moments)-1:]
		}
		for _, at := range moments {
			for _, second := range l.seconds {
				times = append(times, at.Add(second))
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal)
}

// values are those of a field that its word has.
func values(word string, least, most int) map[int]bool {
	all := map[int]bool{}
	for value := least; value <= most; value++ {
		all[value] = has(word, value, least, most)
	}
	return all
}

var days = map[string]int{"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}

// has says whether a field has a value.
func has(word string, value, least, most int) bool {
	for part := range strings.SplitSeq(word, ",") {
		span, every, stepped := strings.Cut(part, "/")
		from, to := least, most
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			from = read(first)
			to = from
			if ranged {
				to = read(last)
			}
		}
		step := 1
		if stepped {
			step = read(every)
		}
		if value >= from && value <= to && (value-from)%step == 0 {
			return true
		}
	}
	return false
}

func read(text string) int {
	if day, is := days[text]; is {
		return day
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}
