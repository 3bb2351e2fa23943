// SPDX-License-Identifier: Apache-2.0

//go:build integration

package cronjob

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kubebatchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// The operator ends after it created a run and before it has written that down. The next one finds the run and creates
// no other.
func TestRunIsCreatedOnceThoughTheOperatorRestartsBeforeItsStatus(t *testing.T) {
	p := newPlace(t)
	fail := &atomic.Bool{}
	p.client = testkit.Unrecorded("CronJob", fail)
	stop := p.serve()
	cj := p.script("once", nil)
	p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
	if got := cj.Status.NextTimes; len(got) != 3 || !got[0].Equal(stamp(year(1))) || !got[2].Equal(stamp(year(3))) {
		t.Errorf("the next times are %v", got)
	}
	testkit.WaitForReady(t, env.Client, cj)
	fail.Store(true)
	p.reach(1, cj)
	first := p.job(cj, 1)
	stop()
	if cj.Status.Counts.Started != 0 {
		t.Fatalf("the status was written: %+v", cj.Status)
	}
	fail.Store(false)
	p.serve()
	p.wantCounts(cj, 1, 0, 0, 0)
	p.wantRuns(cj, 1)
	if s := cj.Status; !s.LastTime.Equal(stamp(year(1))) || len(s.Active) != 1 ||
		s.Active[0].Operation != nameOf(cj, year(1)) {
		t.Errorf("the status is %+v", s)
	}
	key := corev1.EnvVar{Name: envKey, Value: string(cj.UID) + "/" + year(1).Format(time.RFC3339)}
	at := corev1.EnvVar{Name: envTime, Value: year(1).Format(time.RFC3339)}
	if e := first.Spec.Template.Spec.Containers[0].Env; !slices.Contains(e, key) || !slices.Contains(e, at) {
		t.Errorf("the variables of the pod are %v", e)
	}
	p.finish(cj, 1, kubebatchv1.JobComplete)
	p.wantCounts(cj, 1, 1, 0, 0)
	p.says(cj, batchv1.LastRunSucceededCondition, "Succeeded", "the last run succeeded")
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: nameOf(cj, year(1))}}
	testkit.WaitFor(t, env.Client, op, "is there", nil)
	if !metav1.IsControlledBy(op, cj) {
		t.Errorf("the owners of the run are %v", op.OwnerReferences)
	}
}

func TestConcurrencyOfRuns(t *testing.T) {
	one := int32(1)
	for policy, end := range map[string]func(p *place, cj *batchv1.CronJob){
		"Allow": func(p *place, cj *batchv1.CronJob) {
			p.wantCounts(cj, 2, 0, 0, 0)
			p.wantRuns(cj, 1, 2)
		},
		"Forbid": func(p *place, cj *batchv1.CronJob) {
			p.wantCounts(cj, 1, 0, 0, 1)
			p.wantRuns(cj, 1)
			if !strings.Contains(cj.Status.Message, "was skipped: another run is under way") {
				p.Errorf("the message is %q", cj.Status.Message)
			}
		},
		"Replace": func(p *place, cj *batchv1.CronJob) {
			p.wantCounts(cj, 2, 0, 1, 0)
			p.wantRuns(cj, 1, 2)
			if f := cj.Status.LastFailure; f.Operation != nameOf(cj, year(1)) || f.Reason != "it was cancelled" {
				p.Errorf("the last failure is %+v", f)
			}
			job := p.job(cj, 2)
			if err := env.Client.Delete(p.Context(), cj); err != nil {
				p.Fatal(err)
			}
			testkit.WaitGone(p, env.Client, &platformv1.Operation{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: nameOf(cj, year(2))}})
			testkit.WaitGone(p, env.Client, job)
		},
		"Queue": func(p *place, cj *batchv1.CronJob) {
			p.waits(cj, "waits", func(s batchv1.CronJobStatus) bool {
				return len(s.Waiting) == 1 && s.Waiting[0].Equal(stamp(year(2)))
			})
			p.reach(3, cj)
			p.wantCounts(cj, 1, 0, 0, 1)
			p.finish(cj, 1, kubebatchv1.JobComplete)
			p.job(cj, 2)
			p.wantCounts(cj, 2, 1, 0, 1)
			p.wantRuns(cj, 1, 2)
		},
	} {
		t.Run(policy, func(t *testing.T) {
			p := newPlace(t)
			if policy == "Replace" {
				// A Job that is ended early goes with its pod.
				env.Controllers(t, testkit.GarbageCollector)
			}
			p.serve()
			cj := p.script("runs", func(s *batchv1.CronJobSpec) {
				s.Concurrency.Policy = policy
				if policy == "Queue" {
					s.Concurrency.Max = &one
				}
			})
			p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
			p.reach(1, cj)
			p.wantCounts(cj, 1, 0, 0, 0)
			p.job(cj, 1)
			p.reach(2, cj)
			end(p, cj)
		})
	}
}

