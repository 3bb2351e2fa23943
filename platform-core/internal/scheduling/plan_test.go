// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/scheduling"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// lastTime is what the status shows.
func (w *world) status() platformv1.ScheduleStatus {
	return scheduling.Status(w.app, scheduling.Templates{Disrupts: func(string) bool { return w.disrupts }})[0]
}

func TestAClockThatIsSetBackMakesNothingTwice(t *testing.T) {
	w := newWorld(t, "UTC", "*/10 * * * *")
	w.live(begin.Add(time.Hour + time.Minute))
	w.now = begin.Add(31 * time.Minute)
	if next := w.turn(); !next.Equal(begin.Add(70*time.Minute)) || len(w.times) != 6 {
		t.Fatalf("it comes next at %s, after %d", next, len(w.times))
	}
	w.live(begin.Add(2*time.Hour + time.Minute))
	if len(w.times) != 12 {
		t.Errorf("%d were made in two hours: %v", len(w.times), w.times)
	}
}

func TestAClockThatWasWrongIsNotBelievedForEver(t *testing.T) {
	w := newWorld(t, "UTC", "0 2 * * *")
	w.live(begin.AddDate(0, 0, 3))
	right := w.now
	w.now = begin.AddDate(4, 0, 0).Add(2*time.Hour + time.Second)
	w.turn()
	if got := len(w.times); got != 4 {
		t.Fatalf("%d were made", got)
	}
	w.now = right
	if next := w.turn(); !next.Equal(begin.AddDate(0, 0, 3).Add(2 * time.Hour)) {
		t.Errorf("it comes next at %s", next)
	}
	note := w.status().Message
	if note != "the clock was set back from 2030-01-01T02:00Z (UTC): times count from 2026-01-04T00:00Z (UTC)" {
		t.Errorf("the status says %q", note)
	}
}

func TestAChangedScheduleCountsFromNow(t *testing.T) {
	w := newWorld(t, "UTC", "0 20 * * *")
	w.spec().MissedRuns = platformv1.MissedLatest
	w.live(begin.Add(23 * time.Hour))
	// 06:00 is past, and after the last time that was made.
	w.now = begin.Add(32 * time.Hour)
	w.spec().Schedule = "0 6 * * *"
	if next := w.turn(); !next.Equal(begin.Add(54*time.Hour)) || len(w.times) != 1 {
		t.Errorf("it comes next at %s, after %v", next, w.times)
	}
	if last := w.status(); last.LastTime == nil || last.LastOperation != "redis-a.it.20260101-2000" {
		t.Errorf("the last one is forgotten: %+v", last)
	}
	w.spec().TimeZone = "Asia/Tokyo"
	if next := w.turn(); !next.Equal(at(t, "2026-01-02T21:00:00Z")) {
		t.Errorf("it comes next at %s", next)
	}
}

func TestPausesAreNotMadeUpFor(t *testing.T) {
	for name, pause := range map[string]func(*world, bool){
		"the schedule":    func(w *world, on bool) { w.spec().Suspend = on },
		"the Application": func(w *world, on bool) { w.app.Spec.Suspend = on },
	} {
		w := newWorld(t, "UTC", "0 * * * *")
		w.spec().MissedRuns, w.spec().Concurrency = platformv1.MissedAll, platformv1.ConcurrencyQueue
		w.live(begin.Add(90 * time.Minute))
		pause(w, true)
		if next := w.turn(); !next.IsZero() || w.status().NextTime != nil {
			t.Errorf("%s: it comes at %s while it is paused", name, next)
		}
		writes := w.writes
		w.now = begin.Add(9*time.Hour + 30*time.Minute)
		if w.turn(); w.writes != writes {
			t.Errorf("%s: it writes while it is paused", name)
		}
		pause(w, false)
		if next := w.turn(); !next.Equal(begin.Add(10*time.Hour)) || len(w.times) != 1 {
			t.Errorf("%s: it comes next at %s, after %v", name, next, w.times)
		}
	}
}

