// SPDX-License-Identifier: Apache-2.0

package primary

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

const (
	// SwitchoverTries is the number of attempts for one generation of the spec.
	SwitchoverTries = 3
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
func observeSwitchover(set *platformv1.WorkloadSet, f *facts.Draft) {
	declared := set.Spec.Switchover
	if declared == nil {
		return
	}
	f.Rollout.Switchover = rollout.BySwitchover
	request := requestOf(set)
	f.Rollout.Request = rollout.Request{From: request.From, To: request.To}
	advanceSwitchover(set, f)
	f.Rollout.Handover = handoverOf(set, f)
	primary := slices.IndexFunc(f.Rollout.Pods, isPrimary(f))
	if primary < 0 || !hasOps(f.Pods[f.Rollout.Pods[primary].Name]) {
		// A pod without the ops agent cannot run an action.
		return
	}
	source := memberOf(f, f.Rollout.Pods[primary])
	for i := range f.Rollout.Pods {
		p := &f.Rollout.Pods[i]
		if i == primary || !slices.Contains(declared.Roles, p.Report.Role) {
			continue
		}
		fit := true
		if declared.When != "" {
			var err error
			if fit, err = placeholder.CheckMembers(declared.When,
				placeholder.Members{Source: source, Target: memberOf(f, *p)}); err != nil {
				// The attempt is made and reports the error: to ignore the candidate would be a guess.
				fit = true
			}
		}
		if fit {
			p.Candidacy = rollout.CanTakeOver
		}
	}
}

// Plan returns the steps of the rollout. Waits for candidates are in-memory state of reconciles only: a forecast does
// not wait.
func (r *Reconciler) Plan(set *platformv1.WorkloadSet, f *facts.Draft) []rollout.Step {
	r.observeCandidateWait(set, f)
	return rollout.Plan(f.Rollout)
}

// observeCandidateWait says whether to wait for pods that cannot take over from the primary yet.
func (r *Reconciler) observeCandidateWait(set *platformv1.WorkloadSet, f *facts.Draft) {
	f.Rollout.Candidates = rollout.NoneExpected
	key := client.ObjectKeyFromObject(set)
	primary := slices.IndexFunc(f.Rollout.Pods, isPrimary(f))
	if f.Rollout.Switchover == rollout.NoSwitchover || primary < 0 || !hasOps(f.Pods[f.Rollout.Pods[primary].Name]) ||
		!f.Rollout.LacksCandidate(f.Rollout.Pods[primary].Name) {
		r.waits.Forget(key)
		return
	}
	if left := r.waits.Left(key, "candidate", f.Now, candidateTimeout); left > 0 {
		f.Rollout.Candidates = rollout.CandidateExpected
		f.WakeAfter(left)
	}
}

func hasOps(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers,
		func(c corev1.Container) bool { return c.Name == podtemplate.OpsContainer })
}

// reportsPrimary says whether a healthy pod reports that it is the primary.
func reportsPrimary(f *facts.Draft, p rollout.Pod) bool {
	return p.Life == rollout.Alive && p.Report.Health == agentreport.Healthy &&
		slices.ContainsFunc(f.Rollout.Roles, func(r platformv1.SetRole) bool {
			return r.Name == p.Report.Role && r.Access == platformv1.RoleReadWrite
		})
}

func isPrimary(f *facts.Draft) func(rollout.Pod) bool {
	return func(p rollout.Pod) bool { return reportsPrimary(f, p) }
}

func memberOf(f *facts.Draft, p rollout.Pod) placeholder.Member {
	return placeholder.Member{Name: p.Name, Ordinal: int64(p.Ordinal), FQDN: p.Name + "." + f.Plan.Domain,
		Role: p.Report.Role, Version: p.Report.Version, Attributes: p.Report.Attributes}
}

