// SPDX-License-Identifier: Apache-2.0

package primary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// members are three pods that report who leads, and the ops agents in them.
type members struct {
	*testing.T
	set    *platformv1.WorkloadSet
	now    time.Time
	leader string
	// unnamed reports no role: it has been promoted, and who names the leader has yet to say so. Empty for none.
	unnamed string
	// answer of the ops agent to a call that it does not know; it is on record afterwards.
	answer func(agentclient.Action) (agentreport.Call, error)
	record map[string]agentreport.Call
	calls  []agentclient.Action
	// without an ops container in the pods.
	bare bool
}

func newMembers(t *testing.T) *members {
	m := &members{T: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), leader: "a-0",
		record: map[string]agentreport.Call{}}
	m.set = &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 7}}
	m.set.Spec.Switchover = &platformv1.SetSwitchover{Action: "move", Roles: []string{"follower"},
		When:       "'id' in target.attributes",
		Parameters: map[string]string{"to": "${target.attributes['id']}"}}
	m.answer = func(agentclient.Action) (agentreport.Call, error) {
		return agentreport.Call{Phase: agentreport.CallSucceeded}, nil
	}
	return m
}

// DialOps implements agentclient.OpsDialer.
func (m *members) DialOps(_ context.Context, pod *corev1.Pod) (agentclient.Ops, error) {
	if pod.Name != m.leader {
		m.Errorf("pod %s is called, and %s leads", pod.Name, m.leader)
	}
	return m, nil
}

// Await implements agentclient.Ops.
func (m *members) Await(ctx context.Context, a agentclient.Action) (agentclient.ActionCall, error) {
	return m.Run(ctx, a)
}

// Run implements agentclient.Ops.
func (m *members) Run(_ context.Context, a agentclient.Action) (agentclient.ActionCall, error) {
	if known, ok := m.record[a.Key]; ok {
		return agentclient.ActionCall{Call: known}, nil
	}
	m.calls = append(m.calls, a)
	call, err := m.answer(a)
	if err == nil {
		m.record[a.Key] = call
		if call.Phase == agentreport.CallRunning {
			m.record[a.Key] = agentreport.Call{Phase: agentreport.CallSucceeded}
		}
	}
	return agentclient.ActionCall{Call: call}, err
}

