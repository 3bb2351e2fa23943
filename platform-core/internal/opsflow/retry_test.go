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
// same, whether the step says how it is tried again or the Operation.
func TestJitterShortensTheBackoff(t *testing.T) {
	own := optemplate.StepRetry{Backoff: "100s", JitterPercent: 40}
	asked := platformv1.OperationRetry{Backoff: &metav1.Duration{Duration: 100 * time.Second}, JitterPercent: 40}
	for says, c := range map[string]struct {
		step  *optemplate.StepRetry
		asked *platformv1.OperationRetry
	}{"the step": {&own, nil}, "the Operation": {nil, &asked}} {
		step := &optemplate.Step{Name: "a", Retry: c.step}
		var early, late int
		for n := range 200 {
			op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprintf("run-%d", n))},
				Spec: platformv1.OperationSpec{Retry: c.asked}}
			got := (&run{op: op}).backoff(step, 1)
			switch again := (&run{op: op}).backoff(step, 1); {
			case got != again:
				t.Fatalf("%s: it waits %s and then %s", says, got, again)
			case got < 60*time.Second || got > 100*time.Second:
				t.Fatalf("%s: it waits %s", says, got)
			case got < 70*time.Second:
				early++
			case got > 90*time.Second:
				late++
			}
		}
		if early < 20 || late < 20 {
			t.Errorf("%s: of 200 runs, %d wait less than 70s and %d more than 90s", says, early, late)
		}
	}
	own.JitterPercent, asked.JitterPercent = 100, 100
	for says, got := range map[string]time.Duration{
		"the step": (&run{op: &platformv1.Operation{}}).backoff(&optemplate.Step{Retry: &own}, 1),
		"the Operation": (&run{op: &platformv1.Operation{Spec: platformv1.OperationSpec{Retry: &asked}}}).backoff(
			&optemplate.Step{}, 1),
	} {
		if got <= 0 {
			t.Errorf("%s: it waits %s", says, got)
		}
	}
}

func TestRetryIsRefusedWithoutTime(t *testing.T) {
	op := &platformv1.Operation{Spec: platformv1.OperationSpec{
		Retry: &platformv1.OperationRetry{Limit: 1, MaxBackoff: &metav1.Duration{}}}}
	expect(t, Check(op, Target{}, "", restartTemplate()), platformv1.ReasonInvalidSpec,
		"retry.maxBackoff 0s is not allowed: it must be greater than 0")
}

const (
	// exiting has a pod, or one for each of three items, and goes on after exit codes 7 and 75 only.
	exiting = `name: Exiting
steps:
  - {name: load, ` + ownRetry + ` ITEMS container: {image: 'example/tool:1'}}
`
	// ownRetry is what its step says of that.
	ownRetry = "retry: {limit: 3, backoff: 1s, exitCodes: [7, 75]},"
)

// exits runs a template whose pods end with these codes, by attempt. A code of -1 is a pod that is lost. It returns the
// end of the run.
func exits(t *testing.T, items string, change func(*platformv1.OperationSpec),
	codes func(job string) int32) platformv1.OperationStatus {
	t.Helper()
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x", UID: "uid"}}
	op.Spec.Template, op.Spec.ServiceAccountName = strings.ReplaceAll(exiting, "ITEMS", items), "worker"
	change(&op.Spec)
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

// The Operation that a CronJob compiles to says itself how its step is tried again. A step that says so as well is
// tried again as it says.
func TestExitCodesSayWhetherAStepIsTriedAgain(t *testing.T) {
	asked := func(codes ...int32) *platformv1.OperationRetry {
		return &platformv1.OperationRetry{Limit: 3, Backoff: &metav1.Duration{Duration: time.Second}, ExitCodes: codes}
	}
	ways := map[string]func(*platformv1.OperationSpec){
		"the step": func(*platformv1.OperationSpec) {},
		"the Operation": func(s *platformv1.OperationSpec) {
			s.Template, s.Retry = strings.Replace(s.Template, ownRetry, "", 1), asked(7, 75)
		},
		"both": func(s *platformv1.OperationSpec) { s.Retry = asked(1, 2) },
	}
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
		for says, change := range ways {
			t.Run(title+" by "+says, func(t *testing.T) {
				end := exits(t, c.items, change, func(job string) int32 { return c.codes[job] })
				if got := end.Steps[0].Attempts; got != c.attempts || (end.Error == "") != (c.error == "") ||
					!strings.Contains(end.Error, c.error) {
					t.Errorf("after %d attempts it ended %s: %q; want %d attempts, and %q", got, end.Phase, end.Error, c.attempts,
						c.error)
				}
			})
		}
	}
}

// After an exit code that is an exception no attempt follows, and after every other one does.
func TestExceptExitCodesEndAStep(t *testing.T) {
	ways := map[string]func(*platformv1.OperationSpec){
		"the step": func(s *platformv1.OperationSpec) {
			s.Template = strings.Replace(s.Template, "exitCodes: [7, 75]", "exceptExitCodes: [77, 78]", 1)
		},
		"the Operation": func(s *platformv1.OperationSpec) {
			s.Template = strings.Replace(s.Template, ownRetry, "", 1)
			s.Retry = &platformv1.OperationRetry{Limit: 3, Backoff: &metav1.Duration{Duration: time.Second},
				ExceptExitCodes: []int32{77, 78}}
		},
	}
	const each = `forEach: '["a","b","c"]', parallelism: 3,`
	for title, c := range map[string]struct {
		items    string
		codes    map[string]int32
		attempts int32
		error    string
	}{
		"another":      {"", map[string]int32{"x-load": 1, "x-load-try2": 137}, 3, ""},
		"an exception": {"", map[string]int32{"x-load": 78}, 1, "exit code 78; it is not tried again after exit code 78"},
		"then one":     {"", map[string]int32{"x-load": 1, "x-load-try2": 77}, 2, "it is not tried again after exit code 77"},
		"lost":         {"", map[string]int32{"x-load": -1}, 2, ""},
		"items":        {each, map[string]int32{"x-load-1": 1, "x-load-3": 2}, 2, ""},
		"one of items": {each, map[string]int32{"x-load-1": 1, "x-load-3": 78}, 1, "after exit code 78"},
		"the last time": {"", map[string]int32{"x-load": 1, "x-load-try2": 1, "x-load-try3": 1, "x-load-try4": 78}, 4,
			"exit code 78"},
	} {
		for says, change := range ways {
			t.Run(title+" by "+says, func(t *testing.T) {
				end := exits(t, c.items, change, func(job string) int32 { return c.codes[job] })
				if got := end.Steps[0].Attempts; got != c.attempts || (end.Error == "") != (c.error == "") ||
					!strings.Contains(end.Error, c.error) {
					t.Errorf("after %d attempts it ended %s: %q; want %d attempts, and %q", got, end.Phase, end.Error, c.attempts,
						c.error)
				}
			})
		}
	}
}
