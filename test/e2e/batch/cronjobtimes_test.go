// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestCronJobTimes has runs come when the fields of their CronJobs say, and go when these do. The parts share a
// namespace.
func TestCronJobTimes(t *testing.T) {
	p := newPlace(framework.NewNamespace(t, "cronjob-times"))
	for name, part := range map[string]func(*place){
		"StartingDeadline": startingDeadline, "WaitedTooLong": waitedTooLong, "HistoryByAge": historyByAge,
		"Spread": spread, "Jitter": jitter, "TimeZone": timeZone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(&place{p.In(t)})
		})
	}
}

// runs of a CronJob that there are.
func (p *place) runs(cj *batchv1.CronJob) []platformv1.Operation {
	p.Helper()
	var list platformv1.OperationList
	err := framework.Cluster.Client.List(p.Ctx, &list, client.InNamespace(p.Name),
		client.MatchingLabels{batchv1.CronJobLabel: cj.Name})
	if err != nil {
		p.Fatal(err)
	}
	return list.Items
}

// scheduledFor is the time of a run.
func (p *place) scheduledFor(run *platformv1.Operation) time.Time {
	p.Helper()
	at, err := time.Parse(time.RFC3339, run.Annotations[platformv1.ScheduledForAnnotation])
	if err != nil {
		p.Fatalf("run %q has no time: %v", run.Name, err)
	}
	return at
}

// called is the task of a CronJob that calls a path of the server.
func (p *place) called(path string) string { return "\ntask: {http: {url: '" + p.url(path) + "'}}" }

// startingDeadline has the last time pass while two CronJobs are suspended. Of these the one has a deadline that is
// over, and the other makes up for it.
func startingDeadline(p *place) {
	const every, spec = 20 * time.Second, "suspend: true\nmissedRuns: {policy: Latest}\nschedules: ['*/20 * * * * *']\n"
	strict := p.cronJob("strict", spec+"startingDeadline: 2s"+p.called("/strict"))
	lenient := p.cronJob("lenient", spec+"startingDeadline: 1h"+p.called("/lenient"))
	for _, cj := range []*batchv1.CronJob{strict, lenient} {
		p.until(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil && s.Suspended })
	}
	p.Eventually(framework.SettleTimeout, "a time has passed, and the next one is some seconds away", func() error {
		now := time.Now()
		last := now.Truncate(every)
		if since := now.Sub(last); !last.After(lenient.CreationTimestamp.Time) || since < 6*time.Second ||
			since > 13*time.Second {
			return fmt.Errorf("the last time was %s", last)
		}
		return nil
	})
	resumed := time.Now()
	p.change(strict, "suspend: false")
	p.change(lenient, "suspend: false")
	p.until(strict, "has skipped a time", func(s batchv1.CronJobStatus) bool {
		return s.Counts.Skipped > 0 && strings.Contains(s.Message, "was skipped: startingDeadline of 2s is over")
	})
	p.until(lenient, "has made up for a time", func(s batchv1.CronJobStatus) bool { return s.Counts.Started > 0 })
	if n := p.runsUpTo(lenient, resumed); n != 1 {
		p.Errorf("CronJob %q has %d runs of times while it was suspended, want 1", lenient.Name, n)
	}
	p.until(strict, "goes on", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded > 0 })
	if n := p.runsUpTo(strict, resumed); n != 0 {
		p.Errorf("CronJob %q has %d runs that began after their deadline", strict.Name, n)
	}
	p.remove(strict)
	p.remove(lenient)
}

// runsUpTo is how many runs of a CronJob are for times up to a moment.
func (p *place) runsUpTo(cj *batchv1.CronJob, moment time.Time) int {
	p.Helper()
	n, all := 0, p.runs(cj)
	for i := range all {
		if !p.scheduledFor(&all[i]).After(moment) {
			n++
		}
	}
	return n
}

// waitedTooLong has times wait for a run that takes longer than their deadline.
func waitedTooLong(p *place) {
	cj := p.cronJob("hurried", "concurrency: {policy: Queue, max: 1}\nstartingDeadline: 3s\ntask: {script: {"+shell+
		", source: 'trap \"exit 0\" TERM; sleep 900 & wait'}}")
	p.until(cj, "has skipped two times, one after the other", func(s batchv1.CronJobStatus) bool {
		return s.Counts.Started == 1 && s.Counts.Skipped > 1 &&
			strings.Contains(s.Message, "was skipped: startingDeadline of 3s is over")
	})
	p.remove(cj)
}