// draft of what is seen now: the leader alone has yet to change.
func (m *members) draft() *facts.Draft {
	f := &facts.Draft{Facts: &facts.Facts{Now: m.now, Pods: map[string]*corev1.Pod{},
		Plan: plan.Plan{Actions: []plan.Action{{Name: "move", Command: []string{"move", "${parameters.to}"},
			Parameters: map[string]string{"to": `=~"^id-[0-9]$"`}}}}}}
	f.Rollout = rollout.Facts{Name: "a", Replicas: 3, Revision: "r1", ConfigDigest: "d2", Roles: []platformv1.SetRole{
		{Name: "leader", Access: platformv1.RoleReadWrite}, {Name: "follower", Access: platformv1.RoleReadOnly}}}
	for ordinal := range int32(3) {
		name := platformv1.PodNameFor("a", ordinal)
		role, digest := "follower", "d2"
		if name == m.leader {
			role = "leader"
		}
		if name == m.unnamed {
			role = ""
		}
		if ordinal == 0 {
			digest = "d1"
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
		if !m.bare {
			pod.Spec.Containers = []corev1.Container{{Name: podtemplate.OpsContainer}}
		}
		f.Pods[name] = pod
		f.Rollout.Pods = append(f.Rollout.Pods,
			rollout.Pod{Name: name, Ordinal: ordinal, Life: rollout.Alive, Revision: "r1", Ready: rollout.Ready, Role: role,
				Report: agentreport.Report{Health: agentreport.Healthy, Role: role, ConfigDigest: digest,
					Attributes: map[string]string{"id": fmt.Sprintf("id-%d", ordinal)}}})
	}
	return f
}

// reconcileOnce is what a reconcile does about the one step that there is, with a controller that knows nothing of the
// reconciles before.
func (m *members) reconcileOnce() (string, outcome.Outcome) {
	m.Helper()
	f := m.draft()
	observeSwitchover(m.set, f)
	steps := rollout.Plan(f.Rollout)
	if len(steps) != 1 {
		m.Fatalf("the steps are %v", steps)
	}
	r := &Reconciler{Ops: m, Events: event.New(events.NewFakeRecorder(100))}
	var o outcome.Outcome
	switch steps[0].Action {
	case rollout.SwitchOver:
		o = r.SwitchOver(m.Context(), m.set, f, steps[0])
	case rollout.Hold:
		o = r.Hold(m.set, f, steps[0])
	default:
		return steps[0].String(), outcome.Done()
	}
	if s := m.set.Status.Switchover; s != nil {
		s.Since = metav1.NewTime(s.Since.Truncate(time.Second)) // as it comes back from the API
	}
	return steps[0].String(), o
}

// until reconciles once a second, until an outcome says the text.
func (m *members) until(text string) outcome.Outcome {
	m.Helper()
	var said []string
	for range 200 {
		step, o := m.reconcileOnce()
		if said = append(said, step+" → "+o.Message()); strings.Contains(said[len(said)-1], text) {
			return o
		}
		m.now = m.now.Add(time.Second)
	}
	m.Fatalf("%q is never said:\n%s", text, strings.Join(slices.Compact(said), "\n"))
	return outcome.Outcome{}
}

func (m *members) attempt() platformv1.SwitchoverState {
	m.Helper()
	if m.set.Status.Switchover == nil {
		m.Fatal("no attempt is recorded")
	}
	return *m.set.Status.Switchover
}

func TestAttemptIsRecordedBeforeItIsMade(t *testing.T) {
	m := newMembers(t)
	m.answer = func(agentclient.Action) (agentreport.Call, error) {
		return agentreport.Call{Phase: agentreport.CallRunning}, nil
	}
	if _, o := m.reconcileOnce(); o.Kind() != outcome.KindWaiting || o.Reason() != platformv1.ReasonSwitchoverPending ||
		len(m.calls) != 0 {
		t.Fatalf("the first reconcile says %v, and made %d calls", o, len(m.calls))
	}
	if s := m.attempt(); s.From != "a-0" || s.To != "a-1" || s.Attempt != 1 || s.Generation != 7 ||
		s.Phase != platformv1.SwitchoverRunning {
		t.Fatalf("recorded is %+v", s)
	}
	m.reconcileOnce()
	m.reconcileOnce()
	if s := m.attempt(); s.Phase != platformv1.SwitchoverCalled || len(m.calls) != 1 ||
		m.calls[0].Parameters["to"] != "id-1" || m.calls[0].Name != "move" {
		t.Fatalf("recorded is %+v after the calls %+v", s, m.calls)
	}
	// Another generation changes nothing about an attempt that is under way.
	m.set.Generation = 8
	m.until("has yet to report that it is the primary")
	m.leader = "a-1"
	if step, _ := m.reconcileOnce(); step != "PushPlan a-0: its configuration changed" {
		t.Errorf("the step is %s", step)
	}
	if s := m.attempt(); s.Phase != platformv1.SwitchoverSucceeded || s.To != "a-1" || len(m.calls) != 1 {
		t.Errorf("recorded is %+v after %d calls", s, len(m.calls))
	}
}

// Who was chosen is no candidate any more once it takes over. To choose another one then would depose it, while it
// takes writes that nobody holds back.
func TestNobodyElseIsChosenWhileAPodTakesOver(t *testing.T) {
	m := newMembers(t)
	m.answer = func(agentclient.Action) (agentreport.Call, error) {
		return agentreport.Call{Phase: agentreport.CallRunning}, nil
	}
	m.reconcileOnce()
	m.reconcileOnce()
	m.unnamed = "a-1"
	for range int(switchoverPatience/time.Second) - 1 {
		m.reconcileOnce()
		m.now = m.now.Add(time.Second)
		if s := m.attempt(); s.To != "a-1" || s.Attempt != 1 || len(m.calls) != 1 {
			t.Fatalf("recorded is %+v after the calls %+v", s, m.calls)
		}
	}
	m.leader, m.unnamed = "a-1", ""
	m.reconcileOnce()
	if s := m.attempt(); s.Phase != platformv1.SwitchoverSucceeded || s.To != "a-1" {
		t.Errorf("recorded is %+v", s)
	}
}

func TestAttemptsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(agentclient.Action) (agentreport.Call, error)
		prove  func(*members)
		says   string
	}{
		"the action fails": {answer: func(agentclient.Action) (agentreport.Call, error) {
			return agentreport.Call{Phase: agentreport.CallFailed, Message: "no quorum"}, nil
		}, says: "in 3 tries (no quorum)"},
		"the action is cut short": {answer: func(agentclient.Action) (agentreport.Call, error) {
			return agentreport.Call{Phase: agentreport.CallInterrupted, Message: "the agent ended"}, nil
		}, says: "(the agent ended)"},
		"the agent refuses": {answer: func(agentclient.Action) (agentreport.Call, error) {
			return agentreport.Call{}, &agentclient.Error{Kind: agentclient.Refused, Problem: "it is too old"}
		}, says: "(it is too old)"},
		"the agent does not answer": {answer: func(agentclient.Action) (agentreport.Call, error) {
			return agentreport.Call{}, &agentclient.Error{Kind: agentclient.Unreachable, Problem: "no connection",
				Cause: errors.New("x")}
		}, says: "(no connection)"},
		"nobody takes over": {says: "within 30s no other pod reported that it is the primary"},
		"the parameter has no value": {prove: func(m *members) {
			m.set.Spec.Switchover.Parameters["to"], m.set.Spec.Switchover.When = "${target.attributes['name']}", ""
		}, says: `parameter "to" of action "move" has no value`},
		"the parameter is not allowed": {prove: func(m *members) {
			m.set.Spec.Switchover.Parameters["to"] = "${target.name}"
		},
			says: `parameter "to" of action "move" is "a-1": it must be text that matches`},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMembers(t)
			if test.answer != nil {
				m.answer = test.answer
			}
			if test.prove != nil {
				test.prove(m)
			}
			o := m.until("nothing is done to it")
			if o.Kind() != outcome.KindStalled || o.Reason() != platformv1.ReasonSwitchoverFailed ||
				!strings.Contains(o.Message(), test.says) ||
				!strings.Contains(o.Message(), "pod a-0, the primary, did not hand over to a-1 in 3 tries") {
				t.Errorf("it says %s: %s", o.Reason(), o.Message())
			}
			made, tries := len(m.calls), m.attempt().Attempt
			if tries != SwitchoverTries {
				t.Errorf("it was tried %d times", tries)
			}
			// The user has to act, for as long as it takes.
			m.now = m.now.Add(time.Hour)
			if _, o := m.reconcileOnce(); o.Kind() != outcome.KindStalled || len(m.calls) != made {
				t.Errorf("an hour later: %s, and %d more calls", o.Message(), len(m.calls)-made)
			}
			// Another generation has it tried again, and a primary that was moved by hand ends it.
			m.set.Generation++
			m.reconcileOnce()
			if s := m.attempt(); s.Attempt != 1 || s.Phase != platformv1.SwitchoverRunning {
				t.Errorf("recorded is %+v", s)
			}
			m.leader = "a-2"
			if step, _ := m.reconcileOnce(); step != "PushPlan a-0: its configuration changed" {
				t.Errorf("the step is %s", step)
			}
		})
	}
}

