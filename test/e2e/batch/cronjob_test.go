// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestCronJob uses the features of CronJobs one by one, with schedules of seconds. The parts share a namespace.
func TestCronJob(t *testing.T) {
	p := newPlace(framework.NewNamespace(t, "cronjob"))
	for name, part := range map[string]func(*place){
		"Concurrency": concurrency, "MissedRuns": missedRuns, "RetryAndDeadline": retryAndDeadline, "Call": callsOnTime,
		"DependsOn": dependsOn, "History": history, "TasksOfAWorkflow": workflowTask, "InvalidSpec": invalidSpec,
		"Blocked": blockedRuns,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(&place{p.In(t)})
		})
	}
}

// concurrency has runs that take longer than the time between two.
func concurrency(p *place) {
	task := "task: {script: {" + shell + ", source: 'trap \"exit 0\" TERM; sleep 12 & wait'}}"
	allow := p.cronJob("allow", "concurrency: {policy: Allow}\n"+task)
	p.until(allow, "runs beside itself", func(s batchv1.CronJobStatus) bool { return len(s.Active) > 1 })
	p.remove(allow)
	forbid := p.cronJob("forbid", task)
	replace := p.cronJob("replace", "concurrency: {policy: Replace}\nschedules: ['*/8 * * * * *']\n"+
		strings.Replace(task, "sleep 12", "sleep 900", 1))
	queue := p.cronJob("queue", "concurrency: {policy: Queue, max: 1}\n"+task)
	p.until(forbid, "has skipped a time", func(s batchv1.CronJobStatus) bool {
		if len(s.Active) > 1 {
			p.Errorf("CronJob %q runs beside itself: %+v", forbid.Name, s.Active)
		}
		return s.Counts.Succeeded > 0 && s.Counts.Skipped > 0 && strings.Contains(s.Message, "another run is under way")
	})
	p.until(replace, "has replaced a run", func(s batchv1.CronJobStatus) bool {
		return s.LastFailure != nil && s.LastFailure.Reason == "it was cancelled" && s.Counts.Started > 1
	})
	p.until(queue, "has a run after one that waited, and skipped others", func(s batchv1.CronJobStatus) bool {
		return s.Counts.Succeeded > 1 && s.Counts.Skipped > 0
	})
	for _, cj := range []*batchv1.CronJob{forbid, replace, queue} {
		p.remove(cj)
	}
}

// missedRuns has times pass while CronJobs are suspended.
func missedRuns(p *place) {
	const call = "\nsuspend: true\nschedules: ['*/2 * * * * *']\ntask: {http: {url: '%s'}}"
	skip := p.cronJob("skip", fmt.Sprintf("missedRuns: {policy: Skip}\nconcurrency: {policy: Allow}"+call, p.url("/skip")))
	latest := p.cronJob("latest", fmt.Sprintf("missedRuns: {policy: Latest}"+call, p.url("/latest")))
	all := p.cronJob("all", fmt.Sprintf("missedRuns: {policy: All, max: 3}\nconcurrency: {policy: Allow}"+call,
		p.url("/all")))
	p.until(all, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil && s.Suspended })
	clock := p.cronJob("clock", "concurrency: {policy: Allow}\nschedules: ['*/2 * * * * *']\ntask: {http: {url: '"+
		p.url("/clock")+"'}}")
	p.until(clock, "has run six times meanwhile", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded >= 6 })
	for _, cj := range []*batchv1.CronJob{skip, latest, all} {
		p.change(cj, "suspend: false")
	}
	p.until(all, "has made up for three times", func(s batchv1.CronJobStatus) bool {
		return s.Counts.Started >= 3 && s.Counts.Skipped >= 2 && strings.Contains(s.Message, "were missed: missedRuns is All")
	})
	p.until(latest, "has made up for one",
		func(s batchv1.CronJobStatus) bool { return s.Counts.Started >= 1 && s.Counts.Skipped >= 4 })
	p.until(skip, "goes on", func(s batchv1.CronJobStatus) bool { return s.Counts.Started >= 1 && s.Counts.Skipped == 0 })
	for _, cj := range []*batchv1.CronJob{skip, latest, all, clock} {
		p.change(cj, "suspend: true")
		p.once(cj)
		p.remove(cj)
	}
}

// once checks that no time has two runs: each call of a CronJob's server has a key of its own, and there are as many as
// runs.
func (p *place) once(cj *batchv1.CronJob) {
	p.Helper()
	p.until(cj, "is at rest", func(s batchv1.CronJobStatus) bool {
		return s.Suspended && len(s.Active)+
			len(s.Waiting) == 0
	})
	keys := map[string]int{}
	for _, call := range p.calls("/" + cj.Name) {
		_, key, _ := strings.Cut(call, "key=")
		keys[key]++
	}
	if n := int64(len(keys)); n != cj.Status.Counts.Started || cj.Status.Counts.Failed != 0 {
		p.Errorf("CronJob %q has %d runs of which %d failed, and %d calls", cj.Name, cj.Status.Counts.Started,
			cj.Status.Counts.Failed, n)
	}
}

