// SPDX-License-Identifier: Apache-2.0

// Package events reads what "go test -json" writes, as gotestsum and test2json keep it, and says which tests passed,
// failed and were flaky. The format is that of "go doc test2json".
package events

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxLines is how many lines of an attempt of a test are kept: the last ones.
const maxLines = 5000

// Test is one test function that ran, or a package that failed outside of its tests.
type Test struct {
	// Package is the import path; Name is the test's, empty for a package that failed without a failed test.
	Package, Name string
	// Log is the file with the output of the failed attempts, or with the events until Keep wrote that.
	Log string
	// Output is what the failed attempts printed, without what go test says of its own and without subtests that passed.
	Output []string
	// Seconds that the last attempt took.
	Seconds float64

	full []string
}

// Results are the tests of one stage. Subtests count with the test that they are part of.
type Results struct {
	// Passed, Failed and Flaky are sorted by package and name. A flaky test failed and then passed when it was run again.
	Passed, Failed, Flaky []Test
	// Skipped is the number of tests that were skipped.
	Skipped int
}

// Read reads all .json files of a folder and of those in it. A folder that does not exist holds no tests.
func Read(folder string) (Results, error) {
	var files []string
	for _, pattern := range []string{"*.json", "*/*.json"} {
		some, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return Results{}, err
		}
		files = append(files, some...)
	}
	f := &found{tests: map[key]*outcome{}, builds: map[string][]string{}}
	for _, file := range files {
		if err := f.read(file); err != nil {
			return Results{}, fmt.Errorf("cannot read the events in %q: %w", file, err)
		}
	}
	return f.judge(), nil
}

// Keep writes the whole output of each failed and flaky test to a file of its own in a folder, and names that as its
// log.
func (r Results) Keep(folder string) error {
	for _, tests := range [][]Test{r.Failed, r.Flaky} {
		for i := range tests {
			t := &tests[i]
			path := filepath.Join(folder, fileName(t.Package, t.Name)+".log")
			if err := os.WriteFile(path, []byte(strings.Join(t.full, "\n")+"\n"), 0o644); err != nil {
				return fmt.Errorf("cannot keep the output of %s %s: %w", t.Package, t.Name, err)
			}
			t.Log = path
		}
	}
	return nil
}

// fileName makes a name for a file of a package without its host and owner, and a test.
func fileName(pkg, test string) string {
	elements := strings.Split(pkg, "/")
	if len(elements) > 2 && strings.Contains(elements[0], ".") {
		elements = elements[2:]
	}
	name := strings.Join(elements, "-")
	if test != "" {
		name += "." + test
	}
	return name
}

// event is one line of the format.
type event struct {
	Action, Package, Test, Output string
	// ImportPath is set in the output of the compiler, and FailedBuild names that in the end of a package.
	ImportPath, FailedBuild string
	Elapsed                 float64
}

// key names a test.
type key struct{ pkg, name string }

// line is one line of output with the full name of the test or subtest that printed it.
type line struct{ test, text string }

// outcome is what is known of a test so far.
type outcome struct {
	Test
	failures, passes int
	skipped          bool
	last             string
	// current are the lines of the attempt that runs, and passedSubs its subtests that passed.
	current    []line
	passedSubs map[string]bool
}

// found is what the files hold.
type found struct {
	tests  map[key]*outcome
	builds map[string][]string
}

func (f *found) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // Not every line is an event: the last one may be cut off.
		}
		f.take(e, path)
	}
	return lines.Err()
}

// take adds one event to what is known.
func (f *found) take(e event, path string) {
	text := strings.TrimRight(e.Output, "\n")
	if e.Action == "build-output" {
		f.builds[e.ImportPath] = append(f.builds[e.ImportPath], text)
		return
	}
	if e.Package == "" {
		return
	}
	name, _, isSub := strings.Cut(e.Test, "/")
	k := key{e.Package, name}
	o := f.tests[k]
	if o == nil {
		o = &outcome{Test: Test{Package: e.Package, Name: name, Log: path}, passedSubs: map[string]bool{}}
		f.tests[k] = o
	}
	switch {
	case e.Action == "output":
		o.print(line{e.Test, text})
	case isSub:
		o.passedSubs[e.Test] = e.Action == "pass" || e.Action == "skip"
	default:
		o.end(e, path, f.builds[e.FailedBuild])
	}
}

// print adds a line to the attempt that runs.
func (o *outcome) print(l line) {
	o.current = append(o.current, l)
	if len(o.current) > 2*maxLines {
		o.current = append([]line(nil), o.current[len(o.current)-maxLines:]...)
	}
}

// end begins or ends an attempt. What the compiler said is part of the attempt that it failed.
func (o *outcome) end(e event, path string, build []string) {
	switch e.Action {
	case "run", "start":
		o.current, o.passedSubs = nil, map[string]bool{}
	case "pass":
		o.passes, o.last, o.Seconds, o.current = o.passes+1, e.Action, e.Elapsed, nil
	case "fail":
		o.failures, o.last, o.Seconds, o.Log = o.failures+1, e.Action, e.Elapsed, path
		for _, text := range build {
			o.print(line{"", text})
		}
		o.keep()
	case "skip":
		o.skipped, o.last = true, e.Action
	}
}

// keep takes the lines of the attempt that runs over as those of a failed one.
func (o *outcome) keep() {
	for _, l := range o.current[max(0, len(o.current)-maxLines):] {
		o.full = append(o.full, l.text)
		if !o.passedSubs[l.test] && !isChatter(l.text) {
			o.Output = append(o.Output, l.text)
		}
	}
	o.current = nil
}

// isChatter says whether go test printed a line to tell which test prints.
func isChatter(text string) bool {
	for _, prefix := range []string{"=== RUN ", "=== PAUSE", "=== CONT", "=== NAME"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}