// advanceSwitchover updates the state of the latest attempt from the reports of the pods.
func advanceSwitchover(set *platformv1.WorkloadSet, f *facts.Draft) {
	s := set.Status.Switchover
	if s == nil || s.Phase != platformv1.SwitchoverRunning && s.Phase != platformv1.SwitchoverCalled {
		return
	}
	from := slices.IndexFunc(f.Rollout.Pods,
		func(p rollout.Pod) bool { return p.Name == s.From && f.Pods[p.Name].UID == s.FromUID })
	candidate := slices.IndexFunc(f.Rollout.Pods,
		func(p rollout.Pod) bool { return p.Name != s.From && reportsPrimary(f, p) })
	waited := f.Now.Sub(s.Since.Time)
	switch {
	case candidate >= 0 && (from < 0 || !reportsPrimary(f, f.Rollout.Pods[from])):
		s.To = f.Rollout.Pods[candidate].Name
		enter(s, platformv1.SwitchoverSucceeded, f.Now, "")
	case from < 0:
		enter(s, platformv1.SwitchoverFailed, f.Now, "the pod is gone")
	case s.Phase == platformv1.SwitchoverCalled && waited >= switchoverPatience:
		enter(s, platformv1.SwitchoverFailed, f.Now,
			fmt.Sprintf("the action succeeded, but within %s no other pod reported that it is the primary",
				switchoverPatience))
	case s.Phase == platformv1.SwitchoverCalled:
		f.WakeAfter(switchoverPatience - waited)
	}
}

// enter changes the phase of an attempt.
func enter(s *platformv1.SwitchoverState, phase platformv1.SwitchoverPhase, now time.Time, message string) {
	s.Phase, s.Since, s.Message = phase, metav1.NewTime(now), message
}

// handoverOf returns the latest attempt for the planner.
func handoverOf(set *platformv1.WorkloadSet, f *facts.Draft) rollout.Handover {
	s := set.Status.Switchover
	if s == nil || f.Pods[s.From] == nil || f.Pods[s.From].UID != s.FromUID {
		return rollout.Handover{}
	}
	handover := rollout.Handover{From: s.From, To: s.To, State: rollout.HandoverUnderway, Problem: s.Message}
	switch {
	case s.Phase == platformv1.SwitchoverSucceeded, s.Phase == platformv1.SwitchoverFailed && !sameOccasion(s, set):
		return rollout.Handover{}
	case s.Phase == platformv1.SwitchoverFailed && s.Attempt >= SwitchoverTries:
		handover.State = rollout.HandoverFailed
	}
	return handover
}

// sameOccasion says whether an attempt was for the current request: attempts are counted per spec and request.
func sameOccasion(s *platformv1.SwitchoverState, set *platformv1.WorkloadSet) bool {
	return s.Generation == set.Generation && s.Request == requestOf(set).Request
}

// SwitchOver makes the primary hand over. The attempt is in the status before the call is made, so that a restarted
// operator repeats the same call. Where the engine is the authority the step is an order to the primary, which
// Reconcile carries out.
func (r *Reconciler) SwitchOver(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Draft,
	step rollout.Step) outcome.Outcome {
	if set.Spec.Failover != nil {
		return switching(f, step.Pod, step.String())
	}
	pod, s := f.Pods[step.Pod], set.Status.Switchover
	same := s != nil && s.FromUID == pod.UID
	switch {
	// Also where another pod would be chosen by now: the one that was chosen may be about to report that it took over, and
	// to have yet another one do so would depose it.
	case same && s.Phase == platformv1.SwitchoverCalled:
		return switching(f, step.Pod, fmt.Sprintf(
			"it was told to hand over to %s, which has yet to report that it is the primary", s.To))
	case same && s.Phase == platformv1.SwitchoverRunning:
		return r.callSwitchover(ctx, set, f, step)
	}
	next := platformv1.SwitchoverState{From: step.Pod, FromUID: pod.UID, To: step.To, Generation: set.Generation,
		Attempt: 1,
		Request: requestOf(set).Request, Phase: platformv1.SwitchoverRunning, Since: metav1.NewTime(f.Now)}
	if same && sameOccasion(s, set) {
		if wait := s.Since.Add(switchoverPause).Sub(f.Now); wait > 0 {
			f.WakeAfter(wait)
			return switching(f, step.Pod, askedAgain(s))
		}
		if s.Attempt >= SwitchoverTries {
			// Each handover succeeded, but the pod became the primary again before it was changed.
			enter(s, platformv1.SwitchoverFailed, f.Now, "it is the primary again each time")
			return stuck(s)
		}
		next.Attempt = s.Attempt + 1
	}
	set.Status.Switchover = &next
	r.Events.Normal(set, "SwitchingOver", "%s", step)
	// The write of the status triggers the next reconcile.
	return switching(f, step.Pod, step.String())
}