// historyByAge has runs go, with their Jobs, some time after their end. Those of a CronJob without such a limit stay.
func historyByAge(p *place) {
	const aged, yearly = "history: {maxAge: 20s}\n", "schedules: ['@yearly']\n"
	const task = "task: {script: {" + shell + ", source: 'true'}}"
	kept, good := p.cronJob("kept", yearly+task), p.cronJob("aged", aged+yearly+task)
	bad := p.cronJob("aged-bad", aged+yearly+"task: {script: {"+shell+", source: exit 1}}")
	all := []*batchv1.CronJob{kept, good, bad}
	for _, cj := range all {
		p.annotate(cj, batchv1.RunAnnotation, "now")
	}
	operations := map[*batchv1.CronJob]string{}
	for _, cj := range all {
		p.until(cj, "has a run under way", func(s batchv1.CronJobStatus) bool { return s.Counts.Started == 1 })
		if runs := p.runs(cj); len(runs) == 1 {
			operations[cj] = runs[0].Name
		} else {
			p.Fatalf("CronJob %q has %d runs, want one that has not ended 20s ago", cj.Name, len(runs))
		}
	}
	for _, cj := range []*batchv1.CronJob{good, bad} {
		p.until(cj, "has counted its run",
			func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded+s.Counts.Failed == 1 })
		p.Eventually(framework.SettleTimeout, "the run of "+cj.Name+" and its Job are gone", func() error {
			if runs, jobs := p.runs(cj), p.jobs(operations[cj]); len(runs)+len(jobs) > 0 {
				return fmt.Errorf("there are %d runs and %d Jobs", len(runs), len(jobs))
			}
			return nil
		})
	}
	p.until(kept, "has counted its run", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded == 1 })
	if runs, jobs := p.runs(kept), p.jobs(operations[kept]); len(runs) != 1 || len(jobs) != 1 {
		p.Errorf("CronJob %q has %d runs and %d Jobs, want one of each", kept.Name, len(runs), len(jobs))
	}
	p.MustGet(good.Name, good)
	p.MustGet(bad.Name, bad)
	if good.Status.Counts.Succeeded != 1 || bad.Status.Counts.Failed != 1 || bad.Status.LastFailure == nil {
		p.Errorf("after their runs the counts are %+v and %+v", good.Status.Counts, bad.Status.Counts)
	}
}

// spread has CronJobs of one schedule with H run at times of their own, which follow from their names.
func spread(p *place) {
	const daily = "schedules: ['H H * * *']"
	next := func(cj *batchv1.CronJob) string {
		p.until(cj, "has next times", func(s batchv1.CronJobStatus) bool { return len(s.NextTimes) == 3 })
		return cj.Status.NextTimes[0].UTC().Format(time.TimeOnly)
	}
	of := map[string]string{}
	var all []*batchv1.CronJob
	for n := range 6 {
		all = append(all, p.cronJob(fmt.Sprintf("spread-%d", n), daily+p.called("/spread")))
	}
	first := next(all[0])
	for _, cj := range all {
		of[next(cj)] = cj.Name
	}
	if len(of) < 2 {
		p.Errorf("the times of %d CronJobs are %v", len(all), of)
	}
	p.remove(all[0])
	if again := next(p.cronJob(all[0].Name, daily+p.called("/spread"))); again != first {
		p.Errorf("made anew, CronJob %q comes at %s, and before at %s", all[0].Name, again, first)
	}
	often := p.cronJob("often", "schedules: ['H/10 * * * * *']"+p.called("/often"))
	p.until(often, "has run twice", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded > 1 })
	second, runs := often.Status.NextTimes[0].Second()%10, p.runs(often)
	for i := range runs {
		if at := p.scheduledFor(&runs[i]); at.Second()%10 != second {
			p.Errorf("there is a run for %s, and the next time is %s", at, often.Status.NextTimes[0])
		}
	}
	p.remove(often)
}

// jitter has runs begin some seconds after the times that they are for.
func jitter(p *place) {
	cj := p.cronJob("jittered", "schedules: ['*/10 * * * * *']\njitter: 8s"+p.called("/jittered"))
	p.Eventually(framework.SettleTimeout, "a run begins later than its time", func() error {
		var delays []time.Duration
		runs := p.runs(cj)
		for i := range runs {
			at := p.scheduledFor(&runs[i])
			delay := runs[i].CreationTimestamp.Sub(at)
			if at.Second()%10 != 0 || delay < 0 {
				p.Fatalf("run %q is for %s, and was created at %s", runs[i].Name, at, runs[i].CreationTimestamp)
			}
			if delay >= 3*time.Second {
				return nil
			}
			delays = append(delays, delay)
		}
		return fmt.Errorf("they are late by %v", delays)
	})
	p.remove(cj)
}

// timeZone has a time come when the clocks of a zone show it, and not when those of UTC do.
func timeZone(p *place) {
	at := time.Now().Add(25 * time.Second).Truncate(time.Second)
	shown := at.In(time.FixedZone("Asia/Kathmandu", int((5*time.Hour + 45*time.Minute).Seconds())))
	line := fmt.Sprintf("schedules: ['%d %d %d %d %d *']", shown.Second(), shown.Minute(), shown.Hour(), shown.Day(),
		shown.Month())
	there := p.cronJob("there", "timeZone: Asia/Kathmandu\n"+line+p.called("/there"))
	here := p.cronJob("here", line+p.called("/here"))
	p.until(there, "has run at its time", func(s batchv1.CronJobStatus) bool {
		return s.Counts.Succeeded == 1 && s.LastTime != nil && s.LastTime.Time.Equal(at)
	})
	later := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), shown.Second(), 0, time.UTC)
	p.until(here, "is to run when the clocks of UTC show that", func(s batchv1.CronJobStatus) bool {
		return s.Counts.Started == 0 && len(s.NextTimes) > 0 && s.NextTimes[0].Time.Equal(later)
	})
}