func TestConcurrency(t *testing.T) {
	const skipped = `passed over 2026-01-01T02:00Z (UTC): Operation "redis-a.it.20260101-0100" has not ended`
	for policy, want := range map[platformv1.ScheduleConcurrency]string{
		"": skipped, platformv1.ConcurrencySkip: skipped,
		platformv1.ConcurrencyQueue: "",
	} {
		w := newWorld(t, "UTC", "0 * * * *")
		w.spec().Concurrency = policy
		w.live(begin.Add(90 * time.Minute))
		plan := scheduling.For(w.app, scheduling.Facts{Now: begin.Add(2 * time.Hour),
			Templates: scheduling.Templates{Disrupts: func(string) bool { return false }}, Operations: []scheduling.Made{
				{Name: "redis-a.it.20260101-0100", Schedule: "it", Phase: scheduling.Unfinished},
				{Name: "redis-a.other.20260101-0100", Schedule: "other", Phase: scheduling.Unfinished},
			}})
		if note := plan.Records["it"].Note; note != want || plan.Passed["it"] != want ||
			(len(plan.Runs) == 0) != (want != "") {
			t.Errorf("%s: %q, %v, runs %v", policy, note, plan.Passed, plan.Runs)
		}
		// One that was made for this very time, before a crash, stands in its own way not.
		plan = scheduling.For(w.app, scheduling.Facts{Now: begin.Add(2 * time.Hour),
			Templates: scheduling.Templates{Disrupts: func(string) bool { return false }}, Operations: []scheduling.Made{
				{Name: "redis-a.it.20260101-0200", Schedule: "it", Phase: scheduling.Unfinished},
			}})
		if record := plan.Records["it"]; record.Note != "" || record.Operation != "redis-a.it.20260101-0200" {
			t.Errorf("%s: the record is %+v", policy, record)
		}
	}
}

func TestWhatWasMissedIsTold(t *testing.T) {
	w := newWorld(t, "UTC", "0 * * * *")
	w.live(begin.Add(90 * time.Minute))
	w.now = begin.Add(3*time.Hour + 6*time.Minute)
	w.turn()
	if got := w.status().Message; got != "passed over 2026-01-01T03:00Z (UTC): no operator was there until 6m0s later" {
		t.Errorf("it says %q", got)
	}
	w.spec().MissedRuns, w.spec().MissedLimit, w.spec().Concurrency = platformv1.MissedAll, new(int32(2)),
		platformv1.ConcurrencyQueue
	w.now = begin.Add(24 * time.Hour)
	w.turn()
	got := w.status().Message
	if got != "times before 2026-01-01T23:00Z (UTC) were missed and are more than the limit of 2" {
		t.Errorf("it says %q", got)
	}
}

func TestABrokenScheduleLeavesTheOthersAlone(t *testing.T) {
	w := newWorld(t, "UTC", "0 * * * *")
	w.live(begin.Add(90 * time.Minute))
	w.app.Spec.Schedules = append(w.app.Spec.Schedules,
		platformv1.Schedule{Name: "broken", Schedule: "0 0 31 6 *", TimeZone: "UTC"})
	w.live(begin.Add(150 * time.Minute))
	if len(w.times) != 2 {
		t.Errorf("made %v", w.times)
	}
	problems := scheduling.Check(w.app)
	if len(problems) != 1 || !strings.Contains(problems[0].Error(),
		`schedules[1] "broken": schedule "0 0 31 6 *" is not valid: it names a day that never comes`) {
		t.Errorf("problems: %v", problems)
	}
	shown := scheduling.Status(w.app, scheduling.Templates{Disrupts: func(string) bool { return false }})
	if shown[0].Name != "it" || shown[1].NextTime != nil {
		t.Errorf("status: %+v", shown)
	}
	// The record of one that breaks is kept.
	w.spec().Schedule = "nonsense"
	w.turn()
	if w.status().LastOperation != "redis-a.it.20260101-0200" {
		t.Errorf("the record is gone: %+v", w.status())
	}
}

func TestRecordsThatCannotBeReadCountAsNone(t *testing.T) {
	w := newWorld(t, "UTC", "0 * * * *")
	w.app.Annotations = map[string]string{platformv1.SchedulesAnnotation: "{"}
	w.now = begin.Add(90 * time.Minute)
	if next := w.turn(); !next.Equal(begin.Add(2*time.Hour)) || len(w.times) > 0 {
		t.Errorf("it comes next at %s, after %v", next, w.times)
	}
}

func TestRecorded(t *testing.T) {
	w := newWorld(t, "Europe/Berlin", "0 * * * *")
	w.app.UID = "1"
	w.live(begin.Add(90 * time.Minute))
	op := func(hour int) *platformv1.Operation {
		op := scheduling.Operation(w.app, scheduling.Run{Schedule: w.spec(), Time: begin.Add(time.Duration(hour) * time.Hour),
			Name: "x"})
		op.OwnerReferences = []metav1.OwnerReference{{UID: "1", Controller: new(true)}}
		return op
	}
	if !scheduling.Recorded(w.app, op(1)) || scheduling.Recorded(w.app, op(2)) {
		t.Error("what is recorded is not what was made")
	}
	foreign := op(2)
	foreign.OwnerReferences[0].UID = "2"
	if !scheduling.Recorded(w.app, foreign) || !scheduling.Recorded(w.app, &platformv1.Operation{}) {
		t.Error("others wait for a record")
	}
}

