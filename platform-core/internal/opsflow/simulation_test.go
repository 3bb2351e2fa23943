// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// agent is a process manager in the simulation: it keeps a record by key.
type agent struct {
	records map[string]report.Call
	latest  string
	failure Failure
	problem string
}

// world is what an Operation acts on in the simulation, and the story so far.
type world struct {
	op     *platformv1.Operation
	facts  Facts
	agents map[types.UID]*agent
	story  strings.Builder
	// crash ends the controller once, at that point.
	crash crashPoint
	// jobs by name, and how often each was made.
	jobs map[string]*JobState
	made map[string]int
	// children by name, objects by kind and name, the value of each field that was edited, and the request to hand over.
	children map[string]*platformv1.OperationStatus
	objects  map[string]map[string]any
	// uids of the objects, by kind and name; one that has none is the first of its name.
	uids    map[string]string
	fields  map[string]any
	request string
	// refuse says why an effect is refused, by its kind.
	refuse map[string]string
}

type crashPoint string

const (
	crashNever       crashPoint = ""
	crashBeforeWrite crashPoint = "before the status is written"
	crashAfterWrite  crashPoint = "after the status is written, before the call"
	crashAfterCall   crashPoint = "after the call"
	// Around the deletion of an object.
	crashBeforeDelete crashPoint = "before it deletes"
	crashAfterDelete  crashPoint = "after it has deleted"
)

func restartTemplate() optemplate.Template {
	return optemplate.Template{Name: "Restart", Steps: []optemplate.Step{
		{Name: "restart", Agent: &optemplate.AgentStep{Call: optemplate.AgentRestart}},
	}}
}

func newWorld(template optemplate.Template, pods ...Pod) *world {
	w := &world{
		op:     &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "op", UID: "op-uid"}},
		facts:  Facts{Now: epoch, Template: template, Target: `Redis "a"`, Sets: []string{"redis-a-main"}, Pods: pods},
		agents: map[types.UID]*agent{},
		jobs:   map[string]*JobState{}, made: map[string]int{},
		children: map[string]*platformv1.OperationStatus{}, objects: map[string]map[string]any{}, uids: map[string]string{},
		fields: map[string]any{}, refuse: map[string]string{},
	}
	for _, pod := range pods {
		w.agents[pod.UID] = &agent{records: map[string]report.Call{}}
	}
	return w
}

func pod(ordinal int32, access platformv1.RoleAccess) Pod {
	name := fmt.Sprintf("redis-a-main-%d", ordinal)
	return Pod{Name: name, Component: "redis", Set: "main", Ordinal: ordinal, Access: access,
		UID: types.UID(fmt.Sprintf("uid-%d", ordinal)), Presence: PodRunning, Ready: metav1.ConditionTrue,
		Report: report.Report{Health: report.Healthy}}
}

// at returns the pod with the ordinal.
func (w *world) at(ordinal int) *Pod {
	for i := range w.facts.Pods {
		if int(w.facts.Pods[i].Ordinal) == ordinal {
			return &w.facts.Pods[i]
		}
	}
	return nil
}

// shows has the report of a pod show its latest call in a phase, and a health.
func (w *world) shows(ordinal int, phase, message string, health report.Health) {
	p := w.at(ordinal)
	a := w.agents[p.UID]
	call := report.Call{Key: a.latest, Phase: phase, Message: message}
	a.records[a.latest] = call
	p.Report.LastCall, p.Report.Health = &call, health
}

// done has the latest call of a pod succeed and its report say so.
func (w *world) done(ordinal int) { w.shows(ordinal, report.CallSucceeded, "", report.Healthy) }

// replace puts another pod under the name of one.
func (w *world) replace(ordinal int) {
	p := w.at(ordinal)
	p.UID += "-new"
	p.Presence = PodRunning
	p.Report = report.Report{Health: report.Healthy}
	w.agents[p.UID] = &agent{records: map[string]report.Call{}}
}

// call carries out a call as a process manager does.
func (w *world) call(effect *Effect) *Answer {
	call := effect.Call
	if call == nil {
		return w.other(effect)
	}
	a := w.agents[call.UID]
	if a.failure != "" {
		w.tell("  call %s of %s: %s", method(call), call.Pod, a.failure)
		return &Answer{Failure: a.failure, Problem: a.problem}
	}
	record, known := a.records[effect.Key]
	if !known {
		record = report.Call{Key: effect.Key, Phase: report.CallRunning}
		a.records[effect.Key], a.latest = record, effect.Key
		w.tell("  call %s of %s with key %s: begins", method(call), call.Pod, effect.Key)
	} else {
		w.tell("  call %s of %s with the same key: %s", method(call), call.Pod, record.Phase)
	}
	answer := &Answer{Call: record, Latest: a.latest}
	if call.Action != "" && record.Phase == report.CallSucceeded {
		answer.Outputs = map[string]string{"said": "yes to " + call.Parameters["what"]}
	}
	return answer
}

