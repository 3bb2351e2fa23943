// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/volumealarm"
)

// Files that are under way are no reason to worry, however full the volume is.
func TestWarning(t *testing.T) {
	const gib = 1 << 30
	for what, c := range map[string]struct {
		waiting int
		reason  string
		want    volumealarm.Level
	}{
		"all is well":   {0, "", volumealarm.LevelNone},
		"one is on way": {1, "", volumealarm.LevelNone},
		"one fails":     {1, "x", volumealarm.LevelCritical},
		"many wait":     {10, "", volumealarm.LevelCritical},
	} {
		s := State{Volume: volumealarm.Volume{VolumeBytes: 10 * gib, FreeBytes: gib / 2, Alarm: volumealarm.DefaultPercent},
			Waiting: c.waiting, Reason: c.reason}
		if s.judge(time.Now()); s.Level != c.want {
			t.Errorf("%s: it is %q", what, s.Level)
		}
	}
}
