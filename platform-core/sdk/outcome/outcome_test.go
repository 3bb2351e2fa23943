// SPDX-License-Identifier: Apache-2.0

package outcome_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/sdk/outcome"
)

type reasonedError struct{}

func (reasonedError) Error() string           { return "the name is taken" }
func (reasonedError) ConditionReason() string { return "NameTaken" }

func TestResult(t *testing.T) {
	boom := errors.New("boom")
	tests := map[string]struct {
		outcome outcome.Outcome
		result  reconcile.Result
		err     error
	}{
		"done":                {outcome.Done(), reconcile.Result{}, nil},
		"waiting for a watch": {outcome.Waiting("PodsNotReady", "Pods start."), reconcile.Result{}, nil},
		"waiting for a clock": {outcome.WaitingFor(time.Second, "A", "B."), reconcile.Result{RequeueAfter: time.Second}, nil},
		"a negative clock":    {outcome.WaitingFor(-time.Second, "A", "B."), reconcile.Result{}, nil},
		"stalled":             {outcome.Stalled("InvalidSpec", "Mend it."), reconcile.Result{}, nil},
		"failed":              {outcome.Failed(boom), reconcile.Result{}, boom},
		"failed, clocked":     {outcome.Failed(boom).Within(time.Second), reconcile.Result{}, boom},
		"failed with nil":     {outcome.Failed(nil), reconcile.Result{}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result, err := test.outcome.Result()
			if result != test.result || !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
				t.Fatalf("got %v, %v; want %v, %v", result, err, test.result, test.err)
			}
		})
	}
}

func TestFailedTakesTheReasonOfTheError(t *testing.T) {
	if got := outcome.Failed(fmt.Errorf("cannot apply: %w", reasonedError{})).Reason(); got != "NameTaken" {
		t.Errorf("reason of a wrapped reasoned error: got %q", got)
	}
	if got := outcome.Failed(errors.New("boom")).Reason(); got != outcome.ReasonFailed {
		t.Errorf("reason of a plain error: got %q", got)
	}
}

func TestWorst(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	done, waiting := outcome.Done(), outcome.WaitingFor(5*time.Second, "W", "w.")
	stalled, failed := outcome.Stalled("S", "s."), outcome.Failed(first)

	tests := map[string]struct {
		in     []outcome.Outcome
		kind   outcome.Kind
		reason string
		after  time.Duration
	}{
		"nothing":           {nil, outcome.KindDone, "", 0},
		"done, and says so": {[]outcome.Outcome{done, outcome.DoneAs("Stopped", "s."), done}, outcome.KindDone, "Stopped", 0},
		"waiting":           {[]outcome.Outcome{done, waiting}, outcome.KindWaiting, "W", 5 * time.Second},
		"waiting first": {[]outcome.Outcome{outcome.Deferred("D", "d.").Within(9 * time.Second), waiting},
			outcome.KindWaiting, "W", 5 * time.Second},
		"deferred": {[]outcome.Outcome{done, outcome.Held("H", "h."),
			outcome.Deferred("D", "d.").Within(9 * time.Second)}, outcome.KindDeferred, "D", 9 * time.Second},
		"shortest clock": {[]outcome.Outcome{waiting, outcome.WaitingFor(time.Second, "X", "x.")}, outcome.KindWaiting, "W",
			time.Second},
		"stalled, clocked": {[]outcome.Outcome{stalled, waiting}, outcome.KindStalled, "S", 5 * time.Second},
		"failed": {[]outcome.Outcome{waiting, stalled, failed, done}, outcome.KindFailed, outcome.ReasonFailed,
			5 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := outcome.Worst(test.in...)
			if got.Kind() != test.kind || got.Reason() != test.reason || got.After() != test.after {
				t.Fatalf("got %v %q %v", got.Kind(), got.Reason(), got.After())
			}
		})
	}

	both := outcome.Worst(failed, outcome.Failed(second)).Err()
	if !errors.Is(both, first) || !errors.Is(both, second) {
		t.Errorf("an error got lost: %v", both)
	}
}

func TestWithinAndSaying(t *testing.T) {
	waiting := outcome.WaitingFor(5*time.Second, "W", "w.")
	for _, tc := range []struct{ after, want time.Duration }{{0, 5 * time.Second}, {-time.Second, 5 * time.Second},
		{time.Hour, 5 * time.Second}, {time.Second, time.Second}} {
		if got := waiting.Within(tc.after).After(); got != tc.want {
			t.Errorf("within %s it is %s, want %s", tc.after, got, tc.want)
		}
	}
	if got := waiting.Saying("x."); got.Message() != "x." || got.Reason() != "W" || got.After() != 5*time.Second {
		t.Errorf("got %+v", got)
	}
	if got := outcome.Failed(errors.New("boom")).Saying("x."); got.Message() != "boom" {
		t.Errorf("a failure says %q", got.Message())
	}
}

func TestBecause(t *testing.T) {
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		outcome         outcome.Outcome
		kind            outcome.Kind
		reason, message string
	}{
		"done": {outcome.Done(), outcome.KindDone, "", ""},
		"held": {outcome.Held("Suspended", "h."), outcome.KindHeld, "Suspended", "h."},
		"deferred": {outcome.Deferred("WaitingForMaintenance", "d."), outcome.KindWaiting, "ImageUnavailable",
			"no image; d."},
		"waiting": {outcome.Waiting("PodsNotReady", "w."), outcome.KindWaiting, "ImageUnavailable", "no image; w."},
		"stalled": {outcome.Stalled("InvalidSpec", "s."), outcome.KindStalled, "InvalidSpec", "no image; s."},
		"failed":  {outcome.Failed(boom), outcome.KindFailed, outcome.ReasonFailed, "no image; boom"},
	} {
		got := test.outcome.Because("ImageUnavailable", "no image")
		says := got.Reason() == test.reason && got.Message() == test.message
		if got.Kind() != test.kind || !says || !errors.Is(got.Err(), test.outcome.Err()) {
			t.Errorf("%s: got %v %s %q, %v", name, got.Kind(), got.Reason(), got.Message(), got.Err())
		}
	}
	if after := outcome.WaitingFor(time.Second, "W", "w.").Because("I", "i").After(); after != time.Second {
		t.Errorf("the clock is %s", after)
	}
}
