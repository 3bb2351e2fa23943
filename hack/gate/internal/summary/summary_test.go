// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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
	s := &Summary{Result: Failed}
	s.Add(Stage{Name: "lint", Seconds: 3, Log: log}, events.Results{}, errors.New("exit status 1"))
	s.Add(Stage{Name: "test-unit", Seconds: 60}, events.Results{Passed: tests("TestA", "TestB"), Failed: tests("TestC")}, errors.New("exit status 1"))
	s.Add(Stage{Name: "test-smoke", Seconds: 90}, events.Results{Flaky: tests("TestD")}, nil)
	var out bytes.Buffer
	s.Print(&out)
	for _, want := range []string{"FAILED lint (" + log + ")", "a.go:1: too long", "FAILED test-unit p TestC (p.json)", "it said why", "FLAKY test-smoke p TestD (p.json)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	if !strings.HasSuffix(out.String(), "\n3 passed, 2 failed\n") {
		t.Errorf("the last line is wrong:\n%s", out.String())
	}
}

func TestAFailedTestFailsItsStage(t *testing.T) {
	s := &Summary{}
	s.Add(Stage{Name: "test-unit"}, events.Results{Failed: tests("TestC")}, nil)
	if s.Stages[0].Result != Failed {
		t.Errorf("the stage %s", s.Stages[0].Result)
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bin", "test-summary.json")
	s := &Summary{Commit: "abc", Result: Passed}
	s.Add(Stage{Name: "test-unit"}, events.Results{Passed: tests("TestA")}, nil)
	if err := s.Write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), `"result": "passed"`) {
		t.Fatalf("it has %s, %v", text, err)
	}
	var read Summary
	if err := json.Unmarshal(text, &read); err != nil || read.Commit != "abc" || read.Stages[0].Passed != 1 {
		t.Errorf("it reads as %+v, %v", read, err)
	}
}
