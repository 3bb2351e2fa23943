// SPDX-License-Identifier: Apache-2.0

package opsflow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// flow drives an Operation with an inline template. reply says what comes of an effect; nil leaves it under way.
type flow struct {
	t        *testing.T
	op       *platformv1.Operation
	facts    opsflow.Facts
	reply    func(*opsflow.Effect) *opsflow.Answer
	decision opsflow.Decision
	// asked are the keys of all effects, in order, each once.
	asked []string
	// records is how often the status was to be written.
	records int
}

func newFlow(t *testing.T, template string, reply func(*opsflow.Effect) *opsflow.Answer) *flow {
	t.Helper()
	op := &platformv1.Operation{Spec: platformv1.OperationSpec{Template: template, ServiceAccountName: "worker",
		Author: "ada"}}
	op.Name, op.UID = "run", "1"
	parsed, refusal := opsflow.InlineTemplate(op.Spec)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return &flow{t: t, op: op, reply: reply, facts: opsflow.Facts{Now: time.Unix(1000, 0), Template: parsed}}
}

// reconcile goes on until nothing more happens at this moment.
func (f *flow) reconcile(earlier *platformv1.Operation) {
	f.t.Helper()
	f.facts.Answers = map[string]*opsflow.Answer{}
	next := func() opsflow.Decision { return opsflow.Next(f.op, f.facts) }
	if f.op.Status.Phase == "" {
		next = func() opsflow.Decision { return opsflow.Start(f.op, "", f.facts, earlier) }
	}
	for range 1000 {
		f.decision = next()
		if opsflow.NeedsRecord(f.op, f.decision) {
			f.records++
			f.op.Status = f.decision.Status
		}
		effect := f.decision.Effect
		if effect == nil {
			return
		}
		answer := f.reply(effect)
		if answer == nil {
			answer = &opsflow.Answer{Failure: opsflow.FailureUnreachable, Problem: "not yet"}
		}
		f.facts.Answers[effect.Key] = answer
		f.asked = append(f.asked, effect.Key)
		next = func() opsflow.Decision { return opsflow.Next(f.op, f.facts) }
	}
	f.t.Fatal("it goes on for ever")
}

// phases are those of the steps, as a text.
func (f *flow) phases() string {
	var all []string
	for _, step := range f.op.Status.Steps {
		all = append(all, fmt.Sprintf("%s=%s", step.Name, step.Phase))
	}
	return strings.Join(all, " ")
}

func (f *flow) want(phase platformv1.OperationPhase, steps string) {
	f.t.Helper()
	if f.op.Status.Phase != phase || f.phases() != steps {
		f.t.Errorf("it is %s (%s) with %s, want %s with %s", f.op.Status.Phase, f.op.Status.Error, f.phases(), phase, steps)
	}
}

// calls answers calls: those whose URL ends with bad fail, and those that end with slow are under way.
func calls(e *opsflow.Effect) *opsflow.Answer {
	switch {
	case strings.HasSuffix(e.HTTP.URL, "bad"):
		return &opsflow.Answer{HTTP: &opsflow.HTTPResponse{Status: 500}}
	case strings.HasSuffix(e.HTTP.URL, "slow"):
		return nil
	}
	return &opsflow.Answer{HTTP: &opsflow.HTTPResponse{Status: 200}}
}

const graph = `
name: Graph
steps:
  - {name: a, needs: [], onFailure: FailAtEnd, http: {url: 'http://x/bad'}}
  - {name: b, needs: [], onFailure: FailAtEnd, http: {url: 'http://x/good'}}
  - {name: c, needs: [a, b], when: 'tasks.a.phase == "Succeeded"', onFailure: FailAtEnd, http: {url: 'http://x/good'}}
  - {name: d, needs: [a], when: 'tasks.a.phase == "Failed"', onFailure: FailAtEnd, http: {url: 'http://x/good'}}
  - {name: tell, finally: true, http: {url: 'http://x/${tasks.a.phase}'}}
  - {name: last, finally: true, needs: [tell], http: {url: 'http://x/good'}}
`

