// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"strings"
	"testing"
	"time"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

var loadKey = dependencyKey{kind: batchv1.DependsOnCronJob, name: "load"}

// depends has a CronJob wait for another one that has succeeded within some time, as long as a timeout says.
func depends(within, timeout time.Duration) func(*batchv1.CronJobSpec) {
	return func(s *batchv1.CronJobSpec) {
		s.DependsOn = []batchv1.Dependency{{Name: loadKey.name, Within: duration(within), Timeout: duration(timeout)}}
	}
}

// A run is cancelled for a time once that can begin: not while it waits for a dependency, and not when it is skipped.
func TestReplaceCancelsNoRunForATimeThatItsDependencyKeepsBack(t *testing.T) {
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		depends(30*time.Minute, 20*time.Minute)(s)
		s.Concurrency.Policy = "Replace"
	})
	w.takes = 10 * hour
	w.others[loadKey] = &dependency{success: stamp(begin.Add(50 * time.Minute))}
	w.live(begin.Add(2*hour + time.Minute))
	if s := w.cj.Status; len(s.Active) != 1 || len(s.Waiting) != 1 || len(w.cancelled) != 0 ||
		!strings.HasSuffix(s.WaitingFor, "did not succeed within 30m0s before") {
		t.Errorf("while the time waits the status is %+v", s)
	}
	w.live(begin.Add(2*hour + 30*time.Minute))
	if s := w.cj.Status; len(s.Active) != 1 || len(s.Waiting) != 0 || s.Counts.Skipped != 1 || len(w.cancelled) != 0 {
		t.Errorf("when the time is skipped the status is %+v", s)
	}
	w.live(begin.Add(3*hour + time.Minute))
	w.others[loadKey] = &dependency{success: stamp(begin.Add(3*hour + time.Minute))}
	w.live(begin.Add(3*hour + 2*time.Minute))
	w.want(hour, 3*hour)
	if c := w.cj.Status.Counts; c.Failed != 1 || c.Skipped != 1 {
		t.Errorf("the counts are %+v", c)
	}
}

// A time that is skipped at once takes the place of none that waits.
func TestATimeThatIsSkippedReplacesNone(t *testing.T) {
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		depends(30*time.Minute, 0)(s)
		s.DependsOn = append(s.DependsOn, batchv1.Dependency{Name: "check", Condition: batchv1.DependencyLastRunSucceeded,
			Timeout: duration(90 * time.Minute)})
		s.Concurrency.Policy = "Replace"
	})
	w.others[loadKey] = &dependency{success: stamp(begin.Add(50 * time.Minute))}
	w.live(begin.Add(2*hour + time.Minute))
	w.others[dependencyKey{kind: batchv1.DependsOnCronJob, name: "check"}] = &dependency{success: stamp(w.now)}
	w.turn()
	w.want(hour)
}

// Of the times that are made up for together, one that is skipped leaves its place to the next one.
func TestQueueHasRoomForATimeAfterOneThatIsSkipped(t *testing.T) {
	one, three := int32(1), int32(3)
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		depends(30*time.Minute, 70*time.Minute)(s)
		s.MissedRuns = batchv1.MissedRuns{Policy: "All", Max: &three}
		s.Concurrency = batchv1.Concurrency{Policy: "Queue", Max: &one}
	})
	w.others[loadKey] = &dependency{}
	w.turn()
	w.now = begin.Add(2*hour + 15*time.Minute)
	w.turn()
	if s := w.cj.Status; len(s.Waiting) != 1 || !s.Waiting[0].Equal(stamp(begin.Add(2*hour))) {
		t.Errorf("the status is %+v", s)
	}
}

// What a time depends on that waits behind another one is looked at when its turn has come, also when a further time
// comes as the run before it ends.
func TestATimeThatWaitsForARunIsNotSkippedAsTheNextOneBegins(t *testing.T) {
	two := int32(2)
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		depends(90*time.Minute, 0)(s)
		s.Concurrency = batchv1.Concurrency{Policy: "Queue", Max: &two}
	})
	w.takes = 150 * time.Minute
	w.others[loadKey] = &dependency{success: stamp(begin.Add(50 * time.Minute))}
	w.live(begin.Add(3*hour + 20*time.Minute))
	if s := w.cj.Status; len(s.Waiting) != 2 {
		t.Fatalf("two times are to wait: %+v", s)
	}
	// The run of 01:00 has ended when 04:00 comes. That of 02:00 begins, and 03:00 waits for it.
	w.now = begin.Add(4 * hour)
	w.turn()
	w.want(hour, 2*hour)
	w.others[loadKey] = &dependency{success: stamp(begin.Add(5 * hour))}
	w.live(begin.Add(6*hour + 40*time.Minute))
	w.want(hour, 2*hour, 3*hour)
}

// The day of a time begins at the first moment that the clocks show on it, where they leave out midnight as well.
func TestTheDayOfATimeBeginsAfterAGapAtMidnight(t *testing.T) {
	for success, runs := range map[string]bool{"2028-09-02T23:59:59-04:00": false, "2028-09-03T01:00:00-03:00": true} {
		w := newWorld(t, func(s *batchv1.CronJobSpec) {
			s.Schedules, s.TimeZone = []string{"0 9 * * *"}, "America/Santiago"
			s.DependsOn = []batchv1.Dependency{{Name: loadKey.name, Condition: batchv1.DependencySucceededSameDay}}
		})
		at, err := time.Parse(time.RFC3339, success)
		if err != nil {
			t.Fatal(err)
		}
		w.others[loadKey] = &dependency{success: stamp(at)}
		w.now = at
		w.cj.Status.SettledTime = stamp(at)
		w.live(at.Add(12 * hour))
		if (len(w.order) == 1) != runs {
			t.Errorf("after a success at %s there are runs for %v", success, w.order)
		}
	}
}

// However many times come while a dependency is waited for, the status has room for them.
func TestUnderAllowNoMoreTimesWaitThanTheStatusHasRoomFor(t *testing.T) {
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		depends(30*time.Minute, 48*hour)(s)
		s.Schedules, s.Concurrency.Policy = []string{"* * * * *"}, "Allow"
	})
	w.now = begin.Add(20 * hour)
	w.cj.Status.SettledTime = stamp(w.now)
	for i := range mostWaiting - 5 {
		w.cj.Status.Waiting = append(w.cj.Status.Waiting, *stamp(begin.Add(time.Duration(i) * time.Minute)))
	}
	w.live(begin.Add(20*hour + 25*time.Minute))
	s := w.cj.Status
	if len(s.Waiting) != mostWaiting || s.Counts.Skipped != 20 || !strings.HasSuffix(s.Message, "1000 runs are waiting") {
		t.Errorf("%d times wait, and %d were skipped: %s", len(s.Waiting), s.Counts.Skipped, s.Message)
	}
}

// A time is not skipped for a run that is not under way.
func TestATimeThatComesWhileAnEarlierOneWaitsSaysSo(t *testing.T) {
	w := newWorld(t, depends(30*time.Minute, 90*time.Minute))
	w.live(begin.Add(2*hour + time.Minute))
	want := "2027-01-01T02:00:00Z was skipped: the run of an earlier time waits"
	if s := w.cj.Status; s.Message != want {
		t.Errorf("the message is %q, want %q", s.Message, want)
	}
}
