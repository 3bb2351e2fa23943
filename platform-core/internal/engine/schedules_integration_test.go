// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// due is the time that the schedules of these tests come to.
var due = time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC)

// before returns a clock that is so long before that time now.
func before(d time.Duration) func() time.Time {
	ahead := time.Until(due.Add(-d))
	return func() time.Time { return time.Now().Add(ahead) }
}

func nightly(line platformv1.CronLine) platformv1.Schedule {
	return platformv1.Schedule{Name: "nightly", Schedule: line, TimeZone: "UTC",
		Operation: platformv1.ScheduledOperation{TemplateRef: "Restart"}}
}

// scheduled returns an instance with a schedule that an engine has seen in time, and that is at rest.
func scheduled(t *testing.T, namespace string, schedule platformv1.Schedule) *platformv1.Application {
	t.Helper()
	_, _, stop := runAt(t, -1, before(time.Hour))
	defer stop()
	node(t, namespace)
	app := application(namespace)
	app.Spec.Schedules = []platformv1.Schedule{schedule}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	shows(t, app, "the next time", func(s platformv1.ScheduleStatus) bool {
		return s.NextTime != nil && s.NextTime.Time.Equal(due) && s.LastTime == nil
	})
	return app
}

func operations(t *testing.T, namespace string) []platformv1.Operation {
	t.Helper()
	var list platformv1.OperationList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func shows(t *testing.T, app *platformv1.Application, what string, right func(platformv1.ScheduleStatus) bool) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, what, func() error {
		if len(app.Status.Schedules) == 0 || !right(app.Status.Schedules[0]) {
			return fmt.Errorf("the status shows %+v, the record is %s", app.Status.Schedules,
				app.Annotations[platformv1.SchedulesAnnotation])
		}
		return nil
	})
}

func made(s platformv1.ScheduleStatus) bool {
	return s.LastOperation == "redis-a.nightly.20261122-0200" && s.LastTime.Time.Equal(due) &&
		s.NextTime.Time.Equal(due.AddDate(0, 0, 1))
}

// The engine is killed before each of its writes in turn: whatever it was about to do, the Operation is made, once.
func TestAScheduleMakesItsOperationOnceWhateverCrashes(t *testing.T) {
	for writes := range 4 {
		namespace := env.Namespace(t)
		app := scheduled(t, namespace, nightly("0 2 * * *"))
		_, killed, _ := runAt(t, writes, before(time.Second))
		select {
		case <-killed:
		case <-time.After(testkit.Patience):
			t.Fatalf("the engine writes less than %d times", writes+1)
		}
		_, _, stop := runAt(t, -1, before(-time.Minute))
		shows(t, app, "the Operation that was made", made)
		list := operations(t, namespace)
		if len(list) != 1 || list[0].Annotations[platformv1.ScheduledForAnnotation] != "2026-11-22T02:00:00Z" ||
			!metav1.IsControlledBy(&list[0], app) {
			t.Fatalf("after %d writes there are %d Operations: %+v", writes, len(list), list)
		}
		testkit.WaitFor(t, env.Client, &list[0], "that it is run as one of a schedule", func() error {
			if list[0].Status.Trigger != platformv1.TriggerSchedule || list[0].Status.Application != app.Name {
				return fmt.Errorf("its status is %+v", list[0].Status)
			}
			return nil
		})
		// Its record may go; it is not made again by an engine that starts anew.
		if err := env.Client.Delete(t.Context(), &list[0]); err != nil {
			t.Fatal(err)
		}
		stop()
		_, _, stop = runAt(t, -1, before(-2*time.Minute))
		change(t, app, func(s *platformv1.ApplicationSpec) { s.Schedules[0].Suspend = true })
		shows(t, app, "the pause", func(s platformv1.ScheduleStatus) bool { return s.NextTime == nil })
		if list := operations(t, namespace); len(list) > 0 {
			t.Errorf("an Operation was made again: %s", list[0].Name)
		}
		stop()
	}
}

