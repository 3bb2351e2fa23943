// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"testing"
	"time"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// Each time that has no run says why, in the zone of the schedule.
func TestWhyATimeWasSkippedIsSaid(t *testing.T) {
	one := int32(1)
	const second, third = "2027-01-01T02:00:00Z was skipped: ", "2027-01-01T03:00:00Z was skipped: "
	for title, c := range map[string]struct {
		change func(*batchv1.CronJobSpec)
		live   func(w *world)
		want   string
	}{
		"another is under way": {func(*batchv1.CronJobSpec) {}, nil, second + "another run is under way"},
		"as many wait as may": {func(s *batchv1.CronJobSpec) {
			s.Concurrency = batchv1.Concurrency{Policy: "Queue", Max: &one}
		}, nil, third + "1 runs are waiting"},
		"a later one replaces it": {func(s *batchv1.CronJobSpec) {
			s.Concurrency.Policy, s.DependsOn = "Replace", []batchv1.Dependency{{Name: "load", Within: duration(hour),
				Timeout: duration(90 * time.Minute)}}
		}, nil, second + "a later time has come"},
		"the operator was away": {func(*batchv1.CronJobSpec) {}, func(w *world) {
			w.turn()
			w.now = begin.Add(2*hour + 6*time.Minute)
		}, second + "it was missed by 6m0s, and missedRuns is Skip"},
		"several were missed": {func(s *batchv1.CronJobSpec) { s.MissedRuns.Policy = "Latest" }, func(w *world) {
			w.turn()
			w.now = begin.Add(3*hour + 6*time.Minute)
		}, "2 times up to 2027-01-01T02:00:00Z were missed: missedRuns is Latest"},
		"the clock was set back": {func(*batchv1.CronJobSpec) {}, func(w *world) {
			w.turn()
			w.cj.Status.SettledTime = stamp(begin.Add(5 * hour))
		}, "the clock was set back from 2027-01-01T05:00:00Z: times count from 2027-01-01T00:00:00Z"},
		"it depends on nothing": {func(s *batchv1.CronJobSpec) {
			s.DependsOn = []batchv1.Dependency{{Name: "load", Within: duration(hour)}}
		}, func(w *world) { w.live(begin.Add(2*hour + time.Minute)) },
			second + `CronJob "load", which it depends on, does not exist`},
	} {
		t.Run(title, func(t *testing.T) {
			w := newWorld(t, c.change)
			w.takes = 24 * hour
			if title == "another is under way" {
				w.live(begin.Add(2*hour + time.Minute))
			} else if c.live == nil {
				w.live(begin.Add(3*hour + time.Minute))
			} else {
				c.live(w)
			}
			w.turn()
			if got := w.cj.Status.Message; got != c.want {
				t.Errorf("the message is %q, want %q", got, c.want)
			}
		})
	}
}

// Without a policy, a time that the clocks leave out is the moment at which they are put forward, and of one that they
// show twice it is the first.
func TestClockChangesWithoutAPolicy(t *testing.T) {
	cj := newWorld(t, func(s *batchv1.CronJobSpec) {
		s.Schedules, s.TimeZone = []string{"30 2 * * *"}, "Europe/Berlin"
	}).cj
	schedule, err := scheduleOf(cj)
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[string]string{
		"2027-03-27T12:00:00Z": "2027-03-28T01:00:00Z", "2027-10-30T12:00:00Z": "2027-10-31T00:30:00Z",
		"2027-10-31T00:30:00Z": "2027-11-01T01:30:00Z",
	} {
		from, err := time.Parse(time.RFC3339, after)
		if err != nil {
			t.Fatal(err)
		}
		if got := schedule.Next(from).UTC().Format(time.RFC3339); got != want {
			t.Errorf("after %s the next time is %s, want %s", after, got, want)
		}
	}
}
