// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const hour = time.Hour

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func TestMissedRunsOfThreeDays(t *testing.T) {
	three := int32(3)
	for _, way := range []string{"suspended", "no operator"} {
		for policy, want := range map[string][]time.Duration{
			"Skip": {hour}, "Latest": {hour, 73 * hour}, "All": {hour, 71 * hour, 72 * hour, 73 * hour},
		} {
			t.Run(way+" "+policy, func(t *testing.T) {
				w := newWorld(t, func(s *batchv1.CronJobSpec) {
					s.MissedRuns.Policy = policy
					if policy == "All" {
						s.MissedRuns.Max = &three
					}
				})
				w.live(begin.Add(hour + 30*time.Minute))
				if way == "suspended" {
					w.cj.Spec.Suspend = true
					w.live(begin.Add(73*hour + 2*time.Minute))
					w.cj.Spec.Suspend = false
				}
				w.now = begin.Add(73*hour + 10*time.Minute)
				w.live(begin.Add(73*hour + 30*time.Minute))
				w.want(want...)
				if policy == "Skip" && w.cj.Status.Waiting != nil || w.cj.Status.Counts.Started != int64(len(want)) {
					t.Errorf("the status is %+v", w.cj.Status)
				}
			})
		}
	}
}

func TestSkipRunsATimeThatAnOperatorWasALittleLateFor(t *testing.T) {
	w := newWorld(t, nil)
	w.live(begin.Add(30 * time.Minute))
	w.now = begin.Add(hour + 4*time.Minute)
	w.turn()
	w.want(hour)
}

func TestStartingDeadlineEndsWhatCouldNotBegin(t *testing.T) {
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		s.StartingDeadline, s.MissedRuns.Policy = duration(10*time.Minute), "Latest"
	})
	w.turn()
	w.now = begin.Add(hour + 11*time.Minute)
	w.turn()
	w.want()
	if !strings.Contains(w.cj.Status.Message, "startingDeadline of 10m0s is over") || w.cj.Status.Counts.Skipped != 1 {
		t.Errorf("the status is %+v", w.cj.Status)
	}
}

func TestConcurrency(t *testing.T) {
	two := int32(2)
	for policy, want := range map[string][]time.Duration{
		"Allow": {hour, 2 * hour, 3 * hour, 4 * hour, 5 * hour}, "Forbid": {hour, 4 * hour},
		"Queue": {hour, 2 * hour}, "Replace": {hour, 2 * hour, 3 * hour, 4 * hour, 5 * hour},
	} {
		t.Run(policy, func(t *testing.T) {
			w := newWorld(t, func(s *batchv1.CronJobSpec) {
				s.Concurrency.Policy = policy
				if policy == "Queue" {
					s.Concurrency.Max = &two
				}
			})
			w.takes = 2*hour + 30*time.Minute
			w.live(begin.Add(5*hour + 15*time.Minute))
			w.want(want...)
			s := w.cj.Status
			switch {
			case policy == "Queue" && (len(s.Waiting) != 2 || len(s.Active) != 1):
				t.Errorf("two runs are to wait: %+v", s)
			case policy == "Replace" && (s.Counts.Failed != 4 || s.LastFailure.Reason != "it was cancelled"):
				t.Errorf("four runs are to be replaced: %+v", s)
			case policy == "Forbid" && s.Counts.Skipped != 3:
				t.Errorf("three times are to be skipped: %+v", s)
			}
		})
	}
}

func TestDependsOn(t *testing.T) {
	for title, c := range map[string]struct {
		success time.Duration
		timeout *metav1.Duration
		want    []time.Duration
		message string
	}{
		"succeeded": {50 * time.Minute, nil, []time.Duration{hour}, ""},
		"too early": {20 * time.Minute, nil, nil,
			`CronJob "load", which it depends on, did not succeed within 30m0s before`},
		"waits":       {70 * time.Minute, duration(20 * time.Minute), []time.Duration{hour}, ""},
		"waited long": {90 * time.Minute, duration(20 * time.Minute), nil, "was skipped"},
		"absent":      {0, nil, nil, `CronJob "load", which it depends on, does not exist`},
	} {
		for _, kind := range []string{"CronJob", "Workflow"} {
			t.Run(title+" "+kind, func(t *testing.T) {
				w := newWorld(t, func(s *batchv1.CronJobSpec) {
					s.DependsOn = []batchv1.Dependency{
						{Name: "load", Kind: kind, Within: duration(30 * time.Minute), Timeout: c.timeout}}
				})
				load := dependencyKey{kind: kind, name: "load"}
				if c.success > 0 {
					w.others[load] = &dependency{}
				}
				for w.now.Before(begin.Add(115 * time.Minute)) {
					if on := w.others[load]; on != nil && w.now.Sub(begin) >= c.success {
						on.success = stamp(begin.Add(c.success))
					}
					w.live(w.now.Add(5 * time.Minute))
				}
				w.want(c.want...)
				if !strings.Contains(w.cj.Status.Message, strings.Replace(c.message, "CronJob", kind, 1)) {
					t.Errorf("the message is %q", w.cj.Status.Message)
				}
			})
		}
	}
}

