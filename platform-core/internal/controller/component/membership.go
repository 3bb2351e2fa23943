// SPDX-License-Identifier: Apache-2.0

package component

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

const (
	// membersPause is the shortest time between two looks at the members, so that many reports at once make one.
	membersPause = 500 * time.Millisecond
	// membersAnswer is how long a turn waits for an answer.
	membersAnswer = time.Second
	// membersPoll is how soon to ask again how a call stands.
	membersPoll = time.Second
	// membersRetry is how soon to look again while something is waited for; it doubles up to membersLongest.
	membersRetry   = time.Second
	membersLongest = 15 * time.Second
	// membersRefused is how soon to look again where a person has to do something.
	membersRefused = 30 * time.Second
)

// known remembers what was found out about members. Nothing of it need survive: who forgets asks once more, which
// changes nothing.
type known struct {
	mu sync.Mutex
	by map[types.NamespacedName]*membershipCache
}

// membershipCache with the members of one component, for its reconciles only.
type membershipCache struct {
	component types.UID
	// settled is the print of members that were found as they are to be.
	settled string
	// print that was last looked at, when that was, how often it was not settled, and when to look again.
	print    string
	looked   time.Time
	failures int
	again    time.Time
	// asked is what has yet to be answered; nil for nothing.
	asked *question
	// said is what came of it.
	said outcome.Outcome
	// answer is what the check said last; nil before it has. A status that only tells of progress is held back, and the
	// turn that writes it has looked at nothing: each turn reports the answer anew.
	answer *agentclient.ActionCall
	// key and parameters of the call on record: the key stands for them.
	key        string
	parameters map[string]string
}

// question to a pod how far the members are.
type question struct {
	pod    *corev1.Pod
	action agentclient.Action
}

func (k *known) of(component *platformv1.Component) *membershipCache {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := client.ObjectKeyFromObject(component)
	if k.by == nil {
		k.by = map[types.NamespacedName]*membershipCache{}
	}
	if a := k.by[name]; a != nil && a.component == component.UID {
		return a
	}
	k.by[name] = &membershipCache{component: component.UID}
	return k.by[name]
}

// forgetAnswer takes out what the check of a component said.
func (k *known) forgetAnswer(component *platformv1.Component) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.by[client.ObjectKeyFromObject(component)]; a != nil {
		a.answer = nil
	}
}

func (k *known) has(name types.NamespacedName) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.by[name] != nil
}

func (k *known) forget(name types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.by, name)
}

// reconcileMembers reconciles the members of the cluster. Whenever a pod reports a change, one member is asked for
// their state, which has no effect. A change is recorded first, and then made by a call in one pod.
func (c *Controller) reconcileMembers(ctx context.Context, component *platformv1.Component,
	m *members) outcome.Outcome {
	if m == nil || !component.Spec.IsRunning() {
		component.Status.Membership = nil
		tell(component, agentclient.ActionCall{})
		c.known.forgetAnswer(component)
		return outcome.Done()
	}
	a := c.known.of(component)
	if a.answer != nil {
		tell(component, *a.answer)
	}
	if component.Status.Membership != nil {
		return c.followCall(ctx, component, m, a)
	}
	if a.settled == m.print {
		if m.released {
			return outcome.WaitingFor(membersPoll, platformv1.ReasonMembersPending,
				fmt.Sprintf("%s left and can be deleted", list(m.Leaving)))
		}
		return outcome.Done()
	}
	if len(m.pods) == 0 {
		return outcome.Waiting(platformv1.ReasonMembersPending, "no pod runs that could be asked about the members")
	}
	now := c.Now()
	if a.print != m.print {
		a.print, a.failures, a.asked, a.again = m.print, 0, nil, a.looked.Add(membersPause)
		a.said = outcome.Waiting(platformv1.ReasonMembersPending, "the members are being checked")
	}
	if wait := a.again.Sub(now); wait > 0 {
		return a.said.Within(wait)
	}
	a.looked = now
	a.said = c.look(ctx, component, m, a, now)
	return a.said
}