// callSwitchover makes the call of the recorded attempt, or polls it.
func (r *Reconciler) callSwitchover(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Draft,
	step rollout.Step) outcome.Outcome {
	s := set.Status.Switchover
	fail := func(message string) outcome.Outcome {
		enter(s, platformv1.SwitchoverFailed, f.Now, message)
		if s.Attempt >= SwitchoverTries {
			return stuck(s)
		}
		f.WakeAfter(switchoverPause)
		return switching(f, step.Pod, askedAgain(s))
	}
	action, err := switchoverAction(set, f, s)
	if err != nil {
		return fail(err.Error())
	}
	call, err := r.runAction(ctx, f.Pods[step.Pod], action)
	switch {
	case agentclient.IsRefused(err), err != nil && f.Now.Sub(s.Since.Time) >= switchoverPatience:
		return fail(agentclient.ProblemOf(err))
	case err != nil:
		f.WakeAfter(switchoverPoll)
		return switching(f, step.Pod, agentclient.ProblemOf(err))
	}
	switch call.Phase {
	case agentreport.CallRunning:
		f.WakeAfter(switchoverPoll)
		return switching(f, step.Pod, step.String())
	case agentreport.CallSucceeded:
		enter(s, platformv1.SwitchoverCalled, f.Now, "")
		f.WakeAfter(switchoverPatience)
		return switching(f, step.Pod, step.String())
	}
	return fail(call.Message)
}

func (r *Reconciler) runAction(ctx context.Context, pod *corev1.Pod,
	action agentclient.Action) (agentclient.ActionCall, error) {
	ops, err := r.Ops.DialOps(ctx, pod)
	if err != nil {
		return agentclient.ActionCall{}, err
	}
	return ops.Run(ctx, action)
}

// switchoverAction returns the call of an attempt. Its key identifies the recorded attempt, so that a repeated call has
// no effect.
func switchoverAction(set *platformv1.WorkloadSet, f *facts.Draft,
	s *platformv1.SwitchoverState) (agentclient.Action, error) {
	_, request := platformv1.HandoverRequest{Request: s.Request}.Operation()
	action := agentclient.Action{
		Key: strings.TrimSuffix(fmt.Sprintf("switchover/%s/%d/%d/%d/%s", s.FromUID, s.Generation, s.Attempt,
			s.Since.Unix(), request), "/"),
		Name:       set.Spec.Switchover.Action,
		Parameters: map[string]string{},
	}
	var members placeholder.Members
	for _, p := range f.Rollout.Pods {
		switch p.Name {
		case s.From:
			members.Source = memberOf(f, p)
		case s.To:
			members.Target = memberOf(f, p)
		}
	}
	for name, text := range set.Spec.Switchover.Parameters {
		value, err := placeholder.ExpandMembers(text, members)
		if err != nil {
			return action, fmt.Errorf("parameter %q of action %q has no value: %w", name, action.Name, err)
		}
		action.Parameters[name] = value
	}
	declared, ok := f.Plan.Action(action.Name)
	if !ok {
		return action, fmt.Errorf("the plan has no action %q", action.Name)
	}
	return action, plugin.CheckActionParameters(declared, action.Parameters)
}

func askedAgain(s *platformv1.SwitchoverState) string {
	if s.Phase == platformv1.SwitchoverSucceeded {
		return fmt.Sprintf("it handed over to %s and is the primary again: it is asked again", s.To)
	}
	return fmt.Sprintf("it did not hand over to %s (%s), and is asked again", s.To, s.Message)
}

// Hold returns the outcome for a pod that must not be changed now.
func (r *Reconciler) Hold(set *platformv1.WorkloadSet, f *facts.Draft, step rollout.Step) outcome.Outcome {
	if f.Rollout.Handover.From == step.Pod && f.Rollout.Handover.State == rollout.HandoverFailed {
		return stuck(set.Status.Switchover)
	}
	return switching(f, step.Pod, step.Reason)
}

func switching(f *facts.Draft, pod, why string) outcome.Outcome {
	return outcome.Waiting(platformv1.ReasonSwitchoverPending, facts.Progress(f.Rollout, pod, why))
}

// stuck stalls until the user acts: without a switchover clients would lose the primary although there is a candidate.
func stuck(s *platformv1.SwitchoverState) outcome.Outcome {
	return outcome.Stalled(platformv1.ReasonSwitchoverFailed,
		fmt.Sprintf("pod %s, the primary, did not hand over to %s in %d tries (%s), and nothing is done to it: mend that "+
			"and change the spec, or run a Switchover, to have it tried again, make another pod the primary yourself, or "+
			"delete pod %s to go on without",
			s.From, s.To, s.Attempt, s.Message, s.From))
}
