// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const writingSet = "redis-a-main"

// writingWorld has three pods of a set whose primary the engine names; pod 0 writes in term 2.
func writingWorld(template string, parameters map[string]string) *world {
	w := worldOf(approved, pod(0, primary), pod(1, reader), pod(2, reader))
	w.facts.Template = Defaults()[template]
	for name, value := range parameters {
		if w.op.Spec.Parameters == nil {
			w.op.Spec.Parameters = platformv1.Parameters{}
		}
		w.op.Spec.Parameters[name] = platformv1.ParameterValue(value)
	}
	w.facts.Parameters = ParametersInForce(w.op.Spec, w.facts.Template)
	record := &platformv1.PrimaryRecord{Term: 2, Member: &platformv1.SetMember{Name: "redis-a-main-0", Identity: "v0"},
		List: platformv1.MemberList{Version: 1}}
	record.Former = record.Member
	for i := range 3 {
		record.List.Members = append(record.List.Members,
			platformv1.SetMember{Name: fmt.Sprintf("redis-a-main-%d", i), Identity: fmt.Sprintf("v%d", i)})
		w.at(i).Claims = []Claim{{Name: fmt.Sprintf("data-redis-a-main-%d", i), UID: types.UID(fmt.Sprintf("claim-%d", i)),
			Presence: PodRunning}}
	}
	w.facts.Writing = map[string]Writing{writingSet: {Component: "redis", Record: record}}
	return w
}

// records has the set say something else of its primary, and the pods have the labels that follow.
func (w *world) records(change func(r *platformv1.PrimaryRecord)) {
	writing := w.facts.Writing[writingSet]
	writing.Record = writing.Record.DeepCopy()
	change(writing.Record)
	w.facts.Writing[writingSet] = writing
}

// deposed begins the next term at this moment.
func deposed(w *world) {
	w.records(func(r *platformv1.PrimaryRecord) {
		r.Term++
		r.Changes = append(r.Changes, platformv1.PrimaryChange{Term: r.Term, Cause: platformv1.PrimaryFailed,
			From:    r.Member.Name,
			Reason:  "the process of pod " + r.Member.Name + ", the primary, is down",
			Deposed: metav1.NewMicroTime(w.facts.Now)})
		r.Former, r.Member = r.Member, nil
	})
	for i := range 3 {
		w.at(i).Access = ""
	}
}

// named ends the vacancy 800 ms later.
func named(ordinal int) func(w *world) {
	return func(w *world) {
		w.facts.Now = w.facts.Now.Add(800 * time.Millisecond)
		w.records(func(r *platformv1.PrimaryRecord) {
			r.Member = new(r.List.Members[ordinal])
			last := &r.Changes[len(r.Changes)-1]
			last.To, last.Named, last.Choice, last.Order = r.Member.Name, new(metav1.NewMicroTime(w.facts.Now)),
				"its data is the most advanced", new(int64(42))
		})
	}
}

// labelled gives a pod the label of the role that writes, 100 ms later.
func labelled(ordinal int) func(w *world) {
	return func(w *world) {
		w.facts.Now = w.facts.Now.Add(100 * time.Millisecond)
		w.at(ordinal).Access = primary
	}
}

// outputs tells what the steps say.
func (w *world) outputs() {
	for _, step := range w.op.Status.Steps {
		for _, name := range slices.Sorted(maps.Keys(step.Outputs)) {
			w.tell("  %s: %s = %s", step.Name, name, step.Outputs[name])
		}
	}
}

// rebuild deletes as the controller does.
func (w *world) rebuild(r *Rebuild) *Answer {
	if w.refuse["rebuild"] != "" {
		return &Answer{Failure: FailureRefused, Problem: w.refuse["rebuild"]}
	}
	for i := range w.facts.Pods {
		p := &w.facts.Pods[i]
		if p.Name != r.Pod {
			continue
		}
		for j := range p.Claims {
			if c := &p.Claims[j]; slices.Contains(r.Claims, Claim{Name: c.Name, UID: c.UID}) && c.Presence != PodGoing {
				w.tell("  volume %s (%s) is deleted", c.Name, c.UID)
				c.Presence = PodGoing
			}
		}
		if p.UID == r.UID && p.Presence != PodGoing {
			w.tell("  pod %s (%s) is deleted", p.Name, p.UID)
			p.Presence = PodGoing
		}
	}
	return &Answer{}
}