// retryAndDeadline has runs that fail, and that take too long.
func retryAndDeadline(p *place) {
	yearly := "schedules: ['@yearly']\n"
	fails := p.cronJob("fails", yearly+"retry: {limit: 2, backoff: 1s}\ntask: {script: {"+shell+
		", source: 'echo $IDEMPOTENCY_KEY; exit 3'}}")
	slow := p.cronJob("slow-run", yearly+"activeDeadline: 10s\ntask: {script: {"+shell+
		", source: 'trap \"exit 0\" TERM; sleep 900 & wait'}}")
	for _, cj := range []*batchv1.CronJob{fails, slow} {
		p.annotate(cj, batchv1.RunAnnotation, "now")
		p.until(cj, "has failed", func(s batchv1.CronJobStatus) bool { return s.Counts.Failed == 1 })
	}
	failure := fails.Status.LastFailure
	if n := len(p.jobs(failure.Operation)); n != 3 || !strings.Contains(failure.Reason, "exit code 3") {
		p.Errorf("the run has %d Jobs, want 3, and says %q", n, failure.Reason)
	}
	if failure := slow.Status.LastFailure; !strings.Contains(failure.Reason, "not done within 10s") {
		p.Errorf("the slow run says %q", failure.Reason)
	}
	p.noPods(slow.Status.LastFailure.Operation)
}

// blockedRuns has runs whose pods cannot start. What each lacks is in status.active and in a condition while that
// lasts. One goes on when it is there, and the others end at their deadline.
func blockedRuns(p *place) {
	const image, yearly = "zeroinfra/none:0", "schedules: ['@yearly']\n"
	unpulled := p.cronJob("unpulled", yearly+"activeDeadline: 60s\ntask: {container: {image: '"+image+
		"', command: ['true']}}")
	large := p.cronJob("large", yearly+"activeDeadline: 60s\ntask: {script: {"+shell+
		", source: 'true', resources: {requests: {cpu: 9000}}}}")
	late := p.cronJob("late", yearly+"task: {script: {"+shell+", source: 'test \"$WORD\" = please', env: "+
		"[{name: WORD, secret: {name: late, key: word}}]}}")
	all := map[*batchv1.CronJob]struct{ reason, says string }{
		unpulled: {platformv1.ReasonImageUnavailable, `cannot get image "` + image + `"`},
		large:    {platformv1.ReasonPodUnschedulable, "Insufficient cpu"},
		late:     {platformv1.ReasonProcessFailing, `secret "late" not found`},
	}
	for cj := range all {
		p.annotate(cj, batchv1.RunAnnotation, "now")
	}
	for cj, want := range all {
		p.until(cj, "says what keeps its pod from starting", func(s batchv1.CronJobStatus) bool {
			c := meta.FindStatusCondition(s.Conditions, batchv1.RunBlockedCondition)
			return c != nil && c.Reason == want.reason && strings.Contains(c.Message, want.says) && len(s.Active) == 1 &&
				strings.Contains(s.Active[0].Message, want.says)
		})
	}
	p.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta("late"), StringData: map[string]string{"word": "please"}})
	p.until(late, "goes on", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded == 1 })
	for _, cj := range []*batchv1.CronJob{unpulled, large} {
		p.until(cj, "has failed", func(s batchv1.CronJobStatus) bool { return s.Counts.Failed == 1 })
		if why := cj.Status.LastFailure.Reason; !strings.Contains(why, "not done within 1m0s") ||
			!strings.Contains(why, all[cj].says) {
			p.Errorf("the run of CronJob %q failed for %q, want %q", cj.Name, why, all[cj].says)
		}
	}
	for cj := range all {
		if c := meta.FindStatusCondition(cj.Status.Conditions, batchv1.RunBlockedCondition); c != nil {
			p.Errorf("CronJob %q has no run, and says %+v", cj.Name, c)
		}
		p.remove(cj)
	}
}

// callsOnTime has a CronJob without an account call the server.
func callsOnTime(p *place) {
	cj := p.cronJob("calls", `
serviceAccountName: ""
task: {http: {method: PUT, url: '`+p.url("/calls")+
		`', body: '${parameters.scheduledTime}', check: response.json.state == "ok"}}
`)
	p.until(cj, "has run twice", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded >= 2 })
	p.change(cj, "suspend: true")
	p.once(cj)
	p.remove(cj)
}

