// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestCronJobRuns has runs that are tried again, wait for others, or are containers. The parts share a namespace.
func TestCronJobRuns(t *testing.T) {
	p := newPlace(framework.NewNamespace(t, "cronjob-runs"))
	for name, part := range map[string]func(*place){
		"ExitCodes": exitCodes, "DependencyConditions": dependencyConditions, "MissingDependency": missingDependency,
		"Mutex": mutex, "Semaphore": semaphore, "Container": container,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(&place{p.In(t)})
		})
	}
}

// exitCodes has runs tried again after the exit codes that are listed only, or after all but those.
func exitCodes(p *place) {
	for exits, want := range map[string]struct {
		codes string
		jobs  int
		says  string
	}{
		"3":  {"exitCodes: [3, 5]", 3, "exit code 3"},
		"4":  {"exitCodes: [3, 5]", 1, "it is not tried again, since retry.exitCodes does not have 4"},
		"77": {"exceptExitCodes: [78]", 3, "exit code 77"},
		"78": {"exceptExitCodes: [78]", 1, "it is not tried again after exit code 78"},
	} {
		cj := p.cronJob("exits-"+exits, "schedules: ['@yearly']\nretry: {limit: 2, backoff: 1s, "+want.codes+"}\n"+
			"task: {script: {"+shell+", source: exit "+exits+"}}")
		p.annotate(cj, batchv1.RunAnnotation, "now")
		p.until(cj, "has failed", func(s batchv1.CronJobStatus) bool { return s.Counts.Failed == 1 })
		failure := cj.Status.LastFailure
		if n := len(p.jobs(failure.Operation)); n != want.jobs || !strings.Contains(failure.Reason, want.says) {
			p.Errorf("the run that exits with %s has %d Jobs and says %q, want %d and %q", exits, n, failure.Reason, want.jobs,
				want.says)
		}
	}
}

// dependent is a CronJob that depends on another one under some conditions.
func (p *place) dependent(name, on, conditions, spec string) *batchv1.CronJob {
	p.Helper()
	return p.cronJob(name, "dependsOn: [{name: "+on+", "+conditions+"}]\n"+spec+p.called("/"+name))
}

// dependencyConditions has CronJobs depend on one whose last run failed, and then succeeded.
func dependencyConditions(p *place) {
	const last, day = "condition: LastRunSucceeded", "condition: SucceededSameDay"
	upstream := p.cronJob("upstream", "schedules: ['@yearly']"+p.called("/broken"))
	p.annotate(upstream, batchv1.RunAnnotation, "first")
	p.until(upstream, "has failed", func(s batchv1.CronJobStatus) bool { return s.Counts.Failed == 1 })
	patient := p.dependent("patient", upstream.Name, last+", otherwise: Run, timeout: 12s", "")
	p.until(patient, "waits for a success", func(s batchv1.CronJobStatus) bool {
		return len(s.Waiting) > 0 && s.Counts.Started == 0 &&
			strings.HasSuffix(s.WaitingFor, `CronJob "upstream", which it depends on, did not succeed the last time`)
	})
	strict, daily := p.dependent("strict", upstream.Name, last, ""), p.dependent("daily", upstream.Name, day, noon())
	anyway := p.dependent("anyway", upstream.Name, last+", otherwise: Run", "")
	for _, cj := range []*batchv1.CronJob{patient, anyway} {
		p.until(cj, "runs all the same", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded > 0 })
		p.remove(cj)
	}
	for cj, says := range map[*batchv1.CronJob]string{strict: "the last time", daily: "on the same day"} {
		p.until(cj, "has skipped two times", func(s batchv1.CronJobStatus) bool {
			return s.Counts.Skipped > 1 && strings.HasSuffix(s.Message,
				`was skipped: CronJob "upstream", which it depends on, did not succeed `+says)
		})
		if cj.Status.Counts.Started > 0 {
			p.Errorf("CronJob %q has run before what it depends on succeeded: %+v", cj.Name, cj.Status.Counts)
		}
	}
	p.change(upstream, "task: {http: {url: '"+p.url("/upstream")+"'}}")
	p.annotate(upstream, batchv1.RunAnnotation, "second")
	p.until(upstream, "has succeeded", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded == 1 })
	for _, cj := range []*batchv1.CronJob{strict, daily} {
		p.until(cj, "runs once that has succeeded", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded > 0 })
		p.remove(cj)
	}
}

// noon is a time zone whose clocks show noon, so that no day ends while a test runs.
func noon() string {
	// These zones have the opposite sign.
	switch behind := time.Now().UTC().Hour() - 12; {
	case behind < 0:
		return fmt.Sprintf("timeZone: Etc/GMT%d", behind)
	case behind > 0:
		return fmt.Sprintf("timeZone: Etc/GMT+%d", behind)
	}
	return "timeZone: UTC"
}