func recordWorld() *world {
	w := writingWorld(TemplateFailover, map[string]string{ParameterTerm: "3"})
	w.op.Labels = map[string]string{platformv1.TriggerLabel: string(platformv1.TriggerFailover),
		platformv1.ApplicationLabel: "redis", platformv1.ComponentLabel: "a", platformv1.SetLabel: "main"}
	w.op.Spec.TargetRef = platformv1.TargetReference{APIVersion: "database.zeroinfra.github.com/v1", Kind: "Redis",
		Name: "a"}
	return w
}

var writingStories = map[string]func() *world{
	"failover-on-record": func() *world {
		w := recordWorld()
		deposed(w)
		w.happens("The record starts.", nil)
		w.happens("A day passes, and the set says what it waits for.", func(w *world) {
			w.facts.Now = w.facts.Now.Add(24 * time.Hour)
			writing := w.facts.Writing[writingSet]
			writing.Pending = "there is no primary, and no pod can take over: redis-a-main-1 is not there"
			w.facts.Writing[writingSet] = writing
		})
		w.happens("Pod 1 is named.", named(1))
		w.happens("Pod 1 has the label.", labelled(1))
		w.outputs()
		return w
	},
	"failover-is-overtaken": func() *world {
		w := recordWorld()
		deposed(w)
		w.happens("The record starts.", nil)
		w.happens("Members know of a later term.", func(w *world) {
			w.records(func(r *platformv1.PrimaryRecord) { r.Term = 9 })
		})
		return w
	},
	"failover-recorded-late": func() *world {
		w := recordWorld()
		deposed(w)
		named(1)(w)
		deposed(w)
		w.happens("The record starts, a term later.", nil)
		w.outputs()
		return w
	},
	"failover-asked-for": func() *world {
		w := writingWorld(TemplateFailover, map[string]string{"to": "redis-a-main-2"})
		w.happens("The Operation starts.", nil)
		w.crash = crashAfterWrite
		w.happens("Nobody writes, and the controller dies.", deposed)
		w.happens("A controller starts, and pod 2 is named.", named(2))
		w.happens("Pod 2 has the label.", labelled(2))
		w.outputs()
		return w
	},
	"failover-without-a-candidate": func() *world {
		w := writingWorld(TemplateFailover, nil)
		w.refuse["handover"] = "no other pod can take over: redis-a-main-1 is not healthy"
		w.happens("The Operation starts.", nil)
		return w
	},
	"failover-with-a-loss": func() *world {
		w := writingWorld(TemplateFailover, map[string]string{"acceptDataLoss": "true"})
		w.op.Spec.Author = "ada"
		w.happens("The Operation starts.", nil)
		w.happens("Somebody approves.", func(w *world) {
			w.op.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationApproved}
		})
		return w
	},
	"rebuild": func() *world {
		w := writingWorld("RebuildMember", map[string]string{"pod": "redis-a-main-1"})
		w.crash = crashAfterCall
		w.happens("The Operation starts, and the controller dies after the deletion.", nil)
		w.happens("A controller starts.", nil)
		w.happens("The pod and its volume are gone.",
			func(w *world) { w.at(1).Presence, w.at(1).UID, w.at(1).Claims = PodAbsent, "", nil })
		w.happens("The pod is made anew.", func(w *world) {
			w.at(1).Presence, w.at(1).UID = PodRunning, "uid-1-new"
			w.at(1).Claims = []Claim{{Name: "data-redis-a-main-1", UID: "claim-1-new", Presence: PodRunning}}
			w.at(1).Report.Health = report.Unhealthy
		})
		w.happens("It is healthy.", func(w *world) { w.at(1).Report.Health = report.Healthy })
		w.happens("It is a member.", func(w *world) {
			w.records(func(r *platformv1.PrimaryRecord) { r.List.Members[1].Identity = "v1-new" })
		})
		w.outputs()
		return w
	},
	"rebuild-of-one-that-became-the-writer": func() *world {
		w := writingWorld("RebuildMember", map[string]string{"pod": "redis-a-main-1"})
		w.refuse["rebuild"] = "pod redis-a-main-1 may be the primary by now"
		w.happens("The Operation starts.", nil)
		return w
	},
}

