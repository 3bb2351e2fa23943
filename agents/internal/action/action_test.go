// SPDX-License-Identifier: Apache-2.0

package action_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/action"
	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// pod has the folders of a pod.
type pod struct {
	*testing.T
	dirs planfile.Dirs
}

func newPod(t *testing.T, actions ...plan.Action) *pod {
	t.Helper()
	p := &pod{T: t, dirs: testpod.Dirs(t, "etcd-0", plan.Plan{Actions: actions})}
	if err := os.MkdirAll(filepath.Join(p.dirs.Secrets, "root"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dirs.Secrets, "root", "password"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// runner is the ops agent of one container.
func (p *pod) runner() *action.Runner { return testpod.Runner(p.T, p.dirs) }

// run runs an action to its end.
func (p *pod) run(r *action.Runner, call action.Call) callrecord.Record {
	p.Helper()
	run, err := r.Run(call)
	return testpod.Ended(p.T, run, err)
}

func sh(name, script string, more ...func(*plan.Action)) plan.Action {
	a := plan.Action{Name: name, Command: []string{"sh", "-c", script, "sh"}}
	for _, change := range more {
		change(&a)
	}
	return a
}

func takes(parameter string) func(*plan.Action) {
	return func(a *plan.Action) {
		a.Parameters = map[string]string{parameter: "string"}
		a.Command = append(a.Command, "${parameters."+parameter+"}")
	}
}

func outputs(of map[string]string) func(*plan.Action) {
	return func(a *plan.Action) { a.Outputs = of }
}

func TestParametersReachTheCommandAsOneWord(t *testing.T) {
	p := newPod(t, sh("say", `printf '{"said": "%s", "pod": "%s", "env": "%s"}' "$1" "$2" "$VALUE"`, takes("what"),
		func(a *plan.Action) {
			a.Command = append(a.Command, "${pod.name}")
			a.Env = []plan.EnvVar{{Name: "VALUE", Value: "${parameters.what}"}}
		}, outputs(map[string]string{"said": "json.said", "pod": "json.pod", "env": "json.env"})))
	const nasty = `$(touch x); ${pod.name} 'a'`
	got := p.run(p.runner(), action.Call{Key: "k", Action: "say", Parameters: map[string]string{"what": nasty}})
	want := map[string]string{"said": nasty, "pod": "etcd-0", "env": nasty}
	if got.Phase != callrecord.Succeeded || !maps.Equal(got.Outputs, want) {
		t.Errorf("got %+v, want %v", got, want)
	}
}

func TestFailuresSayWhy(t *testing.T) {
	p := newPod(t,
		sh("fails", "echo 'no such member' >&2; exit 3"),
		sh("finds", "echo 'page 7 is none' >&2; exit 65"),
		sh("denies", "echo no", func(a *plan.Action) { a.Success = "stdout.trim_ == ''" }),
		sh("says-no", "echo no", func(a *plan.Action) { a.Success = "stdout == 'yes\\n'" }),
		sh("no-json", "echo no", outputs(map[string]string{"x": "json.x"})),
		sh("leaks", "echo $SECRET >&2; exit 1", func(a *plan.Action) {
			a.Env = []plan.EnvVar{{Name: "SECRET", Secret: &plan.SecretRef{Credential: "root", Key: "password"}}}
		}),
		sh("floods", "head -c 1000000 /dev/zero"),
		sh("tells-much", "head -c 9000 /dev/zero | tr '\\0' x",
			outputs(map[string]string{"once": "stdout", "twice": "stdout"})),
	)
	r := p.runner()
	for name, says := range map[string]string{
		"fails": `action "fails" failed with exit code 3: no such member`, "says-no": "says that it did not succeed: no",
		"no-json": "its outputs cannot be read", "leaks": "failed with exit code 1: ***", "floods": "wrote more than 128 KiB",
		"tells-much": `action "tells-much" was carried out, but its outputs cannot be read: all together have more than 16 ` +
			`KiB`,
	} {
		got := p.run(r, action.Call{Key: name, Action: name})
		if got.Phase != callrecord.Failed || !strings.Contains(got.Message, says) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	for name, want := range map[string]string{"finds": report.ReasonDataBad, "fails": ""} {
		if got := p.run(r, action.Call{Key: name, Action: name}); got.Phase != callrecord.Failed || got.Reason != want {
			t.Errorf("%s: got %+v, want the reason %q", name, got, want)
		}
	}
	if _, err := r.Run(action.Call{Key: "denies", Action: "denies"}); !errors.Is(err, action.ErrPlan) {
		t.Errorf("an expression that is none: %v", err)
	}
}

func TestNothingIsDoneTwice(t *testing.T) {
	p := newPod(t)
	count := filepath.Join(p.dirs.Run, "count")
	p = newPod(t, sh("count", "echo x >>"+count+"; echo done", takes("n"), outputs(map[string]string{"out": "stdout"})))
	if err := os.MkdirAll(filepath.Dir(count), 0o750); err != nil {
		t.Fatal(err)
	}
	call := action.Call{Key: "k", Action: "count", Parameters: map[string]string{"n": "1"}, Term: 3}
	first := p.run(p.runner(), call)
	// In the same container, and in the next one.
	for _, r := range []*action.Runner{p.runner(), p.runner()} {
		if again := p.run(r, call); again.Phase != callrecord.Succeeded || again.Outputs["out"] != first.Outputs["out"] {
			t.Errorf("got %+v, want %+v", again, first)
		}
	}
	if data, err := os.ReadFile(count); err != nil || string(data) != "x\n" {
		t.Errorf("it ran as %q, %v", data, err)
	}
	r := p.runner()
	call.Parameters = map[string]string{"n": "2"}
	if _, err := r.Run(call); !errors.Is(err, callrecord.ErrKeyReused) {
		t.Errorf("the key with other parameters: %v", err)
	}
	call.Key, call.Term = "other", 2
	if _, err := r.Run(call); !errors.Is(err, callrecord.ErrStaleTerm) {
		t.Errorf("a lower term: %v", err)
	}
}

func TestDeadlineEndsTheWholeGroup(t *testing.T) {
	p := newPod(t)
	pidFile := filepath.Join(p.dirs.Run, "pid")
	q := newPod(t, sh("hangs", "sleep 1000 & echo $! >"+pidFile+"; wait",
		func(a *plan.Action) { a.TimeoutSeconds = 3600 }))
	got := q.run(q.runner(), action.Call{Key: "k", Action: "hangs", Timeout: 300 * time.Millisecond})
	if got.Phase != callrecord.Failed || !strings.Contains(got.Message, "killed at its deadline of 300ms") {
		t.Errorf("got %+v", got)
	}
	gone(t, pidFile)
}

// gone waits until the process whose number is in the file has ended.
func gone(t *testing.T, pidFile string) {
	t.Helper()
	data, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	testpod.Eventually(t, func() error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d is still there: %v", pid, err)
		}
		return nil
	})
}

func TestListenersHearIt(t *testing.T) {
	p := newPod(t)
	gate := filepath.Join(p.dirs.Run, "gate")
	q := newPod(t, sh("speaks", "until [ -e "+gate+" ]; do sleep 0.01; done; echo out; echo err >&2"))
	run, err := q.runner().Run(action.Call{Key: "k", Action: "speaks"})
	if err != nil {
		t.Fatal(err)
	}
	pieces, stop := run.Listen()
	defer stop()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	heard := map[command.Stream]string{}
	for len(heard) < 2 {
		select {
		case piece := <-pieces:
			heard[piece.Stream] += string(piece.Data)
		case <-time.After(testpod.Patience):
			t.Fatalf("heard %v", heard)
		}
	}
	<-run.Done()
	if heard[command.Stdout] != "out\n" || heard[command.Stderr] != "err\n" {
		t.Errorf("heard %v", heard)
	}
}

func TestWhatDoesNotFitIsRefusedBeforeItIsRecorded(t *testing.T) {
	p := newPod(t, sh("say", "echo $1", takes("what")), sh("hangs", "sleep 1000"))
	r := p.runner()
	for name, test := range map[string]struct {
		call action.Call
		want error
	}{
		"an unknown action":   {action.Call{Action: "none"}, action.ErrUnknown},
		"a missing parameter": {action.Call{Action: "say"}, action.ErrParameters},
		"an unknown parameter": {action.Call{Action: "hangs", Parameters: map[string]string{"x": "y"}},
			action.ErrParameters},
		"an option": {action.Call{Action: "say", Parameters: map[string]string{"what": "--force"}},
			action.ErrParameters},
		"a NUL byte": {action.Call{Action: "say", Parameters: map[string]string{"what": "a\x00"}},
			action.ErrParameters},
		"more than a parameter": {action.Call{Action: "say",
			Parameters: map[string]string{"what": strings.Repeat("a", 5000)}}, action.ErrParameters},
	} {
		test.call.Key = "k"
		if _, err := r.Run(test.call); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for i := range 4 {
		if _, err := r.Run(action.Call{Key: fmt.Sprint(i), Action: "hangs"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Run(action.Call{Key: "4", Action: "hangs"}); !errors.Is(err, action.ErrBusy) {
		t.Errorf("one too many: %v", err)
	}
	// What runs when the agent is stopped counts as interrupted, also for the next one.
	r.Close()
	if got := p.run(p.runner(), action.Call{Key: "0", Action: "hangs"}); got.Phase != callrecord.Interrupted {
		t.Errorf("got %+v", got)
	}
}