func TestRunFailsAtItsEndAndGoesOnFromThere(t *testing.T) {
	f := newFlow(t, graph, calls)
	f.reconcile(nil)
	f.want(platformv1.OperationFailed, "a=Failed b=Succeeded c=Skipped d=Succeeded tell=Succeeded last=Succeeded")
	if want := `step "a" failed: the server answered with status 500: `; f.op.Status.Error != want {
		t.Errorf("the error is %q, want %q", f.op.Status.Error, want)
	}
	again := newFlow(t, graph, func(*opsflow.Effect) *opsflow.Answer {
		return &opsflow.Answer{HTTP: &opsflow.HTTPResponse{Status: 200}}
	})
	if refusal := opsflow.Retryable(again.op, f.op, again.facts); refusal != nil {
		t.Fatal(refusal)
	}
	again.reconcile(f.op)
	again.want(platformv1.OperationSucceeded,
		"a=Succeeded b=Succeeded c=Succeeded d=Skipped tell=Succeeded last=Succeeded")
	if got := strings.Join(again.asked, " "); got != "1/a 1/c 1/tell 1/last" {
		t.Errorf("it asked for %s", got)
	}
}

// A step that did not have its run fail runs again in another one as well, and what follows from it is not taken over.
func TestRetryOfAStepThatTheRunContinuedWithoutGoesOnFromThere(t *testing.T) {
	f := newFlow(t, strings.Replace(graph, "onFailure: FailAtEnd", "onFailure: Continue", 1)+
		"  - {name: e, needs: [b], onFailure: FailAtEnd, http: {url: 'http://x/bad'}}\n", calls)
	f.reconcile(nil)
	f.want(platformv1.OperationFailed,
		"a=Failed b=Succeeded c=Skipped d=Succeeded e=Failed tell=Succeeded last=Succeeded")
	again := newFlow(t, f.op.Spec.Template, func(*opsflow.Effect) *opsflow.Answer {
		return &opsflow.Answer{HTTP: &opsflow.HTTPResponse{Status: 200}}
	})
	again.reconcile(f.op)
	again.want(platformv1.OperationSucceeded,
		"a=Succeeded b=Succeeded c=Succeeded d=Skipped e=Succeeded tell=Succeeded last=Succeeded")
}

// What is left to do after an approval waits for that of the run that does it, also where what is in between is done.
func TestRetryWaitsForTheApprovalThatItAsksForAgain(t *testing.T) {
	const gated = `
name: Gated
steps:
  - {name: ask, needs: [], onFailure: FailAtEnd, approval: {message: go on}}
  - {name: a, needs: [ask], when: 'tasks.ask.phase == "Succeeded"', onFailure: FailAtEnd, http: {url: 'http://x/good'}}
  - {name: b, needs: [a], when: 'tasks.a.phase == "Succeeded"', onFailure: FailAtEnd, http: {url: 'http://x/bad'}}
  - {name: tell, finally: true, http: {url: 'http://x/good'}}
`
	decide := func(f *flow, decision platformv1.OperationDecision) {
		f.op.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: decision}
		f.reconcile(nil)
	}
	f := newFlow(t, gated, calls)
	f.reconcile(nil)
	decide(f, platformv1.OperationApproved)
	f.want(platformv1.OperationFailed, "ask=Succeeded a=Succeeded b=Failed tell=Succeeded")
	for decision, want := range map[platformv1.OperationDecision]string{
		platformv1.OperationApproved: "Succeeded: ask=Succeeded a=Succeeded b=Succeeded tell=Succeeded",
		platformv1.OperationRejected: "Failed: ask=Failed a=Succeeded b=Skipped tell=Succeeded",
	} {
		again := newFlow(t, strings.Replace(gated, "bad", "better", 1), calls)
		again.facts.Now = f.facts.Now.Add(time.Hour)
		again.reconcile(f.op)
		again.want(platformv1.OperationAwaitingApproval, "ask=Running a=Succeeded b=Pending tell=Pending")
		decide(again, decision)
		phase, steps, _ := strings.Cut(want, ": ")
		again.want(platformv1.OperationPhase(phase), steps)
	}
}