// TestWritingIsRefused with a sentence, before anything is touched.
func TestWritingIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		template   string
		parameters map[string]string
		change     func(w *world)
		want       string
	}{
		"a failover where the engine names nobody": {TemplateFailover, nil, func(w *world) { w.facts.Writing = nil },
			"the engine does not choose the primary"},
		"a failover to the one that writes": {TemplateFailover, map[string]string{"to": "redis-a-main-0"}, nil,
			"is the primary already"},
		"a failover to another's pod": {TemplateFailover, map[string]string{"to": "redis-b-main-0"}, nil,
			"it is no pod of redis-a-main"},
		"a failover with a term": {TemplateFailover, map[string]string{"term": "3"}, nil, "is for the records of the engine"},
		"a failover before the first writer": {TemplateFailover, nil, func(w *world) {
			w.records(func(r *platformv1.PrimaryRecord) { r.Member, r.Former = nil, nil })
		}, "no primary is on record"},
		"a rebuild of the writer": {"RebuildMember", map[string]string{"pod": "redis-a-main-0"}, nil,
			"is the primary, whose"},
		"a rebuild of the one that is named": {"RebuildMember", map[string]string{"pod": "redis-a-main-0"},
			func(w *world) { w.at(0).Access = "" },
			"is the primary on record"},
		"a rebuild between two writers": {"RebuildMember", map[string]string{"pod": "redis-a-main-1"}, deposed,
			"there is no primary at this moment"},
		"a rebuild of the last": {"RebuildMember", map[string]string{"pod": "redis-a-main-1"},
			func(w *world) { w.at(0).Report.Health = report.Unhealthy },
			"may be the last that has the data"},
		"a rebuild of nothing": {"RebuildMember", map[string]string{"pod": "redis-b-main-1"}, nil, "is no pod of"},
		"a rebuild without any volume": {"RebuildMember", map[string]string{"pod": "redis-a-main-1"},
			func(w *world) { w.at(1).Claims = nil }, "has no volumes"},
	} {
		t.Run(name, func(t *testing.T) {
			w := writingWorld(tc.template, tc.parameters)
			if tc.change != nil {
				tc.change(w)
			}
			w.happens("The Operation starts.", nil)
			if w.op.Status.Phase != platformv1.OperationFailed || !strings.Contains(w.op.Status.Error, tc.want) ||
				w.request != "" {
				t.Errorf("phase %s, error %q, want one with %q; the request is %q", w.op.Status.Phase, w.op.Status.Error, tc.want,
					w.request)
			}
		})
	}
}

