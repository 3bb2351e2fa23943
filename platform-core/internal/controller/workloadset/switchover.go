// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

const (
	// switchoverTries is the number of attempts for one generation of the spec.
	switchoverTries = 3
	// switchoverPause is the time between two attempts.
	switchoverPause = 5 * time.Second
	// switchoverPoll is the interval of polls of a running action.
	switchoverPoll = time.Second
	// candidateTimeout is how long a healthy primary waits for a candidate. Replicas that have just restarted connect to
	// it within a few seconds. After that they may never do.
	candidateTimeout = 20 * time.Second
	// switchoverPatience is how long an agent may not answer, and how long the roles may take to change after the action.
	switchoverPatience = 30 * time.Second
)

// observeSwitchover says which pods can take over from the primary, and the state of the latest attempt.
func observeSwitchover(set *platformv1.WorkloadSet, f *facts) {
	declared := set.Spec.Switchover
	if declared == nil {
		return
	}
	f.rollout.Switchover = rollout.BySwitchover
	request := requestOf(set)
	f.rollout.Request = rollout.Request{From: request.From, To: request.To}
	advanceSwitchover(set, f)
	f.rollout.Handover = handoverOf(set, f)
	primary := slices.IndexFunc(f.rollout.Pods, f.reportsPrimary)
	if primary < 0 || !hasOps(f.pods[f.rollout.Pods[primary].Name]) {
		// A pod without the ops agent cannot run an action.
		return
	}
	source := f.memberOf(f.rollout.Pods[primary])
	for i := range f.rollout.Pods {
		p := &f.rollout.Pods[i]
		if i == primary || !slices.Contains(declared.Roles, p.Report.Role) {
			continue
		}
		fit := true
		if declared.When != "" {
			var err error
			if fit, err = placeholder.CheckMembers(declared.When,
				placeholder.Members{Source: source, Target: f.memberOf(*p)}); err != nil {
				// The attempt is made and reports the error: to ignore the candidate would be a guess.
				fit = true
			}
		}
		if fit {
			p.Candidacy = rollout.CanTakeOver
		}
	}
}

// plan returns the steps of the rollout. Waits for candidates are in-memory state of reconciles only: a forecast does
// not wait.
func (c *Controller) plan(set *platformv1.WorkloadSet, f *facts) []rollout.Step {
	c.observeCandidateWait(set, f)
	return rollout.Plan(f.rollout)
}

// observeCandidateWait says whether to wait for pods that cannot take over from the primary yet.
func (c *Controller) observeCandidateWait(set *platformv1.WorkloadSet, f *facts) {
	f.rollout.Candidates = rollout.NoneExpected
	key := client.ObjectKeyFromObject(set)
	primary := slices.IndexFunc(f.rollout.Pods, f.reportsPrimary)
	if f.rollout.Switchover == rollout.NoSwitchover || primary < 0 || !hasOps(f.pods[f.rollout.Pods[primary].Name]) ||
		!f.rollout.LacksCandidate(f.rollout.Pods[primary].Name) {
		c.candidateWaits.forget(key)
		return
	}
	if left := c.candidateWaits.left(key, "candidate", f.now, candidateTimeout); left > 0 {
		f.rollout.Candidates = rollout.CandidateExpected
		f.wakeAfter(left)
	}
}

func hasOps(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers,
		func(c corev1.Container) bool { return c.Name == podtemplate.OpsContainer })
}

// reportsPrimary says whether a healthy pod reports that it is the primary.
func (f *facts) reportsPrimary(p rollout.Pod) bool {
	return p.Life == rollout.Alive && p.Report.Health == agentreport.Healthy &&
		slices.ContainsFunc(f.rollout.Roles, func(r platformv1.SetRole) bool {
			return r.Name == p.Report.Role && r.Access == platformv1.RoleReadWrite
		})
}

func (f *facts) memberOf(p rollout.Pod) placeholder.Member {
	return placeholder.Member{Name: p.Name, Ordinal: int64(p.Ordinal), FQDN: p.Name + "." + f.plan.Domain,
		Role: p.Report.Role, Version: p.Report.Version, Attributes: p.Report.Attributes}
}

// advanceSwitchover updates the state of the latest attempt from the reports of the pods.
func advanceSwitchover(set *platformv1.WorkloadSet, f *facts) {
	s := set.Status.Switchover
	if s == nil || s.Phase != platformv1.SwitchoverRunning && s.Phase != platformv1.SwitchoverCalled {
		return
	}
	from := slices.IndexFunc(f.rollout.Pods,
		func(p rollout.Pod) bool { return p.Name == s.From && f.pods[p.Name].UID == s.FromUID })
	candidate := slices.IndexFunc(f.rollout.Pods,
		func(p rollout.Pod) bool { return p.Name != s.From && f.reportsPrimary(p) })
	waited := f.now.Sub(s.Since.Time)
	switch {
	case candidate >= 0 && (from < 0 || !f.reportsPrimary(f.rollout.Pods[from])):
		s.To = f.rollout.Pods[candidate].Name
		enter(s, platformv1.SwitchoverSucceeded, f.now, "")
	case from < 0:
		enter(s, platformv1.SwitchoverFailed, f.now, "the pod is gone")
	case s.Phase == platformv1.SwitchoverCalled && waited >= switchoverPatience:
		enter(s, platformv1.SwitchoverFailed, f.now,
			fmt.Sprintf("the action succeeded, but within %s no other pod reported that it takes writes", switchoverPatience))
	case s.Phase == platformv1.SwitchoverCalled:
		f.wakeAfter(switchoverPatience - waited)
	}
}