func TestFinalStepsAreTakenHoweverARunEnds(t *testing.T) {
	slow := strings.Replace(graph, "http://x/bad", "http://x/slow", 1)
	for title, end := range map[string]func(*flow){
		"cancel":  func(f *flow) { f.op.Spec.Cancel = true },
		"timeout": func(f *flow) { f.facts.Now = f.facts.Now.Add(time.Hour) },
	} {
		t.Run(title, func(t *testing.T) {
			f := newFlow(t, slow, calls)
			f.reconcile(nil)
			f.want(platformv1.OperationRunning, "a=Running b=Succeeded c=Pending d=Pending tell=Pending last=Pending")
			end(f)
			f.reconcile(nil)
			phase, a := platformv1.OperationCancelled, "Cancelled"
			if title == "timeout" {
				phase, a = platformv1.OperationFailed, "Failed"
			}
			f.want(phase, "a="+a+" b=Succeeded c=Pending d=Pending tell=Succeeded last=Succeeded")
		})
	}
}

// A step that is taken finally goes on when its run is cancelled meanwhile: it would be taken then, had it not begun.
func TestFinalStepThatHasBegunGoesOnWhenTheRunIsCancelled(t *testing.T) {
	answers := false
	f := newFlow(t, strings.NewReplacer("http://x/bad", "http://x/good", "http://x/${tasks.a.phase}", "http://x/slow").
		Replace(graph), func(e *opsflow.Effect) *opsflow.Answer {
		if answers {
			return &opsflow.Answer{HTTP: &opsflow.HTTPResponse{Status: 200}}
		}
		return calls(e)
	})
	f.reconcile(nil)
	const tasks = "a=Succeeded b=Succeeded c=Succeeded d=Skipped "
	f.want(platformv1.OperationRunning, tasks+"tell=Running last=Pending")
	f.op.Spec.Cancel = true
	f.reconcile(nil)
	f.want(platformv1.OperationRunning, tasks+"tell=Running last=Pending")
	answers = true
	f.reconcile(nil)
	f.want(platformv1.OperationCancelled, tasks+"tell=Succeeded last=Succeeded")
	if got := strings.Join(f.asked, " "); strings.Count(got, "1/last") != 1 || strings.Contains(got, "stop") {
		t.Errorf("it asked for %s", got)
	}
}

func TestFinalStepHasATimeOfItsOwn(t *testing.T) {
	f := newFlow(t, "name: Graph\ntimeout: 10s\nsteps:\n  - {name: a, http: {url: 'http://x/good'}}\n  - {name: tell, "+
		"finally: true, http: {url: 'http://x/slow'}}\n", calls)
	f.reconcile(nil)
	f.facts.Now = f.facts.Now.Add(time.Minute)
	f.reconcile(nil)
	f.want(platformv1.OperationRunning, "a=Succeeded tell=Running")
	f.facts.Now = f.facts.Now.Add(time.Hour)
	f.reconcile(nil)
	f.want(platformv1.OperationFailed, "a=Succeeded tell=Failed")
}

