// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/zeroinfra/hack/gate/internal/events"
)

const (
	// screen is how many lines Print writes at most: as many as one looks through.
	screen = 150
	// lineLength is how much of a line of output is shown.
	lineLength = 240
	// testLines and stageLines are the lines shown of a failed test, and of a stage that failed without a failed test.
	testLines, stageLines = 25, 40
	// shownFailures is how many failures are shown with their lines; more are named, up to namedFailures.
	shownFailures, namedFailures = 8, 15
	// namedFlaky and namedSlow are how many flaky and slow tests are named.
	namedFlaky, namedSlow = 15, 5
	// slow is from how many seconds on a test is named as slow.
	slow = 10
	// owner begins the import path of each package of the suite.
	owner = "github.com/zeroinfra/"
)

// failure is one thing to mend.
type failure struct {
	title string
	lines []string
	// most is how many lines are shown at most.
	most int
}

// Print prints a table of stages, and what failed in at most 150 lines. Its last line is "N passed, N failed".
func (s *Summary) Print(w io.Writer) {
	var out bytes.Buffer
	s.printTable(&out)
	s.printSlow(&out)
	s.printFlaky(&out)
	printFailures(&out, s.failures(), screen-bytes.Count(out.Bytes(), []byte("\n"))-2)
	total := s.total()
	fmt.Fprintf(&out, "\n%d passed, %d failed\n", total.Passed, total.Failed)
	_, _ = out.WriteTo(w) // Printing to a closed terminal is no failure of the run.
}

// total sums the stages up. A flaky test has passed. A stage that failed without a failed test counts as one failure.
func (s *Summary) total() Stage {
	var total Stage
	for _, stage := range s.Stages {
		total.Seconds += stage.Seconds
		total.Passed += stage.Passed + stage.Flaky
		total.Failed += stage.Failed
		total.Flaky += stage.Flaky
		total.Skipped += stage.Skipped
		if stage.Result == Failed && stage.Failed == 0 {
			total.Failed++
		}
	}
	return total
}

func (s *Summary) printTable(w io.Writer) {
	commit := "commit " + s.Commit[:min(12, len(s.Commit))]
	if s.Dirty {
		commit += " with changes"
	}
	fmt.Fprintf(w, "\n=== %s: %s\n\n", commit, s.Result)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "stage\tseconds\tpassed\tfailed\tflaky\tskipped\tresult\t")
	row := func(st Stage, name, result string) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t\n", name, st.Seconds, st.Passed, st.Failed, st.Flaky, st.Skipped,
			result)
	}
	for _, stage := range s.Stages {
		row(stage, stage.Name, stage.Result)
	}
	for _, name := range s.NotRun {
		fmt.Fprintf(table, "%s\t-\t-\t-\t-\t-\tnot run\t\n", name)
	}
	row(s.total(), "all", s.Result)
	_ = table.Flush() // It writes to memory.
}

func (s *Summary) printSlow(w io.Writer) {
	var results []events.Results
	for _, stage := range s.Stages {
		results = append(results, stage.tests)
	}
	var names []string
	for _, t := range events.Slowest(namedSlow, results...) {
		if t.Seconds >= slow {
			names = append(names, fmt.Sprintf("  %4.0f s  %s", t.Seconds, nameOf(t)))
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "\nThe slowest tests:\n%s\n", strings.Join(names, "\n"))
	}
}

func (s *Summary) printFlaky(w io.Writer) {
	if len(s.Flaky) > 0 {
		fmt.Fprintln(w)
	}
	named := 0
	for _, stage := range s.Stages {
		for _, t := range stage.tests.Flaky {
			if named++; named <= namedFlaky {
				fmt.Fprintf(w, "FLAKY %s: %s (%s)\n", stage.Name, nameOf(t), t.Log)
			}
		}
	}
	if named > namedFlaky {
		fmt.Fprintf(w, "and %d more that are flaky: the summary names them\n", named-namedFlaky)
	}
}

// failures returns what failed, by stage.
func (s *Summary) failures() []failure {
	var all []failure
	for _, stage := range s.Stages {
		for _, t := range stage.tests.Failed {
			all = append(all, failure{fmt.Sprintf("FAILED %s: %s (%s)", stage.Name, nameOf(t), t.Log), t.Output, testLines})
		}
		if stage.Result == Failed && stage.Failed == 0 {
			title := fmt.Sprintf("FAILED %s (%s)", stage.Name, stage.Log)
			if stage.err != nil {
				title = fmt.Sprintf("FAILED %s: %s (%s)", stage.Name, strings.ReplaceAll(stage.err.Error(), "\n", "; "), stage.Log)
			}
			all = append(all, failure{title, s.tail(stage.Log, stageLines), stageLines})
		}
	}
	return all
}

// printFailures shares room lines between the failures.
func printFailures(w io.Writer, all []failure, room int) {
	shown := min(len(all), shownFailures)
	others := all[shown:]
	if len(others) > 0 {
		room -= min(len(others), namedFailures) + 2
	}
	for i, f := range all[:shown] {
		// Each has an empty line and a title before its lines. What one leaves of its share, the next ones get.
		share := max(3, room/(shown-i)-2)
		lines := f.lines[max(0, len(f.lines)-min(f.most, share)):]
		room -= len(lines) + 2
		fmt.Fprintf(w, "\n%s\n", f.title)
		for _, text := range lines {
			fmt.Fprintln(w, "    "+cut(text))
		}
	}
	if len(others) == 0 {
		return
	}
	fmt.Fprintln(w)
	for _, f := range others[:min(len(others), namedFailures)] {
		fmt.Fprintln(w, f.title)
	}
	if more := len(others) - namedFailures; more > 0 {
		fmt.Fprintf(w, "and %d more that failed: the summary names them\n", more)
	}
}

func nameOf(t events.Test) string {
	return strings.TrimSpace(strings.TrimPrefix(t.Package, owner) + " " + t.Name)
}

// cut shortens a line and takes what would move the cursor out of it.
func cut(text string) string {
	text = text[strings.LastIndexByte(text, '\r')+1:]
	if len(text) > lineLength {
		return strings.ToValidUTF8(text[:lineLength], "") + " …"
	}
	return text
}