// dependsOn has runs wait for a CronJob and for a Workflow.
func dependsOn(p *place) {
	first := p.cronJob("first", "schedules: ['@yearly']\ntask: {http: {url: '"+p.url("/first")+"'}}")
	const task = "\nconcurrency: {policy: Forbid}\ntask: {http: {url: '%s'}}"
	hasty := p.cronJob("hasty", "dependsOn: [{name: first, within: 1h}]"+fmt.Sprintf(task, p.url("/hasty")))
	patient := p.cronJob("patient", "dependsOn: [{name: first, within: 1h, timeout: 10m}]"+
		fmt.Sprintf(task, p.url("/patient")))
	loaded := p.cronJob("loaded", "dependsOn: [{name: loads, kind: Workflow, within: 1h, timeout: 10m}]"+
		fmt.Sprintf(task, p.url("/loaded")))
	p.until(hasty, "has skipped a time", func(s batchv1.CronJobStatus) bool {
		return s.Counts.Skipped > 0 && strings.Contains(s.Message,
			`CronJob "first", which it depends on, did not succeed within 1h0m0s before`)
	})
	for _, cj := range []*batchv1.CronJob{patient, loaded} {
		p.until(cj, "waits", func(s batchv1.CronJobStatus) bool { return len(s.Waiting) > 0 && s.Counts.Started == 0 })
	}
	p.annotate(first, batchv1.RunAnnotation, "now")
	p.ended(p.workflow("loads", "tasks: [{name: load, http: {url: '"+p.url("/loads")+"'}}]"), batchv1.WorkflowSucceeded)
	for _, cj := range []*batchv1.CronJob{hasty, patient, loaded} {
		p.until(cj, "runs once that has succeeded", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded > 0 })
		p.remove(cj)
	}
}

// history has runs go that have ended.
func history(p *place) {
	cj := p.cronJob("short", "history: {succeeded: 1, failed: 0}\nschedules: ['*/3 * * * * *']\ntask: {http: {url: '"+
		p.url("/short")+"'}}")
	p.until(cj, "has run three times", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded >= 3 })
	p.change(cj, "suspend: true")
	p.Eventually(framework.SettleTimeout, "one run is kept", func() error {
		var list platformv1.OperationList
		err := framework.Cluster.Client.List(p.Ctx, &list, client.InNamespace(p.Name),
			client.MatchingLabels{batchv1.CronJobLabel: cj.Name})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
	p.remove(cj)
}

// workflowTask has a CronJob run the tasks of a Workflow.
func workflowTask(p *place) {
	template := p.workflow("bill", `
templateOnly: true
parameters: [{name: of}, {name: scheduledTime}]
tasks:
  - {name: count, script: {`+shell+
		`, source: 'echo "at $SCHEDULED_TIME"; echo "rows=3" >/dev/termination-log', outputs: {rows: string}}}
  - {name: tell, dependsOn: [{name: count}], http: {url: '`+p.url("/bill-${parameters.of}-${tasks.count.outputs.rows}")+
		`'}}
`)
	cj := p.cronJob("bills", "schedules: ['@yearly']\ntask: {workflow: {templateFrom: {name: bill}, arguments: {of: x}}}")
	p.phase(template, batchv1.WorkflowIsTemplate)
	p.annotate(cj, batchv1.RunAnnotation, "now")
	p.until(cj, "has run", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded == 1 })
	if calls := p.calls("/bill-x-3"); len(calls) != 1 {
		p.Errorf("the calls are %q", calls)
	}
}

// invalidSpec is refused where it is created, or told at once.
func invalidSpec(p *place) {
	for name, c := range map[string]struct{ spec, want string }{
		"zone": {"{timeZone: Europe/Berln, task: {http: {url: 'http://a'}}}", `time zone "Europe/Berln" does not exist`},
		"day":  {"{schedules: ['0 0 30 2 *'], task: {http: {url: 'http://a'}}}", "names a day that never comes"},
	} {
		cj := &batchv1.CronJob{ObjectMeta: framework.ObjectMeta("invalid-" + name)}
		cj.Spec.Schedules, cj.Spec.TimeZone = []string{"@daily"}, "UTC"
		p.read(c.spec, &cj.Spec)
		if err := p.TryCreate(cj); err != nil {
			p.ExpectRefused(err, c.want)
			continue
		}
		p.until(cj, "is stalled", func(s batchv1.CronJobStatus) bool {
			return strings.Contains(framework.Describe(s.Conditions), c.want)
		})
	}
}

// remove deletes a CronJob, and its runs and pods go with it.
func (p *place) remove(cj *batchv1.CronJob) {
	p.Helper()
	p.Delete(cj)
	p.Eventually(framework.RemovalTimeout, "the runs of "+cj.Name+" are gone", func() error {
		var list platformv1.OperationList
		var pods corev1.PodList
		err := framework.Cluster.Client.List(p.Ctx, &list, client.InNamespace(p.Name),
			client.MatchingLabels{batchv1.CronJobLabel: cj.Name})
		if err == nil {
			err = framework.Cluster.Client.List(p.Ctx, &pods, client.InNamespace(p.Name))
		}
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; err == nil && strings.HasPrefix(pod.Labels[platformv1.OperationLabel], cj.Name+"-2") {
				err = fmt.Errorf("there is pod %q", pod.Name)
			}
		}
		return err
	})
}