// enter changes the phase of an attempt.
func enter(s *platformv1.SwitchoverState, phase platformv1.SwitchoverPhase, now time.Time, message string) {
	s.Phase, s.Since, s.Message = phase, metav1.NewTime(now), message
}

// handoverOf returns the latest attempt for the planner.
func handoverOf(set *platformv1.WorkloadSet, f *facts) rollout.Handover {
	s := set.Status.Switchover
	if s == nil || f.pods[s.From] == nil || f.pods[s.From].UID != s.FromUID {
		return rollout.Handover{}
	}
	handover := rollout.Handover{From: s.From, To: s.To, State: rollout.HandoverUnderway, Problem: s.Message}
	switch {
	case s.Phase == platformv1.SwitchoverSucceeded, s.Phase == platformv1.SwitchoverFailed && !sameOccasion(s, set):
		return rollout.Handover{}
	case s.Phase == platformv1.SwitchoverFailed && s.Attempt >= switchoverTries:
		handover.State = rollout.HandoverFailed
	}
	return handover
}

// sameOccasion says whether an attempt was for the current request: attempts are counted per spec and request.
func sameOccasion(s *platformv1.SwitchoverState, set *platformv1.WorkloadSet) bool {
	return s.Generation == set.Generation && s.Request == requestOf(set).Request
}

// switchOver makes the primary hand over. The attempt is in the status before the call is made, so that a restarted
// operator repeats the same call.
func (c *Controller) switchOver(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	step rollout.Step) outcome.Outcome {
	pod, s := f.pods[step.Pod], set.Status.Switchover
	same := s != nil && s.FromUID == pod.UID
	switch {
	case same && s.To == step.To && s.Phase == platformv1.SwitchoverCalled:
		return switching(f, step.Pod, fmt.Sprintf(
			"it was told to hand over to %s, which has yet to report that it takes writes", step.To))
	case same && s.To == step.To && s.Phase == platformv1.SwitchoverRunning:
		return c.callSwitchover(ctx, set, f, step)
	}
	next := platformv1.SwitchoverState{From: step.Pod, FromUID: pod.UID, To: step.To, Generation: set.Generation,
		Attempt: 1,
		Request: requestOf(set).Request, Phase: platformv1.SwitchoverRunning, Since: metav1.NewTime(f.now)}
	if same && sameOccasion(s, set) {
		if wait := s.Since.Add(switchoverPause).Sub(f.now); s.Phase != platformv1.SwitchoverRunning && wait > 0 {
			f.wakeAfter(wait)
			return switching(f, step.Pod, askedAgain(s))
		}
		if s.Attempt >= switchoverTries {
			// Each handover succeeded, but the pod became the primary again before it was changed.
			enter(s, platformv1.SwitchoverFailed, f.now, "it takes writes again each time")
			return stuck(s)
		}
		next.Attempt = s.Attempt + 1
	}
	set.Status.Switchover = &next
	c.events.Normal(set, "SwitchingOver", "%s", step)
	// The write of the status triggers the next reconcile.
	return switching(f, step.Pod, step.String())
}

// callSwitchover makes the call of the recorded attempt, or polls it.
func (c *Controller) callSwitchover(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	step rollout.Step) outcome.Outcome {
	s := set.Status.Switchover
	fail := func(message string) outcome.Outcome {
		enter(s, platformv1.SwitchoverFailed, f.now, message)
		if s.Attempt >= switchoverTries {
			return stuck(s)
		}
		f.wakeAfter(switchoverPause)
		return switching(f, step.Pod, askedAgain(s))
	}
	action, err := f.switchoverAction(set, s)
	if err != nil {
		return fail(err.Error())
	}
	call, err := c.runAction(ctx, f.pods[step.Pod], action)
	switch {
	case agentclient.IsRefused(err), err != nil && f.now.Sub(s.Since.Time) >= switchoverPatience:
		return fail(agentclient.ProblemOf(err))
	case err != nil:
		f.wakeAfter(switchoverPoll)
		return switching(f, step.Pod, agentclient.ProblemOf(err))
	}
	switch call.Phase {
	case agentreport.CallRunning:
		f.wakeAfter(switchoverPoll)
		return switching(f, step.Pod, step.String())
	case agentreport.CallSucceeded:
		enter(s, platformv1.SwitchoverCalled, f.now, "")
		f.wakeAfter(switchoverPatience)
		return switching(f, step.Pod, step.String())
	}
	return fail(call.Message)
}

