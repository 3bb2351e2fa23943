// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"testing"
	"time"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// The next leader comes after the next time: the run of the one before is the one that this time is skipped for, and is
// counted.
func TestRunOfAKilledLeaderIsNeitherForgottenNorHasAnotherBesideIt(t *testing.T) {
	w := newWorld(t, nil)
	w.takes = 90 * time.Minute
	w.live(begin.Add(hour - time.Second))
	w.now = begin.Add(hour)
	w.killedTurn(1)
	w.now = begin.Add(2*hour + time.Minute)
	w.turn()
	w.want(hour)
	if s := w.cj.Status; s.Counts.Started != 1 || s.Counts.Skipped != 1 || len(s.Active) != 1 {
		t.Errorf("the status is %+v", s)
	}
	w.live(begin.Add(2*hour + 59*time.Minute))
	if s := w.cj.Status; s.Counts.Succeeded != 1 || len(s.Active) != 0 {
		t.Errorf("after its end the status is %+v", s)
	}
}

// The history of a suspended CronJob keeps what its status does not have yet, so that it does not run once more.
func TestHistoryKeepsTheRunOfAKilledLeaderUntilItIsCounted(t *testing.T) {
	three, none := int32(3), int32(0)
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		s.MissedRuns = batchv1.MissedRuns{Policy: "All", Max: &three}
		s.History.Succeeded = &none
	})
	w.live(begin.Add(hour - time.Second))
	w.now = begin.Add(hour)
	w.killedTurn(1)
	w.cj.Spec.Suspend = true
	w.live(begin.Add(3*hour + 10*time.Minute))
	if len(w.runs) != 1 {
		t.Errorf("%d runs are kept, want the one that is not counted", len(w.runs))
	}
	w.cj.Spec.Suspend = false
	w.live(begin.Add(3*hour + 30*time.Minute))
	w.want(hour, 2*hour, 3*hour)
	if c := w.cj.Status.Counts; c.Started != 3 || c.Succeeded != 3 || c.Skipped != 0 || len(w.runs) != 0 {
		t.Errorf("the counts are %+v, and %d runs are kept", c, len(w.runs))
	}
}

// A time whose deadline passed while the CronJob was suspended takes no place from one that can begin.
func TestTimesThatWaitedTooLongAreInNobodysWay(t *testing.T) {
	one := int32(1)
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		s.Schedules, s.StartingDeadline, s.MissedRuns.Policy = []string{"*/20 * * * *"}, duration(10*time.Minute), "Latest"
		s.Concurrency = batchv1.Concurrency{Policy: "Queue", Max: &one}
	})
	w.takes = 50 * time.Minute
	w.live(begin.Add(41 * time.Minute))
	w.cj.Spec.Suspend = true
	w.live(begin.Add(145 * time.Minute))
	if len(w.cj.Status.Waiting) != 1 {
		t.Fatalf("no time waits: %+v", w.cj.Status)
	}
	w.cj.Spec.Suspend = false
	w.turn()
	w.want(20*time.Minute, 140*time.Minute)
}

// A place in the queue is free for a time once the first that waits has its turn.
func TestQueueHasRoomForAsManyAsMayWait(t *testing.T) {
	one, three := int32(1), int32(3)
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		s.MissedRuns = batchv1.MissedRuns{Policy: "All", Max: &three}
		s.Concurrency = batchv1.Concurrency{Policy: "Queue", Max: &one}
	})
	w.turn()
	w.now = begin.Add(3*hour + time.Minute)
	w.live(begin.Add(3*hour + 30*time.Minute))
	w.want(hour, 2*hour)
	if s := w.cj.Status; s.Counts.Skipped != 1 {
		t.Errorf("the status is %+v", s)
	}
}

// A leader that is killed between the run of the last time and its status leaves those before it replaced.
func TestNoEarlierTimeReplacesTheRunOfAKilledLeader(t *testing.T) {
	three := int32(3)
	w := newWorld(t, func(s *batchv1.CronJobSpec) {
		s.MissedRuns = batchv1.MissedRuns{Policy: "All", Max: &three}
		s.Concurrency.Policy = "Replace"
	})
	w.takes = 10 * time.Minute
	w.turn()
	w.now = begin.Add(3*hour + time.Minute)
	w.killedTurn(1)
	w.live(begin.Add(3*hour + 30*time.Minute))
	w.want(3 * hour)
	if c := w.cj.Status.Counts; c.Started != 1 || c.Succeeded != 1 || c.Skipped != 2 {
		t.Errorf("the counts are %+v", c)
	}
}
