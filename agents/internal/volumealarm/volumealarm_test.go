// SPDX-License-Identifier: Apache-2.0

package volumealarm

import (
	"testing"
	"time"
)

func TestAVolumeThatFillsUp(t *testing.T) {
	const gib, mib = 1 << 30, 1 << 20
	now := time.Now()
	for _, c := range []struct {
		what   string
		v      Volume
		before Sample
		bytes  int64
		want   Level
	}{
		{"much room", Volume{VolumeBytes: 10 * gib, FreeBytes: 8 * gib}, Sample{}, 160 * mib, LevelNone},
		{"little room", Volume{VolumeBytes: 10 * gib, FreeBytes: 2 * gib}, Sample{}, 160 * mib, LevelWarning},
		{"hardly any", Volume{VolumeBytes: 10 * gib, FreeBytes: gib / 2}, Sample{}, 16 * mib, LevelCritical},
		{"full within hours", Volume{VolumeBytes: 10 * gib, FreeBytes: 8 * gib}, Sample{now.Add(-2 * time.Minute), 160 * mib},
			320 * mib, LevelWarning},
		{"full within minutes", Volume{VolumeBytes: 10 * gib, FreeBytes: 8 * gib},
			Sample{now.Add(-2 * time.Minute), 160 * mib}, 3200 * mib, LevelCritical},
		{"it gets less", Volume{VolumeBytes: 10 * gib, FreeBytes: 8 * gib}, Sample{now.Add(-2 * time.Minute), 3300 * mib},
			3200 * mib, LevelNone},
		{"a bit better than before", Volume{VolumeBytes: 10 * gib, FreeBytes: 28 * gib / 10, Level: LevelWarning}, Sample{},
			160 * mib, LevelWarning},
		{"clearly better", Volume{VolumeBytes: 10 * gib, FreeBytes: 31 * gib / 10, Level: LevelWarning}, Sample{}, 160 * mib,
			LevelNone},
		{"nobody knows how large it is", Volume{Level: LevelWarning}, Sample{}, 160 * mib, LevelNone},
	} {
		c.v.Alarm, c.v.Samples = DefaultPercent, [2]Sample{c.before, {now, c.bytes}}
		c.v.Sample(now, c.bytes)
		if c.v.Judge(); c.v.Level != c.want {
			t.Errorf("%s: it is %q with %d s to go", c.what, c.v.Level, c.v.FullSeconds)
		}
	}
	var v Volume
	if err := v.Measure(t.TempDir()); err != nil || v.VolumeBytes == 0 || v.FreeBytes > v.VolumeBytes {
		t.Errorf("got %+v, %v", v, err)
	}
}