func TestNoMoreStepsAreUnderWayThanMayBe(t *testing.T) {
	slow := map[string]bool{"1/b": true, "1/c": true}
	f := newFlow(t, `
name: Graph
parallelism: 2
steps:
  - {name: a, needs: [], http: {url: 'http://x/good'}}
  - {name: b, needs: [], http: {url: 'http://x/good'}}
  - {name: c, needs: [], http: {url: 'http://x/good'}}
  - {name: d, needs: [], http: {url: 'http://x/good'}}
  - {name: e, needs: [], when: 'false', http: {url: 'http://x/good'}}
`, func(e *opsflow.Effect) *opsflow.Answer {
		if slow[e.Key] {
			return nil
		}
		return calls(e)
	})
	f.reconcile(nil)
	f.want(platformv1.OperationRunning, "a=Succeeded b=Running c=Running d=Pending e=Skipped")
	delete(slow, "1/c")
	f.reconcile(nil)
	f.want(platformv1.OperationRunning, "a=Succeeded b=Running c=Succeeded d=Succeeded e=Skipped")
}

func TestSuspendedRunBeginsNothing(t *testing.T) {
	f := newFlow(t, graph, calls)
	f.op.Spec.Suspend = true
	f.reconcile(nil)
	f.want(platformv1.OperationRunning, "a=Pending b=Pending c=Pending d=Pending tell=Pending last=Pending")
	if f.decision.Outcome.Reason() != platformv1.ReasonSuspended {
		t.Errorf("the reason is %s", f.decision.Outcome.Reason())
	}
	f.op.Spec.Cancel = true
	f.reconcile(nil)
	f.want(platformv1.OperationCancelled, "a=Pending b=Pending c=Pending d=Pending tell=Succeeded last=Succeeded")
}

const fan = `
name: Fan
steps:
  - {name: each, forEach: '["0", "1", "2", "3", "4", "5"]', parallelism: 3, retry: {limit: 1, backoff: 1s},
      container: {image: example/tool, args: ['${each}']}}
`

func TestItemsAreTakenSeveralAtATime(t *testing.T) {
	states := map[string]platformv1.OperationPhase{}
	most, made := 0, map[string]int{}
	f := newFlow(t, fan, func(e *opsflow.Effect) *opsflow.Answer {
		if e.Job.Verb == opsflow.JobRun {
			made[e.Job.Name]++
		}
		if _, there := states[e.Job.Name]; !there {
			states[e.Job.Name] = platformv1.OperationRunning
		}
		running := 0
		for _, state := range states {
			if state == platformv1.OperationRunning {
				running++
			}
		}
		most = max(most, running)
		return &opsflow.Answer{Job: opsflow.JobState{Phase: states[e.Job.Name]}}
	})
	f.reconcile(nil)
	if f.records != 2 {
		t.Errorf("%d writes put on record that three items have begun, want 2", f.records)
	}
	states["run-each-2"] = platformv1.OperationFailed
	f.reconcile(nil)
	if f.decision.Status.Steps[0].Phase != platformv1.OperationRunning || len(states) != 3 {
		t.Fatalf("once an item has failed, the Jobs are %v", states)
	}
	end := func() {
		for name, state := range states {
			if state == platformv1.OperationRunning {
				states[name] = platformv1.OperationSucceeded
			}
		}
	}
	end()
	f.reconcile(nil)
	f.want(platformv1.OperationRunning, "each=Pending")
	f.facts.Now = f.facts.Now.Add(time.Second)
	for range 4 {
		f.reconcile(nil)
		end()
	}
	f.want(platformv1.OperationSucceeded, "each=Succeeded")
	if most != 3 || len(made) != 7 || made["run-each-2-try2"] != 1 || made["run-each-1"] != 1 ||
		made["run-each-4-try2"] != 1 {
		t.Errorf("at most %d Jobs ran at a time, and %v were made", most, made)
	}
	if step := f.op.Status.Steps[0]; step.Items == nil || step.Items.Succeeded != 6 || step.Items.Total != 6 ||
		step.Items.Done != "1-6" || len(step.Targets) != 0 {
		t.Errorf("the items are on record as %+v and %+v", step.Items, step.Targets)
	}
}

