// SPDX-License-Identifier: Apache-2.0

// Package events reads what "go test -json" writes, as gotestsum and test2json keep it, and says which tests passed, failed and were
// flaky. The format is that of "go doc test2json".
package events

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// outputLines is how many of the last lines of a test that failed are kept.
const outputLines = 25

// Test is one test function that ran, or a package that failed outside of its tests.
type Test struct {
	// Package is the import path; Name is the test's, empty for a package that failed without a failed test.
	Package, Name string
	// Log is the file that the events were read from.
	Log string
	// Output is the end of what the test printed in its last failed attempt.
	Output []string
	// Seconds that the last attempt took.
	Seconds float64
}

// Results are the tests of one stage. Subtests count with the test that they are part of.
type Results struct {
	// Passed, Failed and Flaky are sorted by package and name. A flaky test failed and then passed when it was run again.
	Passed, Failed, Flaky []Test
	// Skipped is the number of tests that were skipped.
	Skipped int
}

// event is one line of the format.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// key names a test.
type key struct{ pkg, name string }

// outcome is what is known of a test so far.
type outcome struct {
	Test
	failures, passes int
	skipped          bool
	last             string
}

// Read reads all .json files of a folder. A folder that does not exist holds no tests.
func Read(folder string) (Results, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return Results{}, err
	}
	found := map[key]*outcome{}
	for _, file := range files {
		if err := read(file, found); err != nil {
			return Results{}, fmt.Errorf("cannot read the events in %q: %w", file, err)
		}
	}
	return judge(found), nil
}

func read(file string, found map[key]*outcome) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Package == "" {
			continue // Not every line is an event: a build error is printed as it is.
		}
		take(e, file, found)
	}
	return lines.Err()
}

// take adds one event to what is known.
func take(e event, file string, found map[key]*outcome) {
	name, _, isSub := strings.Cut(e.Test, "/")
	k := key{e.Package, name}
	o := found[k]
	if o == nil {
		o = &outcome{Test: Test{Package: e.Package, Name: name, Log: file}}
		found[k] = o
	}
	if e.Action == "output" {
		o.Output = append(o.Output, strings.TrimRight(e.Output, "\n"))
		if len(o.Output) > 4*outputLines {
			o.Output = slices.Clone(o.Output[len(o.Output)-outputLines:])
		}
		return
	}
	if isSub {
		return
	}
	switch e.Action {
	case "run", "start":
		if o.passes == 0 {
			o.Output = nil
		}
	case "pass":
		o.passes, o.last, o.Seconds = o.passes+1, e.Action, e.Elapsed
	case "fail":
		o.failures, o.last, o.Seconds, o.Log = o.failures+1, e.Action, e.Elapsed, file
	case "skip":
		o.skipped = true
	}
}

// judge sorts tests by how they ended. A test that began and never ended, since its process did, failed.
func judge(found map[key]*outcome) Results {
	var r Results
	failedIn := map[string]bool{}
	for k, o := range found {
		if k.name == "" {
			continue
		}
		o.Output = o.Output[max(0, len(o.Output)-outputLines):]
		switch {
		case o.skipped && o.failures == 0:
			r.Skipped++
		case o.last == "pass" && o.failures > 0:
			r.Flaky = append(r.Flaky, o.Test)
		case o.last == "pass":
			r.Passed = append(r.Passed, o.Test)
		default:
			failedIn[k.pkg] = true
			r.Failed = append(r.Failed, o.Test)
		}
	}
	for k, o := range found {
		if k.name == "" && o.last == "fail" && !failedIn[k.pkg] && !flakyIn(r.Flaky, k.pkg) {
			o.Output = o.Output[max(0, len(o.Output)-outputLines):]
			r.Failed = append(r.Failed, o.Test)
		}
	}
	for _, tests := range [][]Test{r.Passed, r.Failed, r.Flaky} {
		slices.SortFunc(tests, func(a, b Test) int {
			return strings.Compare(a.Package+" "+a.Name, b.Package+" "+b.Name)
		})
	}
	return r
}

func flakyIn(flaky []Test, pkg string) bool {
	return slices.ContainsFunc(flaky, func(t Test) bool { return t.Package == pkg })
}