func method(call *Call) string {
	if call.Action != "" {
		return fmt.Sprintf("%s%v", call.Action, call.Parameters)
	}
	return string(call.Method)
}

// other carries out what is no call of an agent.
func (w *world) other(effect *Effect) *Answer {
	refused := func(what string) *Answer {
		w.tell("  %s: refused", what)
		return &Answer{Failure: FailureRefused, Problem: w.refuse[what]}
	}
	switch {
	case effect.Child != nil && w.refuse["child"] != "":
		return refused("child")
	case effect.Child != nil:
		child := w.children[effect.Child.Name]
		if child == nil && effect.Child.Verb == ChildLook {
			return &Answer{Failure: FailureRefused, Problem: "Operation " + effect.Child.Name + " is gone"}
		}
		if child == nil {
			child = &platformv1.OperationStatus{Phase: platformv1.OperationPending}
			w.children[effect.Child.Name] = child
			w.tell("  Operation %s of %s%v is made", effect.Child.Name, effect.Child.Spec.TemplateRef,
				effect.Child.Spec.Parameters)
		}
		return &Answer{Child: *child}
	case effect.Edit != nil && w.refuse["edit"] != "":
		return refused("edit")
	case effect.Edit != nil:
		changed := ""
		for _, field := range effect.Edit.Fields {
			if w.fields[field.Field] != field.Value {
				changed = fmt.Sprintf("%s → %v", field.Field, field.Value)
				w.fields[field.Field] = field.Value
				w.tell("  edit %s", changed)
			}
		}
		return &Answer{Outputs: map[string]string{OutputGeneration: "2", OutputChanged: changed}}
	case effect.Job != nil:
		return w.job(effect.Job)
	case effect.Life != nil && effect.Life.UID != "":
		w.tell("  %s is deleted", w.facts.Target)
		w.facts.Self.Going = PodGoing
		return &Answer{}
	case effect.Life != nil:
		if w.facts.Self == nil {
			w.made["target"]++
			w.tell("  %s is made: %v", w.facts.Target, effect.Life.Spec)
			w.facts.Self = &Self{UID: "self", Maker: w.op.UID}
		}
		return &Answer{Outputs: map[string]string{OutputUID: string(w.facts.Self.UID), OutputGeneration: "1"}}
	case effect.Handover != nil:
		if request := effect.Handover.From + "/" + effect.Handover.To + string(effect.Handover.Way); request != w.request {
			w.request = request
			w.tell("  %s is asked to hand over: %q", effect.Handover.Set, request)
		}
		answer := &Answer{Problem: w.refuse["handover"]}
		if refusal := w.refuse["for now"]; refusal != "" {
			answer.Outputs = map[string]string{OutputProgress: refusal, OutputRefusal: refusal}
		}
		return answer
	}
	switch {
	case effect.Rebuild != nil:
		return w.rebuild(effect.Rebuild)
	case effect.Object.Verb == ObjectDelete && w.refuse["delete"] != "":
		return refused("delete")
	}
	return w.object(effect.Object)
}

// job carries out what is to be done about a Job, as a cluster in which a deletion takes until the next thing happens.
func (w *world) job(job *Job) *Answer {
	have := w.jobs[job.Name]
	switch {
	case job.Verb == JobRun && have == nil:
		have = &JobState{Phase: platformv1.OperationRunning}
		w.jobs[job.Name] = have
		w.made[job.Name]++
		w.tell("  job %s is made: %q like %s, for %s", job.Name, job.Command, job.Component, job.Deadline)
		if job.Pod != "" {
			w.tell("  it has the volumes of pod %s", job.Pod)
		}
	case have == nil:
		return &Answer{}
	case job.Verb == JobRemove, job.Verb == JobStop && have.Phase == platformv1.OperationRunning &&
		have.Message != "stopping":
		w.tell("  job %s is deleted", job.Name)
		if have.Message = "stopping"; job.Verb == JobRemove {
			delete(w.jobs, job.Name)
		}
	}
	return &Answer{Job: *have}
}

// uid of an object that is there.
func (w *world) uid(name string) string { return cmp.Or(w.uids[name], "the first") }