// Times pass while a CronJob is suspended. When it is resumed, missedRuns says which of them have a run, and each has
// one at most.
func TestSuspendAndResume(t *testing.T) {
	two := int32(2)
	for policy, years := range map[string][]int{"Skip": nil, "Latest": {3}, "All": {2, 3}} {
		t.Run(policy, func(t *testing.T) {
			p := newPlace(t)
			p.serve()
			cj := p.script("rests", func(s *batchv1.CronJobSpec) {
				s.Suspend, s.Concurrency.Policy, s.MissedRuns.Policy = true, "Allow", policy
				if policy == "All" {
					s.MissedRuns.Max = &two
				}
			})
			p.says(cj, platformv1.ReadyCondition, platformv1.ReasonSuspended, "spec.suspend")
			p.reach(3, cj)
			p.edit(cj, func() { cj.Spec.Suspend = false })
			p.waits(cj, "is resumed", func(s batchv1.CronJobStatus) bool {
				return !s.Suspended && len(s.NextTimes) > 0 && s.NextTimes[0].Equal(stamp(year(4)))
			})
			p.wantRuns(cj, years...)
			p.edit(cj, func() { cj.Spec.Suspend = true })
			p.waits(cj, "is suspended", func(s batchv1.CronJobStatus) bool { return s.Suspended && s.NextTimes == nil })
			p.edit(cj, func() { cj.Spec.Suspend = false })
			p.waits(cj, "is resumed once more", func(s batchv1.CronJobStatus) bool { return !s.Suspended })
			p.wantRuns(cj, years...)
			if n := cj.Status.Counts.Started; n != int64(len(years)) {
				t.Errorf("%d runs were begun", n)
			}
		})
	}
}

func TestRunWaitsForTheCronJobThatItDependsOn(t *testing.T) {
	p := newPlace(t)
	p.serve()
	long := metav1.Duration{Duration: 8784 * time.Hour}
	load := p.script("load", nil)
	report := p.script("report", func(s *batchv1.CronJobSpec) {
		s.DependsOn = []batchv1.Dependency{{Name: "load", Within: &long, Timeout: &long}}
	})
	hasty := p.script("hasty", func(s *batchv1.CronJobSpec) {
		s.DependsOn = []batchv1.Dependency{{Name: "load", Within: &long}}
	})
	for _, cj := range []*batchv1.CronJob{load, report, hasty} {
		p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
	}
	p.reach(1, load, report, hasty)
	p.waits(report, "waits", func(s batchv1.CronJobStatus) bool { return len(s.Waiting) == 1 })
	p.wantCounts(hasty, 0, 0, 0, 1)
	if !strings.Contains(hasty.Status.Message, `CronJob "load", which it depends on, did not succeed within`) {
		t.Errorf("the message is %q", hasty.Status.Message)
	}
	p.finish(load, 1, kubebatchv1.JobComplete)
	p.wantCounts(report, 1, 0, 0, 0)
	p.finish(report, 1, kubebatchv1.JobFailed)
	p.wantCounts(report, 1, 0, 1, 0)
	p.says(report, batchv1.LastRunSucceededCondition, platformv1.ReasonOperationFailed, "Operation "+
		nameOf(report, year(1))+" failed: ")
}

// load is a Workflow that has succeeded, or has not ended.
func (p *place) load(phase batchv1.WorkflowPhase, end *metav1.Time) {
	p.Helper()
	wf := &batchv1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "load-today"}}
	testkit.Eventually(p, "the status of the Workflow is written", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(wf), wf); err != nil {
			return err
		}
		wf.Status.Phase, wf.Status.CompletionTime = phase, end
		return env.Client.Status().Update(ctx, wf)
	})
}

// A Workflow counts that has its tasks from the one that is named.
func TestRunWaitsForTheWorkflowThatItDependsOn(t *testing.T) {
	p := newPlace(t)
	p.serve()
	long := metav1.Duration{Duration: 8784 * time.Hour}
	p.create(&batchv1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "load-today"},
		Spec: batchv1.WorkflowSpec{TemplateFrom: &batchv1.WorkflowTemplate{Name: "load"}}})
	cj := p.script("report", func(s *batchv1.CronJobSpec) {
		s.DependsOn = []batchv1.Dependency{{Name: "load", Kind: batchv1.DependsOnWorkflow, Within: &long, Timeout: &long}}
	})
	p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
	p.reach(1, cj)
	p.waits(cj, "waits", func(s batchv1.CronJobStatus) bool { return len(s.Waiting) == 1 })
	p.load(batchv1.WorkflowFailed, stamp(year(1)))
	p.waits(cj, "still waits", func(s batchv1.CronJobStatus) bool { return len(s.Waiting) == 1 })
	p.load(batchv1.WorkflowSucceeded, stamp(year(1)))
	p.wantCounts(cj, 1, 0, 0, 0)
}