// look asks a pod how far the members are. What one does not say at once it is asked for again.
func (c *Controller) look(ctx context.Context, component *platformv1.Component, m *members, a *membershipCache,
	now time.Time) outcome.Outcome {
	if q := a.asked; q == nil || m.all[q.pod.UID] == nil {
		a.asked = &question{pod: m.pick(a.failures), action: agentclient.Action{
			Key: fmt.Sprintf("members/check/%s/%d", component.UID, now.UnixNano()), Name: m.declared.Membership.Check,
			Parameters: m.parameters,
		}}
	}
	pod := a.asked.pod
	call, err := c.ask(ctx, pod, a.asked.action)
	if err == nil && call.Phase == agentreport.CallRunning {
		a.again = now.Add(membersPoll)
		return outcome.WaitingFor(membersPoll, platformv1.ReasonMembersPending,
			fmt.Sprintf("pod %s has yet to report the state of the members", pod.Name))
	}
	a.asked = nil
	waiting := func(message string) outcome.Outcome {
		wait := min(membersRetry<<min(a.failures, 4), membersLongest)
		a.failures++
		a.again = now.Add(wait)
		return outcome.WaitingFor(wait, platformv1.ReasonMembersPending, message)
	}
	switch {
	case err != nil:
		return waiting(fmt.Sprintf("pod %s cannot be asked about the members: %s", pod.Name, agentclient.ProblemOf(err)))
	case call.Phase != agentreport.CallSucceeded:
		return waiting(fmt.Sprintf("pod %s does not report the state of the members: %s",
			pod.Name, m.explained(call.Message)))
	}
	a.answer = &call
	tell(component, call)
	switch phase, reason := phaseOf(call); phase {
	case plugin.MembersDone:
		if a.settled = m.print; len(m.Leaving) > 0 {
			return outcome.WaitingFor(time.Millisecond, platformv1.ReasonMembersPending,
				fmt.Sprintf("%s left and can be deleted", list(m.Leaving)))
		}
		return outcome.Done()
	case plugin.MembersWorking:
		component.Status.Membership = &platformv1.MembershipCall{Pod: pod.Name, PodUID: pod.UID, Attempt: 1,
			Since: metav1.NewTime(now), Message: reason}
		// The write of the status brings the next turn.
		return outcome.Waiting(platformv1.ReasonMembersPending, reason)
	case plugin.MembersRefused:
		a.again = now.Add(membersRefused)
		return outcome.StalledFor(membersRefused, platformv1.ReasonMembersRefused, reason)
	default:
		return waiting(reason)
	}
}

