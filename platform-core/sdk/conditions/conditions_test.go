// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func application() *platformv1.Application {
	return &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "redis-a", Generation: 3}}
}

func TestReport(t *testing.T) {
	tests := map[string]struct {
		outcome outcome.Outcome
		want    []string
	}{
		"done":    {outcome.Done(), []string{"Ready=True Ready: All is well."}},
		"done as": {outcome.DoneAs("Stopped", "It is stopped."), []string{"Ready=True Stopped: It is stopped."}},
		"waiting": {outcome.Waiting("PodsNotReady", "Pods start."),
			[]string{"Ready=False PodsNotReady: Pods start.", "Reconciling=True PodsNotReady: Pods start."}},
		"deferred": {outcome.Deferred("WaitingForMaintenance", "It waits."),
			[]string{"Ready=False WaitingForMaintenance: It waits.", "Reconciling=True WaitingForMaintenance: It waits."}},
		"stalled": {outcome.Stalled("InvalidSpec", "Mend it."),
			[]string{"Ready=False InvalidSpec: Mend it.", "Stalled=True InvalidSpec: Mend it."}},
		"failed": {outcome.Failed(errors.New("boom")),
			[]string{"Ready=False ReconcileFailed: boom", "Reconciling=True ReconcileFailed: boom"}},
	}
	for from := range tests {
		for to, test := range tests {
			t.Run(from+" then "+to, func(t *testing.T) {
				app := application()
				conditions.Report(app, tests[from].outcome, "All is well.")
				conditions.Report(app, test.outcome, "All is well.")
				if got := describe(app); !slices.Equal(got, test.want) {
					t.Errorf("got %q, want %q", got, test.want)
				}
				if app.Status.ObservedGeneration != 3 {
					t.Errorf("observedGeneration is %d", app.Status.ObservedGeneration)
				}
				for _, c := range app.Status.Conditions {
					if c.ObservedGeneration != 3 || c.LastTransitionTime.IsZero() {
						t.Errorf("condition %s has generation %d and time %v", c.Type, c.ObservedGeneration, c.LastTransitionTime)
					}
				}
			})
		}
	}
}

// What is held keeps its Ready, and says why nothing happens.
func TestHeldKeepsReady(t *testing.T) {
	held := outcome.Held(platformv1.ReasonSuspended, "Nothing is done.")
	for name, test := range map[string]struct {
		before outcome.Outcome
		want   []string
	}{
		"ready": {outcome.Done(), []string{"Ready=True Suspended: Nothing is done."}},
		"waiting": {outcome.Waiting("PodsNotReady", "Pods start."),
			[]string{"Ready=False Suspended: Nothing is done.", "Stalled=True Suspended: Nothing is done."}},
		"held": {held, []string{"Ready=False Suspended: Nothing is done.", "Stalled=True Suspended: Nothing is done."}},
	} {
		app := application()
		conditions.Report(app, test.before, "")
		conditions.Report(app, held, "")
		if got := describe(app); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		if o := conditions.Outcome(app); o.Kind() != outcome.KindHeld || o.Reason() != platformv1.ReasonSuspended {
			t.Errorf("%s: read back as %v %s", name, o.Kind(), o.Reason())
		}
	}
	app := application()
	conditions.Report(app, outcome.Deferred(platformv1.ReasonWaitingForMaintenance, "It waits."), "")
	if o := conditions.Outcome(app); o.Kind() != outcome.KindDeferred || o.Message() != "It waits." {
		t.Errorf("deferred is read back as %v %s", o.Kind(), o.Message())
	}
	conditions.Report(app, outcome.DoneAs(platformv1.ReasonStopped, "It is stopped."), "")
	if o := conditions.Outcome(app); o.Kind() != outcome.KindDone || o.Reason() != platformv1.ReasonStopped {
		t.Errorf("stopped is read back as %v %s", o.Kind(), o.Reason())
	}
}

func TestSetKeepsTheTransitionTimeOfTheSameStatus(t *testing.T) {
	app := application()
	past := metav1.NewTime(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))
	conditions.Set(app, metav1.Condition{Type: "Ready", Status: "False", Reason: "A", Message: "a.",
		LastTransitionTime: past})
	conditions.Set(app, metav1.Condition{Type: "Ready", Status: "False", Reason: "B", Message: "b."})
	if got := conditions.Get(app, "Ready"); !got.LastTransitionTime.Equal(&past) || got.Reason != "B" {
		t.Fatalf("same status: %+v", got)
	}
	conditions.Set(app, metav1.Condition{Type: "Ready", Status: "True", Reason: "Ready"})
	if got := conditions.Get(app, "Ready"); got.LastTransitionTime.Equal(&past) {
		t.Fatal("another status: the time stayed")
	}
	if !conditions.IsTrue(app, "Ready") || conditions.IsTrue(app, "Stalled") {
		t.Error("IsTrue is wrong")
	}
}

// A status patch compares with an earlier image; a change must not reach into it.
func TestChangesLeaveTheEarlierImageAlone(t *testing.T) {
	app := application()
	conditions.Report(app, outcome.Waiting("A", "a."), "")
	before := *app
	want := describe(&before)
	conditions.Report(app, outcome.Done(), "")
	if got := describe(&before); !slices.Equal(got, want) {
		t.Errorf("the earlier image became %q, was %q", got, want)
	}
}

func TestSetSortsAndCuts(t *testing.T) {
	app := application()
	for _, conditionType := range []string{"Stalled", "Accepted", "Ready"} {
		conditions.Set(app, metav1.Condition{Type: conditionType, Status: "True", Reason: "R",
			Message: strings.Repeat("ä", 20000)})
	}
	if !slices.IsSortedFunc(app.Status.Conditions,
		func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) }) {
		t.Error("conditions are not sorted")
	}
	if n := len(conditions.Get(app, "Ready").Message); n > 32768 || n < 32000 {
		t.Errorf("message has %d bytes", n)
	}
}

func TestMirror(t *testing.T) {
	from, to := application(), application()
	to.Generation = 9
	conditions.Report(to, outcome.Stalled("Old", "Old."), "")
	conditions.Report(from, outcome.Waiting("PodsNotReady", "Pods start."), "")
	conditions.Mirror(to, from, platformv1.ReadyCondition, platformv1.ReconcilingCondition, platformv1.StalledCondition)
	if got, want := describe(to), describe(from); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := conditions.Get(to, platformv1.ReadyCondition).ObservedGeneration; got != 9 {
		t.Errorf("observedGeneration is %d", got)
	}
}

func describe(obj platformv1.Conditioned) []string {
	var lines []string
	for _, c := range obj.GetConditions() {
		lines = append(lines, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return lines
}
