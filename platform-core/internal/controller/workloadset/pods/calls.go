// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

const (
	// callRetry is how soon a process manager that did not answer is called again.
	callRetry = 5 * time.Second
	// secretRetry is how soon one is that waits for Secrets which the kubelet was just asked for.
	secretRetry = 2 * time.Second
	// callAttempts is how often a call with a plan is made that fails.
	callAttempts = 4
	// firstRetry is the time until the second attempt; it doubles with each: 14 s in all.
	firstRetry = 2 * time.Second
)

// callKey names the configuration, the generation that asks for it and the pod, so that a
// repeated call does nothing again.
func callKey(call string, set *platformv1.WorkloadSet, f *Verdict, pod *corev1.Pod) string {
	return fmt.Sprintf("%s/%s/%d/%s", call, f.Plan.Digest, set.Generation, pod.UID)
}

// pushPlan restarts the process of a pod in place with the current plan.
func (r *Reconciler) pushPlan(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	step rollout.Step) outcome.Outcome {
	pod := f.Pods[step.Pod]
	key, attempt, judged := r.nextCall(restartCall, set, f, step)
	if judged != nil {
		return *judged
	}
	process, err := r.Dialer.Dial(ctx, pod)
	if err != nil {
		return unanswered(pod, err)
	}
	r.Locks.Note(pod, key, callKey(reloadCall, set, f, pod))
	call, err := process.Restart(ctx, key, set.Spec.Plan.Raw)
	if agentclient.IsRefused(err) {
		r.Locks.Forget(pod)
	}
	if err != nil {
		return r.uncalled(ctx, set, f, pod, err)
	}
	r.Events.Normal(set, "RestartingProcess", "%s", step)
	return r.judgeCall(f, pod, call, attempt)
}

// reloadPlan has the process of a pod take the current plan over while it runs. What a reload
// cannot take over, a restart does: this pod is the next one to change in any case.
func (r *Reconciler) reloadPlan(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	step rollout.Step) outcome.Outcome {
	pod := f.Pods[step.Pod]
	key, attempt, judged := r.nextCall(reloadCall, set, f, step)
	if judged != nil {
		return *judged
	}
	process, err := r.Dialer.Dial(ctx, pod)
	if err != nil {
		return unanswered(pod, err)
	}
	call, err := process.Reload(ctx, key, set.Spec.Plan.Raw)
	if err != nil {
		return r.uncalled(ctx, set, f, pod, err)
	}
	r.Events.Normal(set, "ReloadingProcess", "%s", step)
	if call.Phase == agentreport.CallFailed && call.Reason == agentreport.ReasonRestartRequired {
		return r.instead(ctx, set, f, pod.Name, func(p *rollout.Pod) { p.Reload = rollout.Replace })
	}
	return r.judgeCall(f, pod, call, attempt)
}

// uncalled says what becomes of a call with a plan that was not made. An agent that is too old for the plan goes with
// its pod, where another one would come with the next: then the pod is the next one to change in any case.
func (r *Reconciler) uncalled(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict, pod *corev1.Pod,
	err error) outcome.Outcome {
	if want := f.wanted[pod.Name]; agentclient.IsOutdated(err) && want != nil && AgentImage(pod) != AgentImage(want) {
		return r.instead(ctx, set, f, pod.Name, func(p *rollout.Pod) { p.Agent = rollout.Replace })
	}
	if !agentclient.IsLater(err) || pod.Annotations[platformv1.AwaitedAnnotation] == f.Plan.Digest {
		return unanswered(pod, err)
	}
	if err := r.await(ctx, pod, f.Plan.Digest); err != nil {
		return outcome.Failed(err)
	}
	return unanswered(pod, err).Within(secretRetry)
}

// await has the kubelet look at a pod whose agent may wait for Secrets of a plan: it brings what has changed whenever a
// pod changes, and else within a minute or two.
func (r *Reconciler) await(ctx context.Context, pod *corev1.Pod, digest string) error {
	return r.annotate(ctx, pod, platformv1.AwaitedAnnotation, digest)
}

func unanswered(pod *corev1.Pod, err error) outcome.Outcome {
	return outcome.WaitingFor(callRetry, platformv1.ReasonConfigurationPending,
		fmt.Sprintf("pod %s: %s", pod.Name, agentclient.ProblemOf(err)))
}

// nextCall gives the key and the number of the attempt to make now; or, where it is not time for one, what became of
// the last.
func (r *Reconciler) nextCall(call string, set *platformv1.WorkloadSet, f *Verdict, step rollout.Step) (key string,
	attempt int, judged *outcome.Outcome) {
	pod := f.Pods[step.Pod]
	first := callKey(call, set, f, pod)
	last := f.callOf(step.Ordinal)
	made := attemptsOf(first, last)
	if made == 0 {
		return first, 1, nil
	}
	if o := r.judgeCall(f, pod, *last, made); o.Kind() != outcome.KindDone || last.Phase != agentreport.CallFailed {
		return "", 0, &o
	}
	return fmt.Sprintf("%s/%d", first, made+1), made + 1, nil
}

// attemptsOf says how often a call was made, as far as the last one tells: the key of the first attempt is the call's
// own, those of the others end with their number.
func attemptsOf(first string, last *agentreport.Call) int {
	if last == nil {
		return 0
	}
	rest, same := strings.CutPrefix(last.Key, first)
	if !same {
		return 0
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(rest, "/")); err == nil {
		return n
	}
	return 1
}

// judgeCall says what became of an attempt of a call. One that failed is made again a few times, at growing intervals,
// since what it met may pass; then only another plan can help. Done after a failure says that it is time for the next
// attempt.
func (r *Reconciler) judgeCall(f *Verdict, pod *corev1.Pod, call agentreport.Call, attempt int) outcome.Outcome {
	// Each pod waits by itself: processes that start together are told together.
	name := client.ObjectKeyFromObject(pod)
	if call.Phase != agentreport.CallFailed {
		r.retries.Forget(name)
		return outcome.Done()
	}
	message := fmt.Sprintf("pod %s rejects the configuration: %s", pod.Name, call.Message)
	if attempt >= callAttempts {
		r.retries.Forget(name)
		return outcome.Stalled(platformv1.ReasonConfigurationPending, fmt.Sprintf("%s; after %d attempts it is not tried "+
			"again: correct the parameters, or delete the pod to have it begin with them", message, attempt))
	}
	if wait := r.retries.Left(name, call.Key, f.Now, firstRetry<<(attempt-1)); wait > 0 {
		return outcome.WaitingFor(wait, platformv1.ReasonConfigurationPending, message+"; it is tried again")
	}
	return outcome.Done()
}

func (f *Verdict) callOf(ordinal int32) *agentreport.Call {
	for _, p := range f.Rollout.Pods {
		if p.Ordinal == ordinal {
			return p.Report.LastCall
		}
	}
	return nil
}
