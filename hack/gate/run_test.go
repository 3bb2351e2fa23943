// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/gate/internal/host"
	"github.com/zeroinfra/hack/gate/internal/summary"
)

// targets are stages that do as real ones: some write events of tests.
const targets = `
deps:
	@exit $${DEPS:-0}
lint:
	@echo a.go:1: too long; exit 1
test-unit:
	@echo '{"Action":"pass","Package":"p","Test":"TestA"}' >$$TEST_EVENTS/p.json
	@echo '{"Action":"fail","Package":"p","Test":"TestB"}' >>$$TEST_EVENTS/p.json; exit 1
test-smoke:
	@echo '{"Action":"fail","Package":"p","Test":"TestC"}' >$$TEST_EVENTS/p.json
	@echo '{"Action":"pass","Package":"p","Test":"TestC"}' >>$$TEST_EVENTS/p.json
interrupted:
	@echo begun; sleep infinity
`

// newGate returns a gate in a repository of its own.
func newGate(t *testing.T, stages ...string) (*gate, *bytes.Buffer) {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "Makefile"), []byte(targets), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	out := &bytes.Buffer{}
	o := options{summary: filepath.Join(root, "summary.json"), logs: filepath.Join(root, "logs"), stages: stages}
	return &gate{options: o, root: root, out: out, needs: func(string, []string) host.Needs { return host.Needs{} }}, out
}

// written reads the summary that a gate wrote, and the names and results of its stages.
func written(t *testing.T, g *gate) (s summary.Summary, stages []string) {
	t.Helper()
	text, err := os.ReadFile(g.options.summary)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	for _, stage := range s.Stages {
		stages = append(stages, stage.Name+" "+stage.Result)
	}
	return s, stages
}

func TestRunOfStages(t *testing.T) {
	for name, c := range map[string]struct {
		stages    []string
		keepGoing bool
		deps      string
		want      []string
		last      string
	}{
		"all pass": {[]string{"deps", "test-smoke"}, false, "0", []string{"deps ok", "test-smoke ok"},
			"1 passed, 0 failed"},
		"the first failure ends the run": {[]string{"lint", "test-unit"}, false, "0", []string{"lint failed"},
			"0 passed, 1 failed"},
		"all failures are told": {[]string{"lint", "test-unit"}, true, "0",
			[]string{"lint failed", "test-unit failed"}, "1 passed, 2 failed"},
		"nothing runs after failed deps": {[]string{"deps", "test-smoke"}, true, "1", []string{"deps failed"},
			"0 passed, 1 failed"},
		"a target that there is not": {[]string{"no-such-target"}, false, "0", []string{"no-such-target failed"},
			"0 passed, 1 failed"},
		"a flaky test fails nothing": {[]string{"test-smoke"}, false, "0", []string{"test-smoke ok"},
			"1 passed, 0 failed"},
		"a failed test fails its stage": {[]string{"test-unit"}, false, "0", []string{"test-unit failed"},
			"1 passed, 1 failed"},
		"stages run in the order of them": {[]string{"test-smoke", "deps"}, false, "0", []string{"test-smoke ok", "deps ok"},
			"1 passed, 0 failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DEPS", c.deps)
			g, out := newGate(t, c.stages...)
			g.keepGoing = c.keepGoing
			passed, err := g.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s, stages := written(t, g)
			if !slices.Equal(stages, c.want) || !strings.HasSuffix(out.String(), "\n"+c.last+"\n") {
				t.Errorf("stages %v, want %v and at the end %q; it printed\n%s", stages, c.want, c.last, out)
			}
			if passed != (s.Result == summary.Passed) || passed != strings.HasSuffix(c.last, " 0 failed") ||
				len(s.Commit) != 40 || !s.Dirty {
				t.Errorf("passed is %v, and the summary %+v", passed, s)
			}
		})
	}
}

func TestLogsOfTestsAreNamed(t *testing.T) {
	g, _ := newGate(t, "test-unit", "test-smoke")
	g.keepGoing = true
	if _, err := g.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, _ := written(t, g)
	for _, test := range []summary.Test{s.Failed[0], s.Flaky[0]} {
		if _, err := os.Stat(filepath.Join(g.root, test.Log)); err != nil {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestAMachineThatLacksSomethingRunsNothing(t *testing.T) {
	g, out := newGate(t, "deps")
	g.needs = func(root string, _ []string) host.Needs { return host.Needs{Disk: map[string]uint64{root: 1 << 62}} }
	if err := os.WriteFile(g.options.summary, []byte(`{"result": "passed"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if passed, err := g.run(t.Context()); passed || err != nil {
		t.Errorf("got %v, %v", passed, err)
	}
	if s, stages := written(t, g); !slices.Equal(stages, []string{"preflight failed"}) || s.Result != summary.Failed {
		t.Errorf("the summary is %+v", s)
	}
	if !strings.Contains(out.String(), "GiB: make room there") ||
		!strings.HasSuffix(out.String(), "\n0 passed, 1 failed\n") {
		t.Errorf("it printed\n%s", out)
	}
}

// begun cancels when something is written that holds a word.
type begun struct {
	*bytes.Buffer
	word   string
	cancel func()
}

func (b begun) Write(p []byte) (int, error) {
	n, err := b.Buffer.Write(p)
	if bytes.Contains(p, []byte(b.word)) {
		b.cancel()
	}
	return n, err
}

func TestAnInterruptedRunFailed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g, out := newGate(t, "interrupted", "deps")
	g.keepGoing = true
	g.out = begun{out, "begun\n", cancel}
	if passed, err := g.run(ctx); passed || err != nil {
		t.Errorf("got %v, %v", passed, err)
	}
	if s, stages := written(t, g); !slices.Equal(stages, []string{"interrupted failed"}) || s.Result != summary.Failed ||
		!slices.Equal(s.NotRun, []string{"deps"}) {
		t.Errorf("the summary is %+v", s)
	}
}