func TestTwoEnginesMakeOneOperation(t *testing.T) {
	namespace := env.Namespace(t)
	app := scheduled(t, namespace, nightly("0 2 * * *"))
	clock := before(3 * time.Second)
	runAt(t, -1, clock)
	runAt(t, -1, clock)
	shows(t, app, "the Operation that was made", made)
	if list := operations(t, namespace); len(list) != 1 {
		t.Errorf("there are %d Operations", len(list))
	}
}

// What restarts pods waits for the window, and the status says until when; the time is not missed meanwhile.
func TestAScheduleWaitsForItsMaintenanceWindow(t *testing.T) {
	namespace := env.Namespace(t)
	_, _, stop := runAt(t, -1, before(2*time.Hour))
	node(t, namespace)
	app := application(namespace)
	app.Spec.Schedules = []platformv1.Schedule{nightly("30 0 * * *")}
	app.Spec.Maintenance = &platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{{
		Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "UTC",
	}}}
	create(t, app)
	shows(t, app, "the opening", func(s platformv1.ScheduleStatus) bool {
		return s.NextTime != nil && s.NextTime.Time.Equal(due)
	})
	stop()
	runAt(t, -1, before(2*time.Second))
	shows(t, app, "the Operation that was made",
		func(s platformv1.ScheduleStatus) bool { return s.LastOperation == "redis-a.nightly.20261122-0030" })
}

func TestSchedulesThatCannotBeAreRefused(t *testing.T) {
	namespace := env.Namespace(t)
	for name, tc := range map[string]struct {
		change func(*platformv1.Schedule)
		text   string
	}{
		"zone": {func(s *platformv1.Schedule) { s.TimeZone = "Europe/Utopia" }, "unknown time zone Europe/Utopia"},
		"line": {func(s *platformv1.Schedule) { s.Schedule = "0 24 * * *" }, "schedule must be a cron line of five fields"},
		"all": {func(s *platformv1.Schedule) { s.MissedRuns = platformv1.MissedAll },
			"missedRuns All needs concurrency Queue"},
		"limit": {func(s *platformv1.Schedule) { s.MissedLimit = new(int32(3)) }, "missedLimit is for missedRuns All only"},
		"name":  {func(s *platformv1.Schedule) { s.Name = "a.b" }, "spec.schedules[0].name"},
	} {
		app := testkit.BuildApplication(namespace, name).Build()
		app.Spec.Schedules = []platformv1.Schedule{nightly("0 2 * * *")}
		tc.change(&app.Spec.Schedules[0])
		if err := env.Client.Create(t.Context(), app); err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, want %s", name, err, tc.text)
		}
	}
	// What only the plugin knows, and cron, is told in the conditions.
	run(t, -1)
	for name, tc := range map[string]struct {
		change       func(*platformv1.Schedule)
		reason, text string
	}{
		"never": {func(s *platformv1.Schedule) { s.Schedule = "0 2 31 2 *" }, platformv1.ReasonInvalidSpec,
			`schedules[0] "nightly": schedule "0 2 31 2 *" is not valid: it names a day that never comes`},
		"template": {func(s *platformv1.Schedule) { s.Operation.TemplateRef = "Dance" }, platformv1.ReasonTemplateNotFound,
			`schedules[0] "nightly": operation: plugin "redis" version "1.0.0" has no Operation template "Dance"`},
		"parameter": {func(s *platformv1.Schedule) { s.Operation.Parameters = platformv1.Parameters{"tempo": "slow"} },
			platformv1.ReasonInvalidParameters, `schedules[0] "nightly": operation: `},
	} {
		app := application(namespace)
		app.Name = name
		app.Spec.Schedules = []platformv1.Schedule{nightly("0 2 * * *")}
		tc.change(&app.Spec.Schedules[0])
		create(t, app)
		testkit.WaitFor(t, env.Client, app, tc.text, func() error {
			if stalled := conditions.Get(app, platformv1.StalledCondition); stalled == nil || stalled.Reason != tc.reason ||
				!strings.Contains(stalled.Message, tc.text) {
				return fmt.Errorf("it says %+v", stalled)
			}
			return nil
		})
	}
}
