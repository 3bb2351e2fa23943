// SPDX-License-Identifier: Apache-2.0

// Package schedule reads the cron lines of instances: when a scheduled Operation is due, and when a maintenance window
// opens. Each time that a line names comes once, also when the clocks are changed.
package schedule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/sdk/cron"
)

// fields of a line: minute, hour, day of month, month and day of week.
const fields = 5

// policy of all lines: what the clocks leave out comes when they are put forward, and what they show twice the first
// time.
var policy = cron.Policy{Gap: cron.GapShift, Overlap: cron.OverlapFirst}

// Parse reads a line of five fields (minute, hour, day of month, month, day of week) and the name of a zone, such as
// Europe/Berlin. Seconds, H and names such as @daily are errors, and so is a line that names no day that ever comes.
func Parse(line, zone string) (cron.Schedule, error) {
	words := strings.Fields(line)
	spread := slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, "H") })
	if len(words) != fields || spread || strings.ContainsAny(line, "=@") {
		return cron.Schedule{}, fmt.Errorf(
			"schedule %q is not valid: give minute, hour, day of month, month and day of week", line)
	}
	return cron.Parse([]string{line}, zone, policy, "")
}
