// SPDX-License-Identifier: Apache-2.0

// Package summary says how a run of the gate ended: for people as a table with what failed, for programs as JSON.
package summary

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeroinfra/hack/gate/internal/events"
)

// Passed and Failed are the results of a run, OK and Failed those of a stage: a search for "passed" finds a run that
// passed, and not a stage of one that failed.
const (
	Passed = "passed"
	Failed = "failed"
	OK     = "ok"
)

// Summary is how a run ended.
type Summary struct {
	// Commit is the full hash that was tested; Dirty is true when files differed from it.
	Commit string `json:"commit"`
	Dirty  bool   `json:"dirty"`
	// Result is Passed only when every stage is OK.
	Result string  `json:"result"`
	Stages []Stage `json:"stages"`
	// Failed and Flaky are the tests of all stages that failed, and that failed and passed when they were run again.
	Failed []Test `json:"failed"`
	Flaky  []Test `json:"flaky"`
	// NotRun are the stages that were not run, since one before them failed.
	NotRun []string `json:"not_run,omitempty"`
	// Root is the folder that relative paths of logs begin at.
	Root string `json:"-"`
}

// Stage is how one stage ended.
type Stage struct {
	Name    string `json:"name"`
	Seconds int    `json:"seconds"`
	Result  string `json:"result"`
	// Passed, Failed, Flaky and Skipped are numbers of tests.
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Flaky   int `json:"flaky"`
	Skipped int `json:"skipped"`
	// Log is the file with its output.
	Log string `json:"log"`

	tests events.Results
	err   error
}

// Test names a test and the file with the output of its failed attempts.
type Test struct {
	Package string `json:"package"`
	Test    string `json:"test"`
	Log     string `json:"log"`
}

// New returns the summary of a run that no stage has failed yet.
func New() *Summary {
	return &Summary{Result: Passed, Stages: []Stage{}, Failed: []Test{}, Flaky: []Test{}}
}

// Add adds a stage that ended with err, and its tests. It says whether the stage passed.
func (s *Summary) Add(stage Stage, tests events.Results, err error) bool {
	stage.Passed, stage.Failed, stage.Flaky, stage.Skipped = len(tests.Passed), len(tests.Failed), len(tests.Flaky),
		tests.Skipped
	stage.tests, stage.err, stage.Result = tests, err, OK
	if err != nil || stage.Failed > 0 {
		stage.Result, s.Result = Failed, Failed
	}
	s.Stages = append(s.Stages, stage)
	for _, t := range tests.Failed {
		s.Failed = append(s.Failed, Test{t.Package, t.Name, t.Log})
	}
	for _, t := range tests.Flaky {
		s.Flaky = append(s.Flaky, Test{t.Package, t.Name, t.Log})
	}
	return stage.Result == OK
}

// Write writes the summary as JSON, at once, so that a reader never sees half of it.
func (s *Summary) Write(path string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// tail returns the last n lines of a file.
func (s *Summary) tail(path string, n int) []string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Root, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}