// A pod that hands over and takes it back each time is no reason to go on for ever.
func TestPrimaryThatComesBackIsLeftAlone(t *testing.T) {
	m := newMembers(t)
	var o outcome.Outcome
	for range 200 {
		if _, o = m.reconcileOnce(); o.Kind() == outcome.KindStalled {
			break
		}
		m.leader = "a-0"
		if s := m.set.Status.Switchover; s != nil && s.Phase == platformv1.SwitchoverCalled {
			m.leader = "a-1"
		}
		m.now = m.now.Add(time.Second)
	}
	if o.Kind() != outcome.KindStalled || !strings.Contains(o.Message(), "it is the primary again each time") ||
		len(m.calls) != SwitchoverTries {
		t.Errorf("it says %q after %d calls", o.Message(), len(m.calls))
	}
	keys := map[string]bool{}
	for _, call := range m.calls {
		keys[call.Key] = true
	}
	if len(keys) != len(m.calls) {
		t.Errorf("the keys are %v: an attempt of its own needs one of its own", keys)
	}
}

func TestPodWithoutTheAgentIsChangedWithout(t *testing.T) {
	m := newMembers(t)
	m.bare = true
	if step, _ := m.reconcileOnce(); step != "PushPlan a-0: its configuration changed" {
		t.Errorf("the step is %s", step)
	}
	m = newMembers(t)
	m.set.Spec.Switchover.When = "target.ordinal > 5"
	if step, _ := m.reconcileOnce(); step != "PushPlan a-0: its configuration changed" {
		t.Errorf("nobody can take over, and the step is %s", step)
	}
}

// A primary waits for pods that have yet to catch up, but not for ever.
func TestPrimaryWaitsForPodsThatCatchUp(t *testing.T) {
	m := newMembers(t)
	r := &Reconciler{}
	expect := func(when, why string, want rollout.CandidateWait, wake time.Duration) {
		t.Helper()
		m.set.Spec.Switchover.When = when
		f := m.draft()
		observeSwitchover(m.set, f)
		if r.observeCandidateWait(m.set, f); f.Rollout.Candidates != want || f.Wake != wake {
			t.Errorf("%s: the wait is %q, it looks again after %v; want %q, %v", why, f.Rollout.Candidates, f.Wake, want, wake)
		}
	}
	const can, cannot = "target.ordinal == 2", "target.ordinal > 5"
	expect(can, "one can take over", rollout.NoneExpected, 0)
	expect(cannot, "none can any more", rollout.CandidateExpected, candidateTimeout)
	m.now = m.now.Add(candidateTimeout - time.Second)
	expect(cannot, "none can for long", rollout.CandidateExpected, time.Second)
	m.now = m.now.Add(time.Second)
	expect(cannot, "none can for too long", rollout.NoneExpected, 0)
	expect(can, "one can again", rollout.NoneExpected, 0)
	expect(cannot, "none can once more", rollout.CandidateExpected, candidateTimeout)
	m.bare = true
	expect(cannot, "the primary cannot hand over at all", rollout.NoneExpected, 0)
}
