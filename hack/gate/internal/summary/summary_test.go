// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/gate/internal/events"
)

func tests(names ...string) []events.Test {
	var all []events.Test
	for _, name := range names {
		all = append(all, events.Test{Package: "p", Name: name, Log: "p.json", Output: []string{"it said why"}})
	}
	return all
}

func TestPrintShowsWhatFailed(t *testing.T) {
	log := filepath.Join(t.TempDir(), "lint.log")
	if err := os.WriteFile(log, []byte("a.go:1: too long\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := New()
	s.Add(Stage{Name: "lint", Seconds: 3, Log: log}, events.Results{}, errors.New("exit status 1"))
	s.Add(Stage{Name: "test-unit", Seconds: 60}, events.Results{Passed: tests("TestA", "TestB"), Failed: tests("TestC")},
		errors.New("exit status 1"))
	s.Add(Stage{Name: "test-smoke", Seconds: 90}, events.Results{Flaky: tests("TestD")}, nil)
	s.NotRun = []string{"test-long"}
	var out bytes.Buffer
	s.Print(&out)
	for _, want := range []string{
		"FAILED lint: exit status 1 (" + log + ")", "    a.go:1: too long", "FAILED test-unit: p TestC (p.json)",
		"    it said why",
		"FLAKY test-smoke: p TestD (p.json)", "not run",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	if !strings.HasSuffix(out.String(), "\n3 passed, 2 failed\n") {
		t.Errorf("the last line is wrong:\n%s", out.String())
	}
}

func TestPrintIsBounded(t *testing.T) {
	lines := slices.Repeat([]string{strings.Repeat("x", 2*lineLength)}, 60)
	for _, n := range []int{1, 3, 8, 9, 200} {
		s := New()
		var failed, flaky []events.Test
		for i := range n {
			failed = append(failed, events.Test{Package: "p", Name: fmt.Sprint("TestC", i), Output: lines, Seconds: 20})
			flaky = append(flaky, events.Test{Package: "p", Name: fmt.Sprint("TestD", i)})
		}
		for _, stage := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
			s.Add(Stage{Name: stage}, events.Results{}, nil)
		}
		s.Add(Stage{Name: "test-unit"}, events.Results{Failed: failed, Flaky: flaky}, nil)
		var out bytes.Buffer
		s.Print(&out)
		if got := strings.Count(out.String(), "\n"); got > screen {
			t.Errorf("%d failures take %d lines", n, got)
		}
		if shown := strings.Count(out.String(), "    xxx"); shown < min(n, shownFailures)*5 || n <= 3 &&
			shown != n*testLines {
			t.Errorf("of %d failures %d lines are shown", n, shown)
		}
	}
}

func TestAFailedTestFailsItsStage(t *testing.T) {
	s := New()
	if s.Add(Stage{Name: "test-unit"}, events.Results{Failed: tests("TestC")}, nil) || s.Result != Failed ||
		s.Stages[0].Result != Failed {
		t.Errorf("the stage %s, the run %s", s.Stages[0].Result, s.Result)
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bin", "test-summary.json")
	s := New()
	s.Commit = "abc"
	s.Add(Stage{Name: "test-unit"}, events.Results{Passed: tests("TestA")}, nil)
	if err := s.Write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "\n  \"result\": \"passed\",\n") ||
		!strings.Contains(string(text), `"failed": []`) {
		t.Fatalf("it has %s, %v", text, err)
	}
	var read Summary
	if err := json.Unmarshal(text, &read); err != nil || read.Commit != "abc" || read.Stages[0].Passed != 1 {
		t.Errorf("it reads as %+v, %v", read, err)
	}
}
