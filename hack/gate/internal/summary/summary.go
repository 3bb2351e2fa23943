// SPDX-License-Identifier: Apache-2.0

// Package summary says how a run of the gate ended: for people as a table with what failed, for programs as JSON.
package summary

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/zeroinfra/hack/gate/internal/events"
)

// Passed and Failed are the results of a run and of a stage.
const (
	Passed = "passed"
	Failed = "failed"
)

const (
	// shownTests is how many failed tests are shown with their output; the others are named.
	shownTests = 6
	// logLines is how much of the log of a stage is shown that failed without a failed test.
	logLines = 40
	// lineLength is how much of a line is shown.
	lineLength = 300
)

// Summary is how a run ended.
type Summary struct {
	// Commit is the full hash that was tested; Dirty is true when files differed from it.
	Commit string `json:"commit"`
	Dirty  bool   `json:"dirty"`
	// Result is Passed only when every stage passed.
	Result string  `json:"result"`
	Stages []Stage `json:"stages"`
	// Failed and Flaky are the tests of all stages that failed, and that failed and passed when they were run again.
	Failed []Test `json:"failed"`
	Flaky  []Test `json:"flaky"`
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
}

// Test names a test and the file with its events.
type Test struct {
	Package string `json:"package"`
	Test    string `json:"test"`
	Log     string `json:"log"`
}

// Add adds a stage that ended with err, and its tests.
func (s *Summary) Add(stage Stage, tests events.Results, err error) {
	stage.Passed, stage.Failed, stage.Flaky, stage.Skipped = len(tests.Passed), len(tests.Failed), len(tests.Flaky), tests.Skipped
	stage.tests, stage.Result = tests, Passed
	if err != nil || stage.Failed > 0 {
		stage.Result = Failed
	}
	s.Stages = append(s.Stages, stage)
	for _, t := range tests.Failed {
		s.Failed = append(s.Failed, Test{t.Package, t.Name, t.Log})
	}
	for _, t := range tests.Flaky {
		s.Flaky = append(s.Flaky, Test{t.Package, t.Name, t.Log})
	}
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

// Print prints what failed and a table of stages. Its last line is "N passed, N failed".
func (s *Summary) Print(w io.Writer) {
	shown := 0
	for _, stage := range s.Stages {
		for _, t := range stage.tests.Failed {
			shown++
			fmt.Fprintf(w, "\nFAILED %s %s %s (%s)\n", stage.Name, t.Package, t.Name, t.Log)
			if shown <= shownTests {
				printLines(w, t.Output)
			}
		}
		if stage.Result == Failed && stage.Failed == 0 {
			fmt.Fprintf(w, "\nFAILED %s (%s)\n", stage.Name, stage.Log)
			printLines(w, tail(stage.Log))
		}
		for _, t := range stage.tests.Flaky {
			fmt.Fprintf(w, "\nFLAKY %s %s %s (%s)\n", stage.Name, t.Package, t.Name, t.Log)
		}
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "stage\tseconds\tpassed\tfailed\tflaky\tresult\t")
	var total Stage
	for _, stage := range s.Stages {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\t\n", stage.Name, stage.Seconds, stage.Passed, stage.Failed, stage.Flaky, stage.Result)
		total.Seconds += stage.Seconds
		total.Passed += stage.Passed + stage.Flaky
		total.Failed += stage.Failed
		total.Flaky += stage.Flaky
		if stage.Result == Failed && stage.Failed == 0 {
			total.Failed++ // The stage itself.
		}
	}
	fmt.Fprintf(table, "all\t%d\t%d\t%d\t%d\t%s\t\n", total.Seconds, total.Passed, total.Failed, total.Flaky, s.Result)
	_ = table.Flush() // Printing to a closed terminal is no failure of the run.
	fmt.Fprintf(w, "\n%d passed, %d failed\n", total.Passed, total.Failed)
}

func printLines(w io.Writer, lines []string) {
	for _, line := range lines {
		if len(line) > lineLength {
			line = line[:lineLength] + " …"
		}
		fmt.Fprintln(w, "    "+line)
	}
}

// tail returns the end of a file.
func tail(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return lines[max(0, len(lines)-logLines):]
}