// Each condition of a dependency, for a time of 01:00, and what becomes of it otherwise.
func TestConditionsOfDependencies(t *testing.T) {
	at := begin.Add(hour)
	midnight := begin.Truncate(24 * time.Hour)
	last, day := batchv1.DependencyLastRunSucceeded, batchv1.DependencySucceededSameDay
	for title, c := range map[string]struct {
		on        dependency
		condition batchv1.DependencyCondition
		otherwise string
		runs      bool
		message   string
	}{
		"the last one succeeded": {dependency{success: stamp(begin), failure: stamp(begin.Add(-hour))}, last, "", true, ""},
		"the last one failed": {dependency{success: stamp(begin.Add(-hour)), failure: stamp(begin)}, last, "", false,
			`CronJob "load", which it depends on, did not succeed the last time`},
		"none has ended":        {dependency{}, last, "", false, "did not succeed the last time"},
		"it runs all the same":  {dependency{failure: stamp(begin)}, last, "Run", true, ""},
		"the same day":          {dependency{success: stamp(midnight)}, day, "", true, ""},
		"the day before":        {dependency{success: stamp(midnight.Add(-time.Second))}, day, "", false, "on the same day"},
		"not on any day":        {dependency{failure: stamp(begin)}, day, "Skip", false, "on the same day"},
		"another day, but runs": {dependency{success: stamp(midnight.Add(-hour))}, day, "Run", true, ""},
	} {
		t.Run(title, func(t *testing.T) {
			w := newWorld(t, func(s *batchv1.CronJobSpec) {
				s.DependsOn = []batchv1.Dependency{{Name: "load", Condition: c.condition, Otherwise: c.otherwise}}
			})
			w.others[dependencyKey{kind: "CronJob", name: "load"}] = &c.on
			w.live(at.Add(time.Minute))
			if c.runs {
				w.want(hour)
			} else {
				w.want()
			}
			if !strings.Contains(w.cj.Status.Message, c.message) {
				t.Errorf("the message is %q", w.cj.Status.Message)
			}
		})
	}
}

func TestJitterDelaysEachRunOnce(t *testing.T) {
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		s.Jitter, s.Schedules = duration(20*time.Minute), []string{"*/10 * * * *"}
	})
	w.takes = time.Second
	w.live(begin.Add(24 * hour))
	if n := len(w.order); n < 143 || n > 144 {
		t.Errorf("there are %d runs, want one for each of 144 times but the last", n)
	}
	late := map[time.Duration]struct{}{}
	for name, at := range w.created {
		for _, of := range w.order {
			if nameOf(w.cj, of) == name {
				if d := at.Sub(of); d < 0 || d >= 10*time.Minute {
					t.Errorf("the run of %s began %s later", of, d)
				} else {
					late[d] = struct{}{}
				}
			}
		}
	}
	if len(late) < 50 {
		t.Errorf("runs are late by %d spans only", len(late))
	}
}

func TestHistoryKeepsTheNewestRuns(t *testing.T) {
	one, two := int32(1), int32(2)
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		s.History = batchv1.History{Succeeded: &two, Failed: &one, MaxAge: duration(150 * time.Minute)}
	})
	w.fails = func(name string) bool {
		return strings.HasSuffix(name, "02-00-00") || strings.HasSuffix(name, "-030000")
	}
	w.live(begin.Add(4*hour + 10*time.Minute))
	if len(w.runs) != 3 {
		t.Errorf("%d runs are kept: %v", len(w.runs), w.runs)
	}
	s := w.cj.Status
	if s.Counts.Succeeded != 3 || s.Counts.Failed != 1 || s.LastFailure.Reason != "it broke" || len(s.Active) != 0 {
		t.Errorf("the status is %+v", s)
	}
	w.cj.Spec.Suspend = true
	w.live(begin.Add(9 * hour))
	if len(w.runs) != 0 {
		t.Errorf("%d runs are kept beyond maxAge", len(w.runs))
	}
}

func TestManualRunBeginsOnceForEachValue(t *testing.T) {
	w := newWorld(t, func(s *batchv1.CronJobSpec) { s.Suspend = true })
	for range 2 {
		for _, token := range []string{"a", "b"} {
			w.cj.Annotations = map[string]string{batchv1.RunAnnotation: token}
			w.turn()
			w.turn()
			w.now = w.now.Add(time.Minute)
			if token == "b" && len(w.order) == 2 {
				return
			}
		}
	}
	t.Errorf("there are %d runs", len(w.order))
}

func TestAnotherScheduleCountsFromNow(t *testing.T) {
	w := newWorld(t, func(s *batchv1.CronJobSpec) { s.MissedRuns.Policy = "Latest" })
	w.live(begin.Add(90 * time.Minute))
	w.cj.Spec.Schedules = []string{"15 * * * *"}
	w.read()
	w.live(begin.Add(3 * hour))
	w.want(hour, 2*hour+15*time.Minute)
}

func TestClockThatIsSetBackBeginsNothingTwice(t *testing.T) {
	w := newWorld(t, nil)
	w.live(begin.Add(3*hour + time.Minute))
	w.now = begin.Add(2*hour + 10*time.Minute)
	w.live(begin.Add(4*hour + time.Minute))
	w.want(hour, 2*hour, 3*hour, 4*hour)
	w.now = begin
	w.cj.Status.SettledTime = stamp(begin.AddDate(4, 0, 0))
	w.created, w.runs, w.order = map[string]time.Time{}, map[string]run{}, nil
	w.live(begin.Add(hour + time.Minute))
	w.want(hour)
}

func TestStatusTellsTheNextThreeTimes(t *testing.T) {
	w := newWorld(t, nil)
	w.turn()
	var got []string
	for _, at := range w.cj.Status.NextTimes {
		got = append(got, at.UTC().Format(time.TimeOnly))
	}
	if fmt.Sprint(got) != "[01:00:00 02:00:00 03:00:00]" {
		t.Errorf("the next times are %v", got)
	}
	w.cj.Spec.Suspend = true
	if w.turn(); w.cj.Status.NextTimes != nil {
		t.Errorf("a suspended CronJob has next times: %v", w.cj.Status.NextTimes)
	}
}