func TestOperationsOfTheirTimeSortAndNameIt(t *testing.T) {
	w := newWorld(t, "Asia/Tokyo", "0 2 * * *")
	w.app.Labels = map[string]string{platformv1.DomainLabel: "database"}
	w.spec().Operation.Parameters = platformv1.Parameters{"a": "b"}
	run := scheduling.Run{Schedule: w.spec(), Time: at(t, "2026-01-02T02:00:00+09:00"), Name: "redis-a.it.20260101-1700"}
	op := scheduling.Operation(w.app, run)
	if op.Annotations[platformv1.ScheduledForAnnotation] != "2026-01-02T02:00:00+09:00" ||
		op.Labels[platformv1.TriggerLabel] != "Schedule" ||
		op.Labels[platformv1.DomainLabel] != "database" || op.Spec.TargetRef.Name != "redis-a" ||
		op.Spec.Parameters["a"] != "b" {
		t.Errorf("the Operation is %+v", op)
	}
}

// All that a schedule says of its Operation is in each that it makes, with the Application as the target.
func TestOperationsAreAsTheirScheduleSays(t *testing.T) {
	w := newWorld(t, "UTC", "0 2 * * *")
	asked := platformv1.ScheduledOperation{
		TemplateRef: "redis@1.0.0/Restart", Parameters: platformv1.Parameters{"a": "b"},
		Timeout:                 &metav1.Duration{Duration: time.Hour},
		TTLSecondsAfterFinished: new(int32(60)),
		Retry:                   &platformv1.OperationRetry{Limit: 2, Backoff: &metav1.Duration{Duration: time.Minute}},
		Force:                   true,
	}
	for field, value := range reflect.ValueOf(asked).Fields() {
		if value.IsZero() {
			t.Fatalf("the test leaves out %s", field.Name)
		}
	}
	w.spec().Operation = asked
	want := platformv1.OperationSpec{
		TemplateRef: asked.TemplateRef, Parameters: asked.Parameters, Timeout: asked.Timeout,
		TTLSecondsAfterFinished: asked.TTLSecondsAfterFinished,
		Retry:                   asked.Retry, Force: true,
		TargetRef: platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application",
			Name: "redis-a"},
	}
	got := scheduling.Operation(w.app, scheduling.Run{Schedule: w.spec(), Time: begin, Name: "redis-a.it.20260101-0200"}).
		Spec
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the Operation asks for %+v, want %+v", got, want)
	}
	if got.Retry == asked.Retry {
		t.Error("it shares the retry with its schedule, which is in a cache")
	}
}

// What cannot come to anything makes no Operation, says so, and is not made up for when it can.
func TestTimesPassOfWhatIsNotPossible(t *testing.T) {
	app := &platformv1.Application{}
	app.Name = "a"
	app.Spec.Schedules = []platformv1.Schedule{
		{Name: "drill", Schedule: "0 * * * *", TimeZone: "UTC", MissedRuns: platformv1.MissedAll}}
	why := "the plugin cannot"
	templates := scheduling.Templates{Disrupts: func(string) bool { return false },
		Impossible: func(string) string { return why }}
	at := func(hours time.Duration) scheduling.Plan {
		plan := scheduling.For(app, scheduling.Facts{Now: time.Date(2026, 3, 1, 0, 30, 0, 0, time.UTC).Add(hours * time.Hour),
			Templates: templates})
		app.Annotations = map[string]string{platformv1.SchedulesAnnotation: plan.Records.String()}
		return plan
	}
	for hours := range time.Duration(3) {
		if plan := at(hours); len(plan.Runs) > 0 || !plan.Next.IsZero() {
			t.Errorf("after %d hours it makes %+v, and looks again at %s", hours, plan.Runs, plan.Next)
		}
	}
	if s := scheduling.Status(app, templates)[0]; s.Reason != platformv1.ReasonNotPossible || s.Message != why ||
		s.NextTime != nil {
		t.Errorf("it says %+v", s)
	}
	why = ""
	if plan := at(3); len(plan.Runs) > 0 {
		t.Errorf("it makes up for %+v", plan.Runs)
	}
	if plan := at(4); len(plan.Runs) != 1 {
		t.Errorf("it makes %+v", plan.Runs)
	}
	if s := scheduling.Status(app, templates)[0]; s.Reason != "" || s.Message != "" || s.NextTime == nil {
		t.Errorf("it says %+v", s)
	}
}