// ask runs an action that ends soon.
func (c *Controller) ask(ctx context.Context, pod *corev1.Pod,
	action agentclient.Action) (agentclient.ActionCall, error) {
	ops, err := c.Ops.DialOps(ctx, pod)
	if err != nil {
		return agentclient.ActionCall{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, membersAnswer)
	defer cancel()
	return ops.Await(ctx, action)
}

// phaseOf is what an action says of the members, and why; middleware need not say why.
func phaseOf(call agentclient.ActionCall) (plugin.MembershipPhase, string) {
	return plugin.MembershipPhase(call.Outputs[plugin.OutputPhase]),
		cmp.Or(call.Outputs[plugin.OutputReason], "the members are being changed")
}

// tell makes conditions of what the check says of members that are lost, and of those that stay out. Each stays until
// the check says otherwise. That all were members once stays for good.
func tell(component *platformv1.Component, call agentclient.ActionCall) {
	if phase, _ := phaseOf(call); phase == plugin.MembersDone {
		component.Status.Formed = true
	}
	for _, c := range []metav1.Condition{
		{Type: platformv1.QuorumCondition, Status: metav1.ConditionFalse, Reason: platformv1.ReasonQuorumLost,
			Message: call.Outputs[plugin.OutputLost]},
		{Type: platformv1.QuarantinedCondition, Status: metav1.ConditionTrue, Reason: platformv1.ReasonMembersDiverged,
			Message: call.Outputs[plugin.OutputQuarantined]},
	} {
		if c.Message == "" {
			conditions.Remove(component, c.Type)
			continue
		}
		conditions.Set(component, c)
	}
}

// followCall makes the call that is on record, or asks how it stands. No other one is made before it is known to have
// ended: it is not begun after twice the time that it may take, and counts as ended after three times.
func (c *Controller) followCall(ctx context.Context, component *platformv1.Component, m *members,
	a *membershipCache) outcome.Outcome {
	call, now := component.Status.Membership, c.Now()
	pod, age, limit := m.all[call.PodUID], now.Sub(call.Since.Time), c.actionTime(m)
	switch {
	case pod == nil:
		return a.ended(component, m, now, 0, fmt.Sprintf("pod %s, which was changing the members, is gone", call.Pod))
	case age > 3*limit:
		return a.ended(component, m, now, 0, fmt.Sprintf("pod %s did not report the result of the change of members",
			call.Pod))
	case age > 2*limit:
		return outcome.WaitingFor(membersPoll, platformv1.ReasonMembersPending,
			fmt.Sprintf("pod %s has yet to report the result of the change of members", call.Pod))
	}
	key := fmt.Sprintf("members/%s/%d/%d", call.PodUID, call.Since.Unix(), call.Attempt)
	if a.key != key {
		a.key, a.parameters = key, m.parameters
	}
	answer, err := c.run(ctx, pod, agentclient.Action{Key: key, Name: m.declared.Membership.Action,
		Parameters: a.parameters})
	if err != nil {
		return outcome.WaitingFor(membersPoll, platformv1.ReasonMembersPending,
			fmt.Sprintf("%s; pod %s: %s", call.Message, pod.Name, agentclient.ProblemOf(err)))
	}
	if answer.Phase == agentreport.CallRunning {
		return outcome.WaitingFor(membersPoll, platformv1.ReasonMembersPending, call.Message)
	}
	phase, reason := phaseOf(answer)
	switch {
	case answer.Phase != agentreport.CallSucceeded:
		return a.ended(component, m, now, membersRetry<<2, m.explained(answer.Message))
	case phase == plugin.MembersDone:
		return a.ended(component, m, now, 0, reason)
	case phase != plugin.MembersWorking || len(m.pods) == 0:
		return a.ended(component, m, now, membersRetry<<2, reason)
	}
	component.Status.Membership = &platformv1.MembershipCall{
		Pod: m.pods[0].Name, PodUID: m.pods[0].UID, Attempt: call.Attempt + 1, Since: metav1.NewTime(now), Message: reason,
	}
	return outcome.WaitingFor(membersPoll, platformv1.ReasonMembersPending, reason)
}

// ended takes a call off the record. What comes next is found out by looking again, after a while where it may be the
// same.
func (a *membershipCache) ended(component *platformv1.Component, m *members, now time.Time, pause time.Duration,
	message string) outcome.Outcome {
	component.Status.Membership, a.settled, a.print = nil, "", m.print
	a.again = now.Add(pause)
	a.said = outcome.Waiting(platformv1.ReasonMembersPending, message)
	return a.said.Within(max(pause, time.Millisecond))
}

// actionTime is how long the action of a membership may run.
func (c *Controller) actionTime(m *members) time.Duration {
	for _, action := range m.declared.Actions {
		if action.Name == m.declared.Membership.Action && action.TimeoutSeconds > 0 {
			return time.Duration(action.TimeoutSeconds) * time.Second
		}
	}
	return plan.DefaultActionSeconds * time.Second
}

func (c *Controller) run(ctx context.Context, pod *corev1.Pod,
	action agentclient.Action) (agentclient.ActionCall, error) {
	ops, err := c.Ops.DialOps(ctx, pod)
	if err != nil {
		return agentclient.ActionCall{}, err
	}
	return ops.Run(ctx, action)
}

// membershipUrgent says whether somebody acts on what changed: a call was put on record or taken off, by which the next
// turn goes, all became members for the first time, or a condition of the members came or went.
func membershipUrgent(before, after *platformv1.Component) bool {
	b, a := before.Status.Membership, after.Status.Membership
	return (b == nil) != (a == nil) || b != nil &&
		(b.PodUID != a.PodUID || b.Attempt != a.Attempt || !b.Since.Equal(&a.Since)) ||
		before.Status.Formed != after.Status.Formed ||
		slices.ContainsFunc(platformv1.MembershipConditions, func(of string) bool {
			return (conditions.Get(before, of) == nil) != (conditions.Get(after, of) == nil)
		})
}
