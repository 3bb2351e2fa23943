// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// StateFile, in the folder of the notes, says how it goes. The server reads it when it is asked.
const StateFile = "archive-state.json"

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

// State is how archiving goes, as of Time.
type State struct {
	Time time.Time `json:"time"`
	// Claim is the archive that was seen to be this system's.
	Claim string `json:"claim,omitempty"`
	// Reason of the last failure; empty when the last request succeeded. It does not change while the reason stays the same.
	Reason string `json:"reason,omitempty"`
	// FailingSince the first of the failures that nothing came in between of.
	FailingSince time.Time `json:"failingSince,omitzero"`
	// LastFile that was kept, and when.
	LastFile string    `json:"lastFile,omitempty"`
	LastTime time.Time `json:"lastTime,omitzero"`
	// Waiting files.
	Waiting int `json:"waiting"`
	// VolumeBytes and FreeBytes of the volume of the log.
	VolumeBytes int64 `json:"volumeBytes"`
	FreeBytes   int64 `json:"freeBytes"`
	// FullSeconds is the time until the volume is full when it goes on like this; 0 when nobody can tell.
	FullSeconds int64 `json:"fullSeconds,omitempty"`
	// Level of worry, as of Time. What has come to wait since then makes it worse: Alarm is the Archiver's.
	Level Level `json:"level"`
	Alarm int   `json:"alarm"`
	// Gap of the archive that nothing mends but a new copy of all data.
	Gap string `json:"gap,omitempty"`
	// Samples of what waited, the older one first.
	Samples [2]Sample `json:"samples"`
}

// Sample is what waited at a time.
type Sample struct {
	Time    time.Time `json:"time"`
	Waiting int       `json:"waiting"`
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
	// fewWaiting are no reason to worry: they are under way.
	fewWaiting = 2
)

// sample takes in what waits now, and says after which time the volume is full.
func (s *State) sample(now time.Time) {
	if now.Sub(s.Samples[1].Time) >= sampleEvery {
		s.Samples[0], s.Samples[1] = s.Samples[1], Sample{now, s.Waiting}
	}
	s.FullSeconds = 0
	before := s.Samples[0]
	if before.Time.IsZero() {
		before = s.Samples[1]
	}
	if took := now.Sub(before.Time); took >= sampleEvery/2 && s.Waiting > before.Waiting {
		perSecond := float64(s.Waiting-before.Waiting) * SegmentBytes / took.Seconds()
		s.FullSeconds = max(1, int64(float64(s.FreeBytes)/perSecond))
	}
}

// judge says how worrying it is: by the share of the volume that is free, in percent, and by the time until it is full. A level goes down only
// when it is clearly better.
func (s *State) judge(alarm int) {
	before := s.Level
	if s.Level = LevelNone; s.Waiting < fewWaiting && s.Reason == "" || s.VolumeBytes == 0 {
		return
	}
	share := 100 * float64(s.FreeBytes) / float64(s.VolumeBytes)
	below := func(percent float64, limit time.Duration, level Level) bool {
		factor := 1.0
		if before == level || before == LevelCritical {
			factor = relief
		}
		return share < percent*factor || s.FullSeconds > 0 && float64(s.FullSeconds) < limit.Seconds()*factor
	}
	switch {
	case below(criticalShare*float64(alarm), criticalTime, LevelCritical):
		s.Level = LevelCritical
	case below(float64(alarm), warningTime, LevelWarning):
		s.Level = LevelWarning
	}
}

// note says how a request went.
func (a *Archiver) note(state *State, f File, failed error) {
	now := time.Now().UTC()
	if failed == nil {
		state.Reason, state.FailingSince, state.LastFile, state.LastTime = "", time.Time{}, f.Name, now
	} else {
		if state.Reason == "" {
			state.FailingSince = now
		}
		state.Reason = oneLine(failed.Error())
	}
	a.count(state)
	if failed == nil && state.Waiting > 0 {
		// The server has not noted this one yet.
		state.Waiting--
	}
	a.conclude(state, now)
}

// count takes in how many files wait.
func (a *Archiver) count(state *State) {
	if waiting, err := a.Data.waiting(); err == nil {
		state.Waiting = len(waiting)
	}
}

// conclude says how worrying it is, by what is counted, and notes all.
func (a *Archiver) conclude(state *State, now time.Time) {
	var err error
	if state.VolumeBytes, state.FreeBytes, err = a.Data.room(); err != nil {
		a.Log.Warn("cannot see how full the volume of the log is", "problem", err.Error())
	}
	before := state.Level
	state.Time, state.Alarm = now, a.Alarm
	state.sample(now)
	state.judge(a.Alarm)
	if state.Level != before && state.Level != LevelNone {
		a.Log.Error("log waits for the archive, and its volume gets full: the server stops when it is; nothing that waits is ever dropped",
			"level", string(state.Level), "waiting", state.Waiting, "freeBytes", state.FreeBytes, "volumeBytes", state.VolumeBytes, "fullInSeconds", state.FullSeconds, "reason", state.Reason)
	}
	if err := a.write(StateFile, *state); err != nil {
		a.Log.Warn("cannot note how archiving goes", "problem", err.Error())
	}
}

// oneLine is a text as a report has it.
func oneLine(text string) string {
	const longest = 500
	text = strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}

// state is the last one; a new one where there is none.
func (a *Archiver) state() State {
	var s State
	text, err := os.ReadFile(filepath.Join(a.Notes, StateFile))
	if err != nil || json.Unmarshal(text, &s) != nil {
		return State{}
	}
	return s
}

// write replaces a file of the notes. It lives no longer than the pod, and nothing depends on it.
func (a *Archiver) write(name string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	path := filepath.Join(a.Notes, name)
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(text); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
