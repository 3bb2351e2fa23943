// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

func TestBackoffGrowsByItsFactorUpToItsMaximum(t *testing.T) {
	span := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for title, c := range map[string]struct {
		retry platformv1.OperationRetry
		want  []time.Duration
	}{
		"factor": {platformv1.OperationRetry{Backoff: span(time.Second), Factor: 3},
			[]time.Duration{time.Second, 3 * time.Second, 9 * time.Second}},
		"constant": {platformv1.OperationRetry{Backoff: span(time.Minute), Factor: 1},
			[]time.Duration{time.Minute, time.Minute, time.Minute}},
		"maximum": {platformv1.OperationRetry{Backoff: span(time.Minute), Factor: 10, MaxBackoff: span(time.Hour)},
			[]time.Duration{time.Minute, 10 * time.Minute, time.Hour, time.Hour}},
		"maximum below the default": {platformv1.OperationRetry{MaxBackoff: span(2 * time.Second)},
			[]time.Duration{2 * time.Second, 2 * time.Second}},
		"very long": {
			platformv1.OperationRetry{Backoff: span(1e6 * time.Hour), Factor: 10, MaxBackoff: span(25e5 * time.Hour)},
			[]time.Duration{1e6 * time.Hour, 25e5 * time.Hour, 25e5 * time.Hour},
		},
	} {
		t.Run(title, func(t *testing.T) {
			asked := &run{op: &platformv1.Operation{Spec: platformv1.OperationSpec{Retry: &c.retry}}}
			step := &optemplate.Step{Retry: &optemplate.StepRetry{Backoff: spanOf(c.retry.Backoff), Factor: c.retry.Factor,
				MaxBackoff: spanOf(c.retry.MaxBackoff)}}
			for i, want := range c.want {
				if got := asked.backoff(&optemplate.Step{}, int32(i+1)); got != want {
					t.Errorf("after attempt %d it waits %s, want %s", i+1, got, want)
				}
				if got := (&run{op: &platformv1.Operation{}}).backoff(step, int32(i+1)); got != want {
					t.Errorf("after attempt %d the step waits %s, want %s", i+1, got, want)
				}
			}
		})
	}
}

// Runs that failed together are spread over the whole of the jitter, and a controller that takes over comes to the
// same.
func TestJitterShortensTheBackoff(t *testing.T) {
	step := &optemplate.Step{Name: "a", Retry: &optemplate.StepRetry{Backoff: "100s", JitterPercent: 40}}
	var early, late int
	for n := range 200 {
		op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprintf("run-%d", n))}}
		got := (&run{op: op}).backoff(step, 1)
		switch again := (&run{op: op}).backoff(step, 1); {
		case got != again:
			t.Fatalf("it waits %s and then %s", got, again)
		case got < 60*time.Second || got > 100*time.Second:
			t.Fatalf("it waits %s", got)
		case got < 70*time.Second:
			early++
		case got > 90*time.Second:
			late++
		}
	}
	if early < 20 || late < 20 {
		t.Errorf("of 200 runs, %d wait less than 70s and %d more than 90s", early, late)
	}
	step.Retry.JitterPercent = 100
	if got := (&run{op: &platformv1.Operation{}}).backoff(step, 1); got <= 0 {
		t.Errorf("it waits %s", got)
	}
}

func TestRetryIsRefusedWithoutTime(t *testing.T) {
	op := &platformv1.Operation{Spec: platformv1.OperationSpec{
		Retry: &platformv1.OperationRetry{Limit: 1, MaxBackoff: &metav1.Duration{}}}}
	expect(t, Check(op, Target{}, "", restartTemplate()), platformv1.ReasonInvalidSpec,
		"retry.maxBackoff 0s is not allowed: it must be greater than 0")
}

// exiting has a pod, or one for each of three items, and goes on after exit codes 7 and 75 only.
const exiting = `name: Exiting
steps:
  - {name: load, retry: {limit: 3, backoff: 1s, exitCodes: [7, 75]}, ITEMS container: {image: 'example/tool:1'}}
`

// exits runs a template whose pods end with these codes, by attempt. A code of -1 is a pod that is lost. It returns the
// end of the run.
func exits(t *testing.T, items string, codes func(job string) int32) platformv1.OperationStatus {
	t.Helper()
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x", UID: "uid"}}
	op.Spec.Template, op.Spec.ServiceAccountName = strings.ReplaceAll(exiting, "ITEMS", items), "worker"
	template, err := optemplate.ParseInline(op.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	facts := Facts{Now: epoch, Template: template, Parameters: map[string]string{}, Lists: map[string][]string{}}
	op.Status = Start(op, "", facts, nil).Status
	stopped := map[string]*Answer{}
	for range 100 {
		d := Next(op, facts)
		op.Status = d.Status
		facts.Answers, facts.Now = maps.Clone(stopped), facts.Now.Add(time.Second)
		if op.Status.Phase.Ended() {
			return op.Status
		}
		if d.Effect == nil {
			continue
		}
		state := JobState{Phase: platformv1.OperationRunning}
		if d.Effect.Job.Verb != JobRun {
			code := codes(d.Effect.Job.Name)
			state.Phase, state.ExitCode = platformv1.OperationFailed, max(code, 0)
			state.Message = fmt.Sprintf("exit code %d", code)
			if code == 0 {
				state.Phase = platformv1.OperationSucceeded
			}
		}
		facts.Answers[d.Effect.Key] = &Answer{Job: state}
		if d.Effect.Job.Verb == JobStop {
			stopped[d.Effect.Key] = facts.Answers[d.Effect.Key]
		}
	}
	t.Fatalf("it does not end: %+v", op.Status)
	return op.Status
}

func TestExitCodesSayWhetherAStepIsTriedAgain(t *testing.T) {
	const each = `forEach: '["a","b","c"]', parallelism: 3,`
	for title, c := range map[string]struct {
		items string
		// codes by job; 0 for others.
		codes    map[string]int32
		attempts int32
		error    string
	}{
		"listed": {"", map[string]int32{"x-load": 75, "x-load-try2": 7}, 3, ""},
		"not listed": {"", map[string]int32{"x-load": 1}, 1,
			"it is not tried again, since retry.exitCodes does not have 1"},
		"then not listed":   {"", map[string]int32{"x-load": 75, "x-load-try2": 2}, 2, "does not have 2"},
		"lost":              {"", map[string]int32{"x-load": -1}, 2, ""},
		"items":             {each, map[string]int32{"x-load-1": 7, "x-load-3": 75}, 2, ""},
		"an item is left":   {each, map[string]int32{"x-load-1": 7, "x-load-3": 1}, 1, "does not have 1"},
		"the first is left": {each, map[string]int32{"x-load-1": 1}, 1, "does not have 1"},
	} {
		t.Run(title, func(t *testing.T) {
			end := exits(t, c.items, func(job string) int32 { return c.codes[job] })
			if got := end.Steps[0].Attempts; got != c.attempts || (end.Error == "") != (c.error == "") ||
				!strings.Contains(end.Error, c.error) {
				t.Errorf("after %d attempts it ended %s: %q; want %d attempts, and %q", got, end.Phase, end.Error, c.attempts,
					c.error)
			}
		})
	}
}
