// SPDX-License-Identifier: Apache-2.0

// Package oracle finds the times of cron lines by looking at every minute. It shares no code with package schedule,
// whose tests, and those of what builds on it, it serves.
package oracle

import (
	"strconv"
	"strings"
	"time"
)

// walker knows the times of a line by the numbers that each field allows, and nothing of zones.
type walker struct {
	allowed [5][60]bool
	// restricted says which of day of month and day of week are no star: when both are, either will do.
	restricted [5]bool
}

func newWalker(line string) walker {
	w := walker{}
	limits := [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	for i, field := range strings.Fields(line) {
		w.restricted[i] = !strings.HasPrefix(field, "*")
		for part := range strings.SplitSeq(field, ",") {
			span, step, stepped := strings.Cut(part, "/")
			low, high, by := limits[i][0], limits[i][1], 1
			if span != "*" {
				from, to, ranged := strings.Cut(span, "-")
				low, _ = strconv.Atoi(from)
				if ranged {
					high, _ = strconv.Atoi(to)
				} else if !stepped {
					high = low
				}
			}
			if stepped {
				by, _ = strconv.Atoi(step)
			}
			for n := low; n <= high; n += by {
				w.allowed[i][n] = true
			}
		}
	}
	return w
}

func (w *walker) matches(wall time.Time) bool {
	if !w.allowed[0][wall.Minute()] || !w.allowed[1][wall.Hour()] || !w.allowed[3][wall.Month()] {
		return false
	}
	dom, dow := w.allowed[2][wall.Day()], w.allowed[4][wall.Weekday()]
	if w.restricted[2] && w.restricted[4] {
		return dom || dow
	}
	return dom && dow
}

// Walk looks at every minute between two times and returns for each line when it comes.
func Walk(zone *time.Location, from, to time.Time, lines []string) [][]time.Time {
	walkers, found := make([]walker, len(lines)), make([][]time.Time, len(lines))
	for i, line := range lines {
		walkers[i] = newWalker(line)
	}
	show := func(t time.Time) time.Time {
		_, offset := t.In(zone).Zone()
		return t.UTC().Add(time.Duration(offset) * time.Second)
	}
	seen := show(from)
	for t := from.Add(time.Minute); t.Before(to); t = t.Add(time.Minute) {
		// What the clocks leave out comes now; what they show again does not.
		for shown := show(t); seen.Before(shown); {
			seen = seen.Add(time.Minute)
			for i := range walkers {
				if walkers[i].matches(seen) && (len(found[i]) == 0 || found[i][len(found[i])-1] != t) {
					found[i] = append(found[i], t)
				}
			}
		}
	}
	return found
}
