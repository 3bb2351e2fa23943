// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"strings"
	"testing"
	"time"
)

func TestComparison(t *testing.T) {
	c := NewComparison()
	if got := c.String(); got != "" {
		t.Errorf("without trials it says %q", got)
	}
	for n := range 3 {
		c.Add(Ours, "killed", Trial{Gap: time.Duration(n+1) * time.Second, Acknowledged: 10})
		c.Add(Bare, "killed", Trial{Gap: time.Duration(n+2) * time.Second, Acknowledged: 20, Lost: n})
	}
	c.Add(Ours, "deleted", Trial{Gap: time.Second, Acknowledged: 10})
	c.Add(Bare, "deleted", Trial{Acknowledged: 10})
	c.Add(Ours, "on one side", Trial{Gap: time.Second})
	c.Add(Bare, "on the other side", Trial{Gap: time.Second})
	var lines []string
	for line := range strings.Lines(c.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"fault trials lost ours: gap p50 p95 max trials lost bare: gap p50 p95 max ours / bare p50 p95 max",
		"killed 3 0 of 30 2.0 s 3.0 s 3.0 s 3 3 of 60 3.0 s 4.0 s 4.0 s 0.67 0.75 0.75",
		"deleted 1 0 of 10 1.0 s 1.0 s 1.0 s 1 0 of 10 0.0 s 0.0 s 0.0 s - - -",
	}
	if got, want := strings.Join(lines, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
