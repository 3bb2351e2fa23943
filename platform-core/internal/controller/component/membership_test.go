// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// story plays the turns of a component against agents that say what the story has them say.
type story struct {
	*testing.T
	c         *Controller
	component *platformv1.Component
	m         *members
	now       time.Time
	// says is what the agents say next, and asked what they were asked, by action and key.
	says  func(action agentclient.Action) (agentclient.ActionCall, error)
	asked []agentclient.Action
}

func (s *story) DialOps(context.Context, *corev1.Pod) (agentclient.Ops, error) { return s, nil }

func (s *story) Run(_ context.Context, action agentclient.Action) (agentclient.ActionCall, error) {
	s.asked = append(s.asked, action)
	return s.says(action)
}

func (s *story) Await(ctx context.Context, action agentclient.Action) (agentclient.ActionCall, error) {
	return s.Run(ctx, action)
}

func newStory(t *testing.T) *story {
	s := &story{T: t, now: time.Unix(1000, 0),
		component: &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c"}}}
	s.c = &Controller{Deps: Deps{Ops: s, Now: func() time.Time { return s.now }}}
	s.m = membersOf(liveSets(podSet("a", 2)), wantedSets(podSet("a", 2)))
	s.m.declared = &schema.Component{Membership: &schema.Membership{Check: "check", Action: "act"},
		Actions: []plan.Action{{Name: "act", TimeoutSeconds: 30}}}
	s.report(agentreport.Report{Health: agentreport.Healthy})
	return s
}

// report has pod a-0 report anew.
func (s *story) report(report agentreport.Report) {
	s.m.all, s.m.pods = membersOf(liveSets(), wantedSets()).all, nil
	s.m.lookAt([]corev1.Pod{memberPod("a-0", report), memberPod("a-1", agentreport.Report{Health: agentreport.Healthy})})
}

func (s *story) turn() outcome.Outcome { return s.c.reconcileMembers(s.Context(), s.component, s.m) }

func answer(phase plugin.MembershipPhase) func(agentclient.Action) (agentclient.ActionCall, error) {
	return func(action agentclient.Action) (agentclient.ActionCall, error) {
		return agentclient.ActionCall{Call: agentreport.Call{Key: action.Key, Phase: agentreport.CallSucceeded},
			Outputs: map[string]string{"phase": string(phase), "reason": "because"}}, nil
	}
}

func running(action agentclient.Action) (agentclient.ActionCall, error) {
	return agentclient.ActionCall{Call: agentreport.Call{Key: action.Key, Phase: agentreport.CallRunning}}, nil
}

func TestMembersAtRestAreAskedOnce(t *testing.T) {
	s := newStory(t)
	s.says = answer(plugin.MembersDone)
	for range 3 {
		if o := s.turn(); o.Kind() != outcome.KindDone {
			t.Fatalf("got %v %s", o.Kind(), o.Message())
		}
		s.now = s.now.Add(time.Hour)
	}
	if len(s.asked) != 1 || s.asked[0].Name != "check" || s.component.Status.Membership != nil {
		t.Errorf("asked were %v, on record is %v", s.asked, s.component.Status.Membership)
	}
	s.report(agentreport.Report{Health: agentreport.Healthy, Role: "replica"})
	if s.turn(); len(s.asked) != 2 {
		t.Errorf("a pod reports something new, and asked were %v", s.asked)
	}
}

func TestACallIsOnRecordBeforeItIsMade(t *testing.T) {
	s := newStory(t)
	s.says = answer(plugin.MembersWorking)
	if o := s.turn(); o.Kind() != outcome.KindWaiting || s.component.Status.Membership == nil || len(s.asked) != 1 {
		t.Fatalf("got %v, on record is %v, asked were %v", o.Kind(), s.component.Status.Membership, s.asked)
	}
	s.says = running
	for range 3 {
		s.now = s.now.Add(time.Second)
		s.turn()
	}
	first := s.asked[1]
	if last := s.asked[len(s.asked)-1]; len(s.asked) != 4 || first.Name != "act" || last.Key != first.Key {
		t.Fatalf("asked were %v", s.asked)
	}
	// Whoever goes on after a crash asks for the same.
	s.c.known = known{}
	if s.turn(); s.asked[len(s.asked)-1].Key != first.Key {
		t.Errorf("another key after a crash: %v", s.asked)
	}
	s.says = answer(plugin.MembersWorking)
	s.turn()
	if call := s.component.Status.Membership; call == nil || call.Attempt != 2 {
		t.Fatalf("it has yet to end, and on record is %v", call)
	}
	s.says = answer(plugin.MembersDone)
	if s.turn(); s.component.Status.Membership != nil {
		t.Errorf("it has ended, and on record is %v", s.component.Status.Membership)
	}
	if o := s.turn(); o.Kind() != outcome.KindDone || s.asked[len(s.asked)-1].Name != "check" {
		t.Errorf("got %v %s, asked were %v", o.Kind(), o.Message(), s.asked)
	}
}

// That all were members once is on record, for calls to come, and is no reason to ask again.
func TestMembersAreFormedOnce(t *testing.T) {
	s := newStory(t)
	s.says = answer(plugin.MembersWaiting)
	if s.turn(); s.component.Status.Formed {
		t.Error("members that are waited for count as formed")
	}
	s.says, s.now = answer(plugin.MembersDone), s.now.Add(time.Minute)
	if s.turn(); !s.component.Status.Formed {
		t.Error("members that are done do not count as formed")
	}
	asked := len(s.asked)
	if s.turn(); len(s.asked) != asked {
		t.Errorf("asked were %v", s.asked)
	}
	s.says = answer(plugin.MembersWorking)
	s.report(agentreport.Report{Health: agentreport.Unhealthy})
	s.now = s.now.Add(time.Minute)
	if s.turn(); !s.component.Status.Formed {
		t.Error("members that have work to do count as formed no more")
	}
}

// A call that nobody knows the end of is not begun after twice its time, and another one not before three times.
func TestNoSecondCallWhileOneMayRun(t *testing.T) {
	s := newStory(t)
	s.says = answer(plugin.MembersWorking)
	s.turn()
	s.says = func(agentclient.Action) (agentclient.ActionCall, error) {
		return agentclient.ActionCall{}, fmt.Errorf("away")
	}
	begin, last := s.now, time.Duration(0)
	for s.component.Status.Membership != nil {
		asked := len(s.asked)
		if s.turn(); len(s.asked) > asked {
			last = s.now.Sub(begin)
		}
		s.now = s.now.Add(time.Second)
	}
	if over := s.now.Sub(begin); last > time.Minute || over < 90*time.Second || over > 100*time.Second {
		t.Errorf("the last call was after %v, and it counted as ended after %v", last, over)
	}
}

func TestAPodThatIsGoneEndsItsCall(t *testing.T) {
	s := newStory(t)
	s.component.Status.Membership = &platformv1.MembershipCall{Pod: "a-9", PodUID: "a-9", Attempt: 1,
		Since: metav1.NewTime(s.now)}
	if o := s.turn(); s.component.Status.Membership != nil || !strings.Contains(o.Message(), "a-9") {
		t.Errorf("on record is %v: %s", s.component.Status.Membership, o.Message())
	}
}

// What somebody has to do is said, and looked at again without a report.
func TestWhatIsRefusedStalls(t *testing.T) {
	s := newStory(t)
	s.says = answer(plugin.MembersRefused)
	if o := s.turn(); o.Kind() != outcome.KindStalled || o.Reason() != platformv1.ReasonMembersRefused ||
		o.Message() != "because" {
		t.Errorf("got %v %s %s", o.Kind(), o.Reason(), o.Message())
	}
	if s.turn(); len(s.asked) != 1 {
		t.Errorf("at once asked were %v", s.asked)
	}
	s.now = s.now.Add(membersRefused)
	if s.turn(); len(s.asked) != 2 {
		t.Errorf("after %v asked were %v", membersRefused, s.asked)
	}
}

// Waiting takes no writes: another pod is asked in a while.
func TestWaitingAsksMoreAndMoreSeldom(t *testing.T) {
	s := newStory(t)
	s.says = answer(plugin.MembersWaiting)
	begin := s.now
	for s.now.Sub(begin) < time.Minute {
		s.turn()
		s.now = s.now.Add(100 * time.Millisecond)
	}
	if len(s.asked) < 5 || len(s.asked) > 10 || s.component.Status.Membership != nil {
		t.Errorf("in a minute it was asked %d times, on record is %v", len(s.asked), s.component.Status.Membership)
	}
}

func TestACallThatFailsIsNotRepeatedAtOnce(t *testing.T) {
	s := newStory(t)
	calls := 0
	s.says = func(action agentclient.Action) (agentclient.ActionCall, error) {
		if action.Name == "check" {
			return answer(plugin.MembersWorking)(action)
		}
		calls++
		return agentclient.ActionCall{Call: agentreport.Call{Phase: agentreport.CallFailed, Message: "broken"}}, nil
	}
	begin := s.now
	for s.now.Sub(begin) < 20*time.Second {
		s.turn()
		s.now = s.now.Add(100 * time.Millisecond)
	}
	if calls < 2 || calls > 6 {
		t.Errorf("in 20 s it was called %d times", calls)
	}
}

// Pods that have left go, and not before.
func TestLeaversAreReleasedWhenDone(t *testing.T) {
	s := newStory(t)
	s.m.Leaving = []string{"a-2"}
	s.says = answer(plugin.MembersDone)
	if o := s.turn(); o.Kind() != outcome.KindWaiting {
		t.Errorf("got %v", o.Kind())
	}
	if a := s.c.known.of(s.component); a.settled != s.m.print {
		t.Error("they are not known to have left")
	}
}

func TestAStoppedComponentHasNoMembers(t *testing.T) {
	s := newStory(t)
	s.component.Spec.Running = new(false)
	s.component.Status.Membership = &platformv1.MembershipCall{}
	if o := s.turn(); o.Kind() != outcome.KindDone || s.component.Status.Membership != nil || len(s.asked) > 0 {
		t.Errorf("got %v, on record is %v, asked were %v", o.Kind(), s.component.Status.Membership, s.asked)
	}
}

// What the check says of members that are lost or stay out becomes conditions, until it says otherwise or the component
// is stopped.
func TestMembersThatAreLostOrStayOutAreSaid(t *testing.T) {
	s := newStory(t)
	says := func(lost, quarantined string) {
		s.says = func(action agentclient.Action) (agentclient.ActionCall, error) {
			call, err := answer(plugin.MembersWaiting)(action)
			call.Outputs[plugin.OutputLost], call.Outputs[plugin.OutputQuarantined] = lost, quarantined
			return call, err
		}
		s.now = s.now.Add(time.Minute)
		s.turn()
	}
	are := func(want string) {
		t.Helper()
		// Another report of its sets takes none of them away.
		report(s.component, &facts{}, nil)
		got := ""
		for _, kind := range platformv1.MembershipConditions {
			if c := conditions.Get(s.component, kind); c != nil {
				got += fmt.Sprintf("%s is %s, %s: %s. ", kind, c.Status, c.Reason, c.Message)
			}
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	says("", "")
	are("")
	says("bring b back", "")
	are("Quorum is False, QuorumLost: bring b back. ")
	s.says = func(agentclient.Action) (agentclient.ActionCall, error) {
		return agentclient.ActionCall{}, errors.New("no")
	}
	s.now = s.now.Add(time.Minute)
	s.turn()
	are("Quorum is False, QuorumLost: bring b back. ")
	says("", "look at c")
	are("Quarantined is True, MembersDiverged: look at c. ")
	s.component.Spec.Running = new(false)
	s.turn()
	are("")
}

// TestWhatTheCheckSaidOutlivesAStatusThatIsHeldBack: the turn that asked writes nothing where the status only tells of
// progress, and the one that writes it asks nobody.
func TestWhatTheCheckSaidOutlivesAStatusThatIsHeldBack(t *testing.T) {
	for name, test := range map[string]struct {
		phase plugin.MembershipPhase
		lost  string
	}{
		"lost":   {plugin.MembersWaiting, "bring b back"},
		"formed": {plugin.MembersDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.says = func(action agentclient.Action) (agentclient.ActionCall, error) {
				call, err := answer(test.phase)(action)
				call.Outputs[plugin.OutputLost] = test.lost
				return call, err
			}
			written := s.component.DeepCopy()
			s.turn()
			if !membershipUrgent(written, s.component) {
				t.Error("it is held back")
			}
			s.component = written.DeepCopy()
			s.turn()
			lost := conditions.Get(s.component, platformv1.QuorumCondition) != nil
			if formed := s.component.Status.Formed; len(s.asked) != 1 || lost != (test.lost != "") ||
				formed != (test.phase == plugin.MembersDone) {
				t.Errorf("asked were %v, lost is %t, and formed %t", s.asked, lost, formed)
			}
			if !membershipUrgent(written, s.component) || membershipUrgent(s.component, s.component.DeepCopy()) {
				t.Error("what is urgent is not what changed")
			}
		})
	}
}

// TestTheAnswerOfAStoppedComponentIsForgotten: what was lost before is not said of members that start again.
func TestTheAnswerOfAStoppedComponentIsForgotten(t *testing.T) {
	s := newStory(t)
	s.says = func(action agentclient.Action) (agentclient.ActionCall, error) {
		call, err := answer(plugin.MembersWaiting)(action)
		call.Outputs[plugin.OutputLost] = "bring b back"
		return call, err
	}
	s.turn()
	s.component.Spec.Running = new(false)
	s.turn()
	s.component.Spec.Running = new(true)
	s.says = func(agentclient.Action) (agentclient.ActionCall, error) {
		return agentclient.ActionCall{}, errors.New("no")
	}
	s.now = s.now.Add(time.Minute)
	if s.turn(); conditions.Get(s.component, platformv1.QuorumCondition) != nil {
		t.Errorf("it says %v", s.component.Status.Conditions)
	}
}
