// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"errors"
	"testing"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// The last failure is that of the run that failed last, in whatever order runs are counted that ended while nobody was
// there.
func TestLastFailureIsOfTheRunThatFailedLast(t *testing.T) {
	w := newWorld(t, func(s *batchv1.CronJobSpec) { s.Concurrency.Policy = "Allow" })
	w.takes = 5 * hour
	w.live(begin.Add(3*hour + time.Minute))
	for i, ended := range []time.Duration{4 * hour, 3*hour + 10*time.Minute, 3*hour + 30*time.Minute} {
		name := nameOf(w.cj, begin.Add(time.Duration(i+1)*hour))
		r := w.runs[name]
		r.ended, r.phase, r.failure = begin.Add(ended), platformv1.OperationFailed, name
		if i == 2 {
			r.phase = platformv1.OperationSucceeded
		}
		w.runs[name] = r
	}
	w.now = begin.Add(4*hour + 10*time.Minute)
	w.turn()
	if s := w.cj.Status; s.Counts.Failed != 2 || s.LastFailure.Operation != nameOf(w.cj, begin.Add(hour)) {
		t.Errorf("the last failure is %+v", s.LastFailure)
	}
}

// Runs that end while the spec cannot be had are counted.
func TestRunsAreCountedThoughTheSpecIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.live(begin.Add(hour))
	name := nameOf(w.cj, begin.Add(hour))
	r := w.runs[name]
	r.ended, r.phase, r.failure = begin.Add(hour+time.Minute), platformv1.OperationFailed, "it broke"
	refuse(w.cj, errors.New("the Workflow is gone"), nil, facts{now: w.now, runs: map[string]run{name: r}})
	s := w.cj.Status
	if len(s.Active) != 0 || s.Counts.Failed != 1 || s.LastFailure.Reason != "it broke" {
		t.Errorf("the status is %+v", s)
	}
}
