// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	table := New(map[string]Budget{"killed": {P95: 3 * time.Second}, "stopped": {P95: time.Second},
		"elected": {P95: time.Second, Weight: Aim}, "never tried": {}})
	if got := table.String(); got != "" || table.Missed() != nil {
		t.Errorf("without trials it says %q, %v", got, table.Missed())
	}
	// The longest of twenty is no part of the p95, the longest of nineteen is.
	for n := range 20 {
		trial := Trial{Gap: time.Second, Vacancy: time.Second / 2, Acknowledged: 10}
		if n == 7 {
			trial.Gap = time.Minute
		}
		table.Add("killed", trial)
		if n > 0 {
			table.Add("stopped", trial)
		}
	}
	table.Add("elected", Trial{Gap: 2 * time.Second, Acknowledged: 5})
	table.Add("lossy", Trial{Gap: time.Second, Acknowledged: 5, Lost: 2})
	want := []string{
		"stopped: the p95 of the gaps of 19 trials is 60.0 s, over the budget of 1.0 s",
		"lossy: 2 of 5 acknowledged writes are lost",
	}
	if got := table.Missed(); !slices.Equal(got, want) {
		t.Errorf("missed are %q, want %q", got, want)
	}
	var lines []string
	for line := range strings.Lines(table.String()) {
		lines = append(lines, fmt.Sprintf("%q", strings.Join(strings.Fields(line), " ")))
	}
	if got, want := strings.Join(lines, "\n"), strings.Join([]string{
		`"fault trials writes lost no writer p50 p95 max gap p50 p95 max budget"`,
		`"killed 20 200 0 0.5 s 0.5 s 0.5 s 1.0 s 1.0 s 60.0 s 3.0 s met"`,
		`"stopped 19 190 0 0.5 s 0.5 s 0.5 s 1.0 s 60.0 s 60.0 s 1.0 s MISSED"`,
		`"elected 1 5 0 0.0 s 0.0 s 0.0 s 2.0 s 2.0 s 2.0 s 1.0 s missed (an aim)"`,
		`"lossy 1 5 2 0.0 s 0.0 s 0.0 s 1.0 s 1.0 s 1.0 s -"`,
	}, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
