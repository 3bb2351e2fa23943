// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Record is a file of trials, a line of JSON for each, so that the rounds of several runs come to one table. It is safe
// for concurrent use. A nil one keeps nothing.
type Record struct {
	mu   sync.Mutex
	file *os.File
	// version of what is tried.
	version string
	err     error
}

// entry is a line of a Record.
type entry struct {
	Fault string `json:"fault"`
	// Side of a comparison; empty for a fault that was tried alone.
	Side Side `json:"side,omitempty"`
	// Gap and Vacancy are in seconds.
	Gap          float64 `json:"gap"`
	Vacancy      float64 `json:"vacancy"`
	Acknowledged int     `json:"acknowledged"`
	Lost         int     `json:"lost"`
	Version      string  `json:"version,omitempty"`
}

// Resume adds the trials that a file has to a table, and those of both sides to a comparison, and returns the record
// that further ones of a version are written to. A file that is not there begins empty.
func Resume(path, version string, table *Table, comparison *Comparison) (*Record, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot open the record of trials: %w", err)
	}
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		var e entry
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&e); err != nil || e.Fault == "" {
			return nil, errors.Join(fmt.Errorf("%s:%d is no trial: take the line out", path, number), err, file.Close())
		}
		trial := Trial{Gap: duration(e.Gap), Vacancy: duration(e.Vacancy), Acknowledged: e.Acknowledged, Lost: e.Lost}
		switch {
		case e.Side == "":
			table.Add(e.Fault, trial)
		case comparison.sides[e.Side] == nil:
			return nil, errors.Join(fmt.Errorf("%s:%d is of the side %q, which there is none of: take the line out", path,
				number, e.Side), file.Close())
		default:
			comparison.Add(e.Side, e.Fault, trial)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot read the record of trials: %w", err), file.Close())
	}
	return &Record{file: file, version: version}, nil
}

func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
}

// Add writes a trial down; side is empty for a fault that was tried alone.
func (r *Record) Add(side Side, name string, trial Trial) {
	if r == nil {
		return
	}
	line, err := json.Marshal(entry{Fault: name, Side: side, Gap: trial.Gap.Round(time.Millisecond).Seconds(),
		Vacancy:      trial.Vacancy.Round(time.Millisecond).Seconds(),
		Acknowledged: trial.Acknowledged, Lost: trial.Lost, Version: r.version})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	r.err = errors.Join(r.err, err)
}

// Close ends it. The error says which trials are not in the file.
func (r *Record) Close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.err, r.file.Close()); err != nil {
		return fmt.Errorf("not all trials are on record: %w", err)
	}
	return nil
}
