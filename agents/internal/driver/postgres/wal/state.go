// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zeroinfra/agents/internal/volumealarm"
)

// StateFile, in the folder of the notes, says how it goes. The server reads it when it is asked.
const StateFile = "archive-state.json"

// State is how archiving goes, as of Time.
type State struct {
	Time time.Time `json:"time"`
	// Claim is the archive that was seen to be this system's.
	Claim string `json:"claim,omitempty"`
	// Reason of the last failure; empty when the last request succeeded. It does not change while the reason stays the
	// same.
	Reason string `json:"reason,omitempty"`
	// FailingSince the first of the failures that nothing came in between of.
	FailingSince time.Time `json:"failingSince,omitzero"`
	// LastFile that was kept, and when.
	LastFile string    `json:"lastFile,omitempty"`
	LastTime time.Time `json:"lastTime,omitzero"`
	// Waiting files.
	Waiting int `json:"waiting"`
	// Volume of the log, as of Time. What has come to wait since then makes it worse.
	volumealarm.Volume
	// Gap of the archive that nothing mends but a new copy of all data.
	Gap string `json:"gap,omitempty"`
}

// fewWaiting are no reason to worry: they are under way.
const fewWaiting = 2

// judge says how worrying it is that files wait.
func (s *State) judge(now time.Time) {
	s.Sample(now, int64(s.Waiting)*SegmentBytes)
	if s.Waiting < fewWaiting && s.Reason == "" {
		s.Level = volumealarm.LevelNone
		return
	}
	s.Judge()
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
	if err := state.Measure(a.Data.path("pg_wal")); err != nil {
		a.Log.Warn("cannot see how full the volume of the log is", "problem", err.Error())
	}
	before := state.Level
	state.Time, state.Alarm = now, a.Alarm
	state.judge(now)
	if state.Level != before && state.Level != volumealarm.LevelNone {
		a.Log.Error("log waits for the archive, and its volume gets full: the server stops when it is; nothing that waits "+
			"is ever dropped",
			"level", string(state.Level), "waiting", state.Waiting, "freeBytes", state.FreeBytes, "volumeBytes",
			state.VolumeBytes, "fullInSeconds", state.FullSeconds, "reason", state.Reason)
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