func (c *Controller) runAction(ctx context.Context, pod *corev1.Pod,
	action agentclient.Action) (agentclient.ActionCall, error) {
	ops, err := c.Ops.DialOps(ctx, pod)
	if err != nil {
		return agentclient.ActionCall{}, err
	}
	return ops.Run(ctx, action)
}

// switchoverAction returns the call of an attempt. Its key identifies the recorded attempt, so that a repeated call has
// no effect.
func (f *facts) switchoverAction(set *platformv1.WorkloadSet,
	s *platformv1.SwitchoverState) (agentclient.Action, error) {
	_, request := platformv1.HandoverRequest{Request: s.Request}.Operation()
	action := agentclient.Action{
		Key: strings.TrimSuffix(fmt.Sprintf("switchover/%s/%d/%d/%d/%s", s.FromUID, s.Generation, s.Attempt,
			s.Since.Unix(), request), "/"),
		Name:       set.Spec.Switchover.Action,
		Parameters: map[string]string{},
	}
	var members placeholder.Members
	for _, p := range f.rollout.Pods {
		switch p.Name {
		case s.From:
			members.Source = f.memberOf(p)
		case s.To:
			members.Target = f.memberOf(p)
		}
	}
	for name, text := range set.Spec.Switchover.Parameters {
		value, err := placeholder.ExpandMembers(text, members)
		if err != nil {
			return action, fmt.Errorf("parameter %q of action %q has no value: %w", name, action.Name, err)
		}
		action.Parameters[name] = value
	}
	declared, ok := f.plan.Action(action.Name)
	if !ok {
		return action, fmt.Errorf("the plan has no action %q", action.Name)
	}
	return action, plugin.CheckActionParameters(declared, action.Parameters)
}

func askedAgain(s *platformv1.SwitchoverState) string {
	if s.Phase == platformv1.SwitchoverSucceeded {
		return fmt.Sprintf("it handed over to %s and writes again: it is asked again", s.To)
	}
	return fmt.Sprintf("it did not hand over to %s (%s), and is asked again", s.To, s.Message)
}

// hold returns the outcome for a pod that must not be changed now.
func hold(set *platformv1.WorkloadSet, f *facts, step rollout.Step) outcome.Outcome {
	if f.rollout.Handover.From == step.Pod && f.rollout.Handover.State == rollout.HandoverFailed {
		return stuck(set.Status.Switchover)
	}
	return switching(f, step.Pod, step.Reason)
}

func switching(f *facts, pod, why string) outcome.Outcome {
	return outcome.Waiting(platformv1.ReasonSwitchoverPending, progress(f, pod, why))
}

// stuck stalls until the user acts: without a switchover clients would lose the primary although there is a candidate.
func stuck(s *platformv1.SwitchoverState) outcome.Outcome {
	return outcome.Stalled(platformv1.ReasonSwitchoverFailed,
		fmt.Sprintf("pod %s takes writes and did not hand over to %s in %d tries (%s), and nothing is done to it: "+
			"mend that and change the spec, or run a Switchover, to have it tried again, make another pod the primary "+
			"yourself, or delete pod %s to go on without",
			s.From, s.To, s.Attempt, s.Message, s.From))
}

// instead executes the stronger step that a pod needs after a weaker one was not enough. A disruptive step needs the
// disruption lock, which the weaker one did not.
func (c *Controller) instead(ctx context.Context, set *platformv1.WorkloadSet, f *facts, pod string,
	change func(*rollout.Pod)) outcome.Outcome {
	for i := range f.rollout.Pods {
		if f.rollout.Pods[i].Name == pod {
			change(&f.rollout.Pods[i])
		}
	}
	steps := rollout.Plan(f.rollout)
	if !f.holdsLock {
		var release func()
		var err error
		if steps, release, err = c.acquireDisruption(ctx, set, f, steps); err != nil {
			return outcome.Failed(err)
		}
		defer release()
		if f.awaits != "" {
			return awaitDisruption(f, f.rollout.Held())
		}
	}
	for _, step := range steps {
		if step.Pod == pod && step.Action != rollout.SetRole {
			return c.take(ctx, set, f, step)
		}
	}
	return outcome.Done()
}

// statusProgressed says whether the latest switchover, election or restore has progressed: the next reconcile depends
// on the new status.
func statusProgressed(before, after *platformv1.WorkloadSet) bool {
	was, is := &before.Status, &after.Status
	return !equality.Semantic.DeepEqual(was.Switchover, is.Switchover) ||
		!equality.Semantic.DeepEqual(was.Restore, is.Restore) ||
		!equality.Semantic.DeepEqual(was.Election, is.Election)
}