// missingDependency has a CronJob wait for one that nobody has created yet.
func missingDependency(p *place) {
	invalid := func(s batchv1.CronJobStatus) string {
		c := meta.FindStatusCondition(s.Conditions, batchv1.DependencyInvalidCondition)
		if c == nil {
			return ""
		}
		return c.Reason + ": " + c.Message
	}
	cj := p.dependent("early", "absent", "condition: LastRunSucceeded, timeout: 10m", "")
	p.until(cj, "says what does not exist, and waits", func(s batchv1.CronJobStatus) bool {
		return strings.HasPrefix(invalid(s), platformv1.ReasonReferenceNotFound+
			`: spec.dependsOn names CronJob "absent", which does not exist`) && len(s.Waiting) > 0 &&
			strings.HasSuffix(s.WaitingFor, `CronJob "absent", which it depends on, does not exist`)
	})
	absent := p.cronJob("absent", "schedules: ['@yearly']"+p.called("/absent"))
	p.until(cj, "finds it, and waits on", func(s batchv1.CronJobStatus) bool {
		return invalid(s) == "" && s.Counts.Started == 0 && len(s.Waiting) > 0
	})
	p.annotate(absent, batchv1.RunAnnotation, "now")
	p.until(cj, "runs", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded > 0 })
	p.remove(cj)
}

// held has two CronJobs that have to hold the same: the one has a run that holds it until it is cancelled, and that of
// the other waits for this. It returns the two and the run of the first.
func (p *place) held(name, synchronization, says string) (holder, next *batchv1.CronJob, run *platformv1.Operation) {
	p.Helper()
	spec := "schedules: ['@yearly']\nsynchronization: " + synchronization + "\n"
	holder = p.cronJob(name+"-holder", spec+"task: {script: {"+shell+
		", source: 'trap \"exit 0\" TERM; sleep 900 & wait'}}")
	p.annotate(holder, batchv1.RunAnnotation, "now")
	p.until(holder, "has a run with a Job", func(s batchv1.CronJobStatus) bool {
		return len(s.Active) == 1 && len(p.jobs(s.Active[0].Operation)) == 1
	})
	run = &platformv1.Operation{}
	p.MustGet(holder.Status.Active[0].Operation, run)
	next = p.cronJob(name+"-next", spec+"task: {script: {"+shell+", source: 'true'}}")
	p.annotate(next, batchv1.RunAnnotation, "now")
	p.until(next, "waits", func(s batchv1.CronJobStatus) bool {
		return len(s.Active) == 1 &&
			s.Active[0].Message == fmt.Sprintf("waiting for %s, held by Operation %q", says, run.Name)
	})
	if n := len(p.jobs(next.Status.Active[0].Operation)); n != 0 {
		p.Errorf("the run that waits has %d Jobs", n)
	}
	return holder, next, run
}

// mutex is held by one run of two CronJobs at a time. The other one has it once the first is cancelled.
func mutex(p *place) {
	holder, next, run := p.held("mutex", "{mutexes: [{name: ledger}]}", `mutex "ledger"`)
	p.change(run, "cancel: true")
	p.until(next, "has its turn", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded == 1 })
	p.until(holder, "has no run", func(s batchv1.CronJobStatus) bool {
		return s.Counts.Failed == 1 && s.LastFailure.Reason == "it was cancelled"
	})
}

// semaphore is held by one run of two CronJobs, until its limit is raised.
func semaphore(p *place) {
	limits := configMapOf("limits", map[string]string{"licenses": "1"})
	p.Create(limits)
	holder, next, run := p.held("semaphore", "{semaphores: [{configMapKeyRef: {name: limits, key: licenses}}]}",
		`semaphore "licenses" of ConfigMap "limits", whose limit is 1`)
	limits.Data["licenses"] = "2"
	if err := framework.Cluster.Client.Update(p.Ctx, limits); err != nil {
		p.Fatal(err)
	}
	p.until(next, "has its turn beside the other", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded == 1 })
	p.MustGet(run.Name, run)
	if run.Status.Phase.Ended() {
		p.Errorf("the run that holds the semaphore too is %s", run.Status.Phase)
	}
	p.change(run, "cancel: true")
	p.until(holder, "has no run", func(s batchv1.CronJobStatus) bool { return s.Counts.Failed == 1 })
}

// container has a run of a container look at its variables and its arguments, and one that ends badly.
func container(p *place) {
	task := func(word string) string {
		return `
schedules: ['@yearly']
task:
  container:
    ` + strings.ReplaceAll(shell, ", ", "\n    ") + `
    command: [sh, -ec]
    args: ['test "$0" = "$SCHEDULED_TIME"; test "$WORD" = ` + word + `; echo "key is $IDEMPOTENCY_KEY"',
      '${parameters.scheduledTime}']
    env: [{name: WORD, value: green}]
`
	}
	good, bad := p.cronJob("contained", task("green")), p.cronJob("contained-bad", task("red"))
	p.annotate(good, batchv1.RunAnnotation, "now")
	p.annotate(bad, batchv1.RunAnnotation, "now")
	p.until(good, "has run", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded == 1 })
	p.until(bad, "has failed", func(s batchv1.CronJobStatus) bool {
		return s.Counts.Failed == 1 && strings.Contains(s.LastFailure.Reason, "exit code 1")
	})
	runs := p.runs(good)
	if len(runs) != 1 {
		p.Fatalf("there are %d runs", len(runs))
	}
	key := fmt.Sprintf("key is %s/run/now", good.UID)
	if log := p.Kubectl("logs", "-l", platformv1.OperationLabel+"="+runs[0].Name); !strings.Contains(log, key) {
		p.Errorf("the log is %q, want %q", log, key)
	}
}