// Where the members elect, nothing is deleted before another of them says that it takes writes: the pod may be the last
// that has the data. A label says less than the pod itself: one that is lost keeps it.
func TestRebuildWhereMembersElect(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		begins bool
	}{
		"another takes writes":     {func(*world) {}, true},
		"nobody says that he does": {func(w *world) { w.at(0).Reported = reader }, false},
		"it is not healthy":        {func(w *world) { w.at(0).Report.Health = report.Unhealthy }, false},
		"its node does not answer": {func(w *world) { w.at(0).Ready = metav1.ConditionUnknown }, false},
		"it is gone":               {func(w *world) { w.at(0).Presence = PodAbsent }, false},
		"it is of another set":     {func(w *world) { w.at(0).Name = "redis-a-other-0" }, false},
		"the pod alone says so":    {func(w *world) { w.at(0).Reported, w.at(1).Reported = reader, primary }, false},
		"nobody is to take any":    {func(w *world) { w.at(0).Reported, w.facts.Electing = "", nil }, true},
		"a third does, and the label is that of one that is lost": {func(w *world) {
			w.at(0).Access, w.at(0).Presence, w.at(2).Reported = primary, PodAbsent, primary
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := writingWorld("RebuildMember", map[string]string{"pod": "redis-a-main-1"})
			w.facts.Writing, w.facts.Electing = nil, map[string]bool{writingSet: true}
			w.at(0).Access, w.at(0).Reported = "", primary
			tc.change(w)
			w.happens("The Operation starts.", nil)
			if begins := w.at(1).Presence == PodGoing; begins != tc.begins {
				t.Errorf("it begins: %t: %+v", begins, w.op.Status)
			}
			if step := w.op.Status.Steps[0]; !tc.begins && (w.op.Status.Phase != platformv1.OperationRunning ||
				!strings.Contains(step.Message, "may be the last that has the data")) {
				t.Errorf("it is %s, and says %q", w.op.Status.Phase, step.Message)
			}
			if d := Next(w.op, w.facts); !tc.begins && d.Outcome.After() != objectPoll {
				t.Errorf("it looks again after %s", d.Outcome.After())
			}
		})
	}
}

// TestARecordWaitsInNoQueue: it waits for nobody, and nobody for it.
func TestARecordWaitsInNoQueue(t *testing.T) {
	op := func(name string, phase platformv1.OperationPhase, labels map[string]string) *platformv1.Operation {
		return &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels},
			Status: platformv1.OperationStatus{Phase: phase}}
	}
	record := op("record", platformv1.OperationRunning,
		map[string]string{platformv1.TriggerLabel: string(platformv1.TriggerFailover)})
	user := op("user", platformv1.OperationRunning, nil)
	next := op("next", platformv1.OperationPending, nil)
	ahead := func(op *platformv1.Operation, others ...*platformv1.Operation) *platformv1.Operation {
		return Queue{Operations: others}.Ahead(op)
	}
	if first := ahead(record, user); first != nil {
		t.Errorf("the record waits for %s", first.Name)
	}
	if first := ahead(next, record); first != nil {
		t.Errorf("%s is waited for", first.Name)
	}
	if first := ahead(next, record, user); first != user {
		t.Errorf("it waits for %v", first)
	}
	// One that somebody asked for ends what runs; a record ends nothing.
	asked := op("asked", platformv1.OperationPending, nil)
	asked.Status.Application = "redis-a"
	q := Queue{Operations: []*platformv1.Operation{record, user, asked}, Urgent: func(op *platformv1.Operation) bool {
		return (op == asked || op == record) && Defaults()[TemplateFailover].Preempts
	}}
	if by := q.Preempts(user); by != asked {
		t.Errorf("it is ended for %v", by)
	}
	if q.Operations = q.Operations[:2]; q.Preempts(user) != nil || q.Preempts(record) != nil {
		t.Error("a record ends others, or is ended")
	}
}

// TestALossIsAcceptedByTwo: the author alone is not enough.
func TestALossIsAcceptedByTwo(t *testing.T) {
	for name, tc := range map[string]struct {
		author, by string
		decision   platformv1.OperationDecision
		loss       platformv1.ParameterValue
		want       bool
	}{
		"approved":          {"ada", "bob", platformv1.OperationApproved, "true", true},
		"not asked for":     {"ada", "bob", platformv1.OperationApproved, "false", false},
		"rejected":          {"ada", "bob", platformv1.OperationRejected, "true", false},
		"by the author":     {"ada", "ada", platformv1.OperationApproved, "true", false},
		"without an author": {"", "bob", platformv1.OperationApproved, "true", false},
	} {
		op := &platformv1.Operation{Spec: platformv1.OperationSpec{Author: tc.author,
			Parameters: platformv1.Parameters{parameterLoss: tc.loss},
			Approval:   &platformv1.OperationApproval{By: tc.by, Decision: tc.decision}}}
		if got := AcceptsLoss(op); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
