// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/volumealarm"
)

const (
	// fewWaiting logs are no reason to worry: they are under way.
	fewWaiting = 2
	// tellEvery is how soon the metrics are told of a volume that gets fuller, and of nothing else.
	tellEvery = time.Minute
)

// tell has the metrics say how a pass went, and judges how soon the volume is full of logs that wait.
func (a *Archiver) tell(ctx context.Context, d *mysql.Driver, logs mysql.Logs, now time.Time, failed error) {
	level := a.volume.Level
	waiting, bytes := a.waiting(logs)
	if err := a.volume.Measure(filepath.Dir(logs.Base)); err != nil {
		a.Log.Warn("cannot see how full the volume is", "error", err)
	}
	a.volume.Sample(now, bytes)
	if waiting < fewWaiting && failed == nil {
		a.volume.Level = volumealarm.LevelNone
	} else {
		a.volume.Judge()
	}
	if a.volume.Level != level && a.volume.Level != volumealarm.LevelNone {
		a.Log.Error("logs wait for the archive, and their volume gets full", "level", string(a.volume.Level), "waiting",
			waiting,
			"freeBytes", a.volume.FreeBytes, "volumeBytes", a.volume.VolumeBytes, "fullInSeconds", a.volume.FullSeconds)
	}
	is := a.counted
	if is.Failing = failed != nil; failed != nil {
		is.Failures++
	}
	is.Waiting = waiting
	a.counted = is
	if is == a.told && now.Sub(a.toldAt) < tellEvery {
		return
	}
	a.told, a.toldAt = is, now
	is.FreeBytes, is.VolumeBytes, is.FullSeconds = a.volume.FreeBytes, a.volume.VolumeBytes, a.volume.FullSeconds
	if err := d.NoteArchiving(ctx, is); err != nil {
		// That of a server which takes no writes is in the condition Writable.
		a.Log.Warn("the metrics do not say how archiving goes", "error", err)
	}
}

// waiting are the closed logs with transactions that the archive has not, and their bytes; -1 while nobody knows what
// it has.
func (a *Archiver) waiting(logs mysql.Logs) (count, bytes int64) {
	switch {
	case a.kept == nil:
		return -1, 0
	case slices.Equal(a.names, logs.Names):
		return 0, 0
	}
	heads, err := headsOf(logs)
	if err != nil {
		return -1, 0
	}
	for i := range max(0, len(heads)-1) {
		if heads[i+1].Previous.Minus(heads[i].Previous).Within(a.kept) {
			continue
		}
		count++
		if file, err := os.Stat(filepath.Join(filepath.Dir(logs.Base), logs.Names[i])); err == nil {
			bytes += file.Size()
		}
	}
	return count, bytes
}

// Level says how worrying it is that logs wait.
func (a *Archiver) Level() volumealarm.Level { return a.volume.Level }
