// SPDX-License-Identifier: Apache-2.0

// Package volumealarm says how soon the volume of a database is full of log that waits for its archive.
package volumealarm

import (
	"syscall"
	"time"
)

// Level of worry about log that waits.
type Level string

// Levels.
const (
	// LevelNone: there is room for what waits.
	LevelNone Level = ""
	// LevelWarning: the volume will be full within hours, or has little room.
	LevelWarning Level = "Warning"
	// LevelCritical: within minutes, or has hardly any. The server stops when it is full.
	LevelCritical Level = "Critical"
)

// DefaultPercent of free space that is little.
const DefaultPercent = 25

// Volume that log waits on.
type Volume struct {
	// VolumeBytes and FreeBytes of the volume.
	VolumeBytes int64 `json:"volumeBytes"`
	FreeBytes   int64 `json:"freeBytes"`
	// FullSeconds is the time until it is full when it goes on like this; 0 when nobody can tell.
	FullSeconds int64 `json:"fullSeconds,omitempty"`
	// Level of worry. Alarm is the percentage of free space that is little.
	Level Level `json:"level"`
	Alarm int   `json:"alarm"`
	// Samples of what waited, the older one first.
	Samples [2]Sample `json:"samples"`
}

// Sample is what waited at a time.
type Sample struct {
	Time  time.Time `json:"time"`
	Bytes int64     `json:"bytes"`
}

const (
	// sampleEvery is the time between samples: the rate is over one to two of it.
	sampleEvery = time.Minute
	// Times until the volume is full.
	warningTime, criticalTime = 2 * time.Hour, 15 * time.Minute
	// criticalShare is that of the share for a warning.
	criticalShare = 0.4
	// relief is by how much it has to be better before a level goes down.
	relief = 1.2
)

// Measure takes in how large the volume of a folder is, and how much of it is free.
func (v *Volume) Measure(folder string) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return err
	}
	v.VolumeBytes, v.FreeBytes = int64(stat.Blocks)*stat.Bsize, int64(stat.Bavail)*stat.Bsize
	return nil
}

// Sample takes in how many bytes wait now, and says after which time the volume is full.
func (v *Volume) Sample(now time.Time, bytes int64) {
	if now.Sub(v.Samples[1].Time) >= sampleEvery {
		v.Samples[0], v.Samples[1] = v.Samples[1], Sample{now, bytes}
	}
	v.FullSeconds = 0
	before := v.Samples[0]
	if before.Time.IsZero() {
		before = v.Samples[1]
	}
	if took := now.Sub(before.Time); took >= sampleEvery/2 && bytes > before.Bytes {
		perSecond := float64(bytes-before.Bytes) / took.Seconds()
		v.FullSeconds = max(1, int64(float64(v.FreeBytes)/perSecond))
	}
}

// Judge says how worrying it is that log waits: by the share of the volume that is free, and by the time until it is
// full. A level goes down only when it is clearly better.
func (v *Volume) Judge() {
	before := v.Level
	if v.Level = LevelNone; v.VolumeBytes == 0 {
		return
	}
	share := 100 * float64(v.FreeBytes) / float64(v.VolumeBytes)
	below := func(percent float64, limit time.Duration, level Level) bool {
		factor := 1.0
		if before == level || before == LevelCritical {
			factor = relief
		}
		return share < percent*factor || v.FullSeconds > 0 && float64(v.FullSeconds) < limit.Seconds()*factor
	}
	switch {
	case below(criticalShare*float64(v.Alarm), criticalTime, LevelCritical):
		v.Level = LevelCritical
	case below(float64(v.Alarm), warningTime, LevelWarning):
		v.Level = LevelWarning
	}
}