// A condition that cannot be evaluated may hold later, and says why it does not now. A value of a Secret is in no
// message.
func TestWaitSaysWhyItsConditionCannotBeEvaluated(t *testing.T) {
	for title, c := range map[string]struct{ kind, until, want string }{
		"a field that is not there": {"Pod", "object.status.phase == \"Succeeded\"",
			"waiting for Pod p to be as the template says: until cannot be evaluated: no such key: status"},
		"no number": {"Pod", "int(object.data) > 1", "waiting for Pod p to be as the template says: until cannot be " +
			"evaluated: type conversion error from 'string' to 'int'"},
		"of a Secret": {"Secret", "int(object.data) > 1",
			"waiting for Secret p to be as the template says: until cannot be evaluated"},
		"false": {"Pod", "object.data == \"x\"", "waiting for Pod p to be as the template says"},
	} {
		t.Run(title, func(t *testing.T) {
			f := newFlow(t, "name: W\nsteps:\n  - {name: w, wait: {apiVersion: v1, kind: "+c.kind+", name: p, until: '"+
				c.until+"'}}\n", func(*opsflow.Effect) *opsflow.Answer {
				return &opsflow.Answer{Object: map[string]any{"data": "c2VjcmV0"}}
			})
			f.reconcile(nil)
			f.want(platformv1.OperationRunning, "w=Running")
			if got := f.op.Status.Steps[0].Message; got != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}

func TestWaitFailsWhereItsObjectHas(t *testing.T) {
	phase := "Running"
	f := newFlow(t, "name: W\nsteps:\n  - {name: w, wait: {apiVersion: v1, kind: Pod, name: p, until: "+
		"'object.status.phase == \"Succeeded\"', fail: 'object.status.phase == \"Failed\"'}}\n",
		func(*opsflow.Effect) *opsflow.Answer {
			return &opsflow.Answer{Object: map[string]any{"status": map[string]any{"phase": phase}}}
		})
	f.reconcile(nil)
	f.want(platformv1.OperationRunning, "w=Running")
	phase = "Failed"
	f.reconcile(nil)
	f.want(platformv1.OperationFailed, "w=Failed")
}

// fleetOfJobs answers for the Jobs of step a, of which the first is somebody else's. It keeps which of them run.
func fleetOfJobs(running map[string]bool) func(*opsflow.Effect) *opsflow.Answer {
	return func(e *opsflow.Effect) *opsflow.Answer {
		state := opsflow.JobState{Phase: platformv1.OperationRunning}
		switch {
		case e.Job.Name == "run-a-1":
			return &opsflow.Answer{Failure: opsflow.FailureRefused, Problem: "there is a Job that is not of this Operation"}
		case e.Job.Verb == opsflow.JobStopStep && e.Job.Task.Step == "a":
			state = opsflow.JobState{}
			clear(running)
		case e.Job.Verb == opsflow.JobStop:
			state = opsflow.JobState{}
			delete(running, e.Job.Name)
		default:
			running[e.Job.Name] = true
		}
		return &opsflow.Answer{Job: state}
	}
}

// A step that is stopped leaves the Job of no item running: not those behind a Job of somebody else, nor one that is
// not on record since its turn was lost.
func TestAStoppedStepEndsTheJobsOfAllItems(t *testing.T) {
	running := map[string]bool{}
	f := newFlow(t, `
name: Many
steps:
  - {name: a, forEach: '["x", "y", "z"]', parallelism: 2, container: {image: 'example/tool:1'}}
`, fleetOfJobs(running))
	f.reconcile(nil)
	f.want(platformv1.OperationRunning, "a=Running")
	if !running["run-a-2"] {
		t.Fatalf("these run: %v", running)
	}
	running["run-a-3"] = true
	f.op.Spec.Cancel = true
	f.reconcile(nil)
	f.want(platformv1.OperationCancelled, "a=Cancelled")
	if len(running) > 0 {
		t.Errorf("these still run: %v", running)
	}
}