// The tasks are read from a Workflow, which can come later and can change.
func TestRunsOfTheTasksOfAWorkflow(t *testing.T) {
	p := newPlace(t)
	calls := newReceiver(t, p)
	p.serve()
	cj := p.script("graph", func(s *batchv1.CronJobSpec) {
		s.Task = batchv1.Task{Workflow: &batchv1.WorkflowRun{TemplateFrom: batchv1.WorkflowTemplate{Name: "bill"},
			Arguments: map[string]batchv1.Argument{"day": "1"}}}
	})
	p.says(cj, platformv1.StalledCondition, platformv1.ReasonInvalidSpec,
		`spec.task.workflow: there is no Workflow "bill" in this namespace`)
	bill := &batchv1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "bill"},
		Spec: batchv1.WorkflowSpec{
			TemplateOnly: true, Parameters: []batchv1.WorkflowParameter{{Name: "day"}},
			Tasks: []batchv1.WorkflowTask{
				{Name: "task", Script: &batchv1.ScriptTask{PodTask: batchv1.PodTask{Image: "example/tool:1"}, Source: "true"}},
				{Name: "tell", DependsOn: []batchv1.TaskDependency{{Name: "task"}},
					HTTP: &batchv1.HTTPTask{URL: "http://service.shop/${parameters.day}/${parameters.scheduledTime}"}},
			},
		}}
	p.create(bill)
	p.says(cj, platformv1.StalledCondition, platformv1.ReasonInvalidSpec, "they must be the same")
	if err := env.Client.Delete(t.Context(), bill); err != nil {
		t.Fatal(err)
	}
	bill.ResourceVersion, bill.UID, bill.Spec.ServiceAccountName = "", "", "worker"
	p.create(bill)
	testkit.WaitForReady(t, env.Client, cj)
	p.reach(1, cj)
	e := p.job(cj, 1).Spec.Template.Spec.Containers[0].Env
	if !slices.Contains(e, corev1.EnvVar{Name: envTime, Value: year(1).Format(time.RFC3339)}) {
		t.Errorf("the variables of the pod are %v", e)
	}
	p.finish(cj, 1, kubebatchv1.JobComplete)
	p.wantCounts(cj, 1, 1, 0, 0)
	if got := calls.received(); len(got) != 1 || !strings.HasPrefix(got[0], "GET /1/"+year(1).Format(time.RFC3339)) {
		t.Errorf("the calls are %q", got)
	}
}

func TestInvalidSpecIsToldAndMended(t *testing.T) {
	p := newPlace(t)
	p.serve()
	for name, c := range map[string]struct {
		change func(*batchv1.CronJobSpec)
		want   string
	}{
		"zone": {func(s *batchv1.CronJobSpec) { s.TimeZone = "Europe/Berln" }, `time zone "Europe/Berln" does not exist`},
		"day":  {func(s *batchv1.CronJobSpec) { s.Schedules = []string{"0 0 30 2 *"} }, "names a day that never comes"},
		"env": {func(s *batchv1.CronJobSpec) { s.Task.Script.Env = []batchv1.EnvVar{{Name: envKey, Value: "mine"}} },
			`spec.task.script.env[2].name is "IDEMPOTENCY_KEY", which another one has`},
		"output": {func(s *batchv1.CronJobSpec) { s.Task.Script.Args = []string{"${steps.no.outputs.a}"} },
			"spec.task.script.args[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			p.TB = t
			cj := p.script(name, c.change)
			p.says(cj, platformv1.StalledCondition, platformv1.ReasonInvalidSpec, c.want)
			p.edit(cj, func() {
				cj.Spec.Schedules, cj.Spec.TimeZone, cj.Spec.Task.Script.Env, cj.Spec.Task.Script.Args = []string{yearly}, "UTC",
					nil, nil
			})
			testkit.WaitForReady(t, env.Client, cj)
		})
	}
}

// The run of an account that may not create Jobs fails with what the API server says. That of another one goes on.
func TestAccountThatLacksTheRight(t *testing.T) {
	p := newPlace(t)
	p.serve()
	weak, fine := p.script("weak", func(s *batchv1.CronJobSpec) { s.ServiceAccountName = "weak" }), p.script("fine", nil)
	for _, cj := range []*batchv1.CronJob{weak, fine} {
		p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
	}
	p.reach(1, weak, fine)
	p.finish(fine, 1, kubebatchv1.JobComplete)
	p.wantCounts(fine, 1, 1, 0, 0)
	p.wantCounts(weak, 1, 0, 1, 0)
	p.says(weak, batchv1.LastRunSucceededCondition, platformv1.ReasonOperationFailed, `cannot create resource "jobs"`)
	testkit.WaitForReady(t, env.Client, weak)
}

// An Operation of somebody else with the name of a run is left alone, and the CronJob says so.
func TestNameOfARunThatIsTaken(t *testing.T) {
	p := newPlace(t)
	p.serve()
	cj := p.script("taken", nil)
	p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
	p.create(&platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: nameOf(cj, year(1))},
		Spec: platformv1.OperationSpec{Template: "name: A\nsteps: [{name: ask, approval: {message: go on}}]\n"}})
	p.reach(1, cj)
	p.says(cj, platformv1.StalledCondition, platformv1.ReasonNameTaken, nameOf(cj, year(1)))
}