func (w *world) object(object *Object) *Answer {
	name := object.Kind + " " + object.Name
	switch object.Verb {
	case ObjectGet:
		if w.objects[name] == nil {
			return &Answer{}
		}
		found := maps.Clone(w.objects[name])
		found["metadata"] = map[string]any{"uid": w.uid(name)}
		return &Answer{Object: found}
	case ObjectDelete:
		if w.objects[name] != nil && w.uid(name) == string(object.UID) {
			w.tell("  delete %s (%s)", name, object.UID)
			delete(w.objects, name)
		}
		return &Answer{}
	}
	if fmt.Sprint(w.objects[name]) != fmt.Sprint(object.Content) {
		w.tell("  %s %s: %v", object.Verb, name, object.Content)
		w.objects[name] = object.Content
	}
	return &Answer{}
}

// reconcile is one reconcile: as the controller does it, with crashes where the story wants them.
func (w *world) reconcile() {
	for range 30 {
		var d Decision
		if w.op.Status.Phase == "" || w.op.Status.Phase == platformv1.OperationPending {
			d = Start(w.op, "redis-a", w.facts, nil)
		} else {
			d = Next(w.op, w.facts)
		}
		if w.crashes(crashBeforeWrite) {
			return
		}
		w.write(d)
		deletes := d.Effect != nil && d.Effect.Object != nil && d.Effect.Object.Verb == ObjectDelete
		if d.Effect == nil || w.crashes(crashAfterWrite) || deletes && w.crashes(crashBeforeDelete) {
			return
		}
		answer := w.call(d.Effect)
		if w.crashes(crashAfterCall) || deletes && w.crashes(crashAfterDelete) {
			return
		}
		w.facts.Answers[d.Effect.Key] = answer
	}
	w.tell("  the controller goes round in circles")
}

func (w *world) crashes(at crashPoint) bool {
	if w.crash != at {
		return false
	}
	w.crash = crashNever
	w.tell("  the controller dies %s", at)
	return true
}

func (w *world) write(d Decision) {
	was, is := describe(&w.op.Status), describe(&d.Status)
	w.op.Status = d.Status
	if was != is {
		w.tell("  status: %s", is)
	}
	if clock := d.Outcome.After(); d.Effect == nil && clock > 0 && clock < time.Minute {
		w.tell("  looks again after %s", clock)
	}
}

func describe(s *platformv1.OperationStatus) string {
	text := fmt.Sprintf("%s, progress %q", s.Phase, s.Progress)
	for _, condition := range s.Conditions {
		text += fmt.Sprintf(", %s %s", condition.Type, condition.Reason)
	}
	for _, step := range s.Steps {
		text += fmt.Sprintf("; step %s %s", step.Name, step.Phase)
		if step.Attempts > 1 {
			text += fmt.Sprintf(" in attempt %d", step.Attempts)
		}
		for _, target := range step.Targets {
			text += fmt.Sprintf(", %s(%s) %s", target.Name, target.UID, target.Phase)
		}
		if step.Message != "" && s.Error == "" {
			text += fmt.Sprintf(": %s", step.Message)
		}
	}
	if s.Error != "" {
		text += "; error: " + s.Error
	}
	return text
}

func (w *world) tell(format string, args ...any) { fmt.Fprintf(&w.story, format+"\n", args...) }

// happens tells of an event, has it happen, and lets the controller look.
func (w *world) happens(what string, do func(w *world)) {
	w.tell("%s", what)
	if do != nil {
		do(w)
	}
	w.facts.Answers = map[string]*Answer{}
	if Finished(w.op) {
		w.tell("  (finished: left alone)")
		return
	}
	w.reconcile()
}

// sane checks what must hold in every story.
func (w *world) sane(t *testing.T) {
	t.Helper()
	for name, times := range w.made {
		if times > 1 {
			t.Errorf("job %s was made %d times", name, times)
		}
	}
	begun := strings.Count(w.story.String(), ": begins")
	keys := map[string]bool{}
	for _, a := range w.agents {
		for key := range a.records {
			if strings.HasPrefix(key, "op-uid/") {
				keys[key] = true
			}
		}
	}
	if begun != len(keys) {
		t.Errorf("%d calls began for %d keys", begun, len(keys))
	}
	if Finished(w.op) && w.op.Status.CompletionTime == nil {
		t.Error("finished without a completionTime")
	}
	if int(w.op.Status.CurrentStep) > len(w.op.Status.Steps) {
		t.Errorf("currentStep is %d of %d", w.op.Status.CurrentStep, len(w.op.Status.Steps))
	}
}
