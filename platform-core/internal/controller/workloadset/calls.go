// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// callRetry is how soon a process manager that did not answer is called again.
const callRetry = 5 * time.Second

// callKey names the configuration, the generation that asks for it and the pod, so that a
// repeated call does nothing again.
func callKey(call string, set *platformv1.WorkloadSet, f *facts, pod *corev1.Pod) string {
	return fmt.Sprintf("%s/%s/%d/%s", call, f.plan.Digest, set.Generation, pod.UID)
}

// pushPlan restarts the process of a pod in place with the current plan.
func (c *Controller) pushPlan(ctx context.Context, set *platformv1.WorkloadSet, f *facts, step rollout.Step) outcome.Outcome {
	pod := f.pods[step.Pod]
	key := callKey(restartCall, set, f, pod)
	if last := f.callOf(step.Ordinal); last != nil && last.Key == key {
		// It was called; the report tells how it ends.
		return judgeCall(pod, *last)
	}
	process, err := c.Dialer.Dial(ctx, pod)
	if err != nil {
		return unanswered(err)
	}
	c.events.Normal(set, "RestartingProcess", "%s", step)
	call, err := process.Restart(ctx, key, set.Spec.Plan.Raw)
	if err != nil {
		return unanswered(err)
	}
	return judgeCall(pod, call)
}

// reloadPlan has the process of a pod take the current plan over while it runs. What a reload
// cannot take over, a restart does: it is this pod's turn in any case.
func (c *Controller) reloadPlan(ctx context.Context, set *platformv1.WorkloadSet, f *facts, step rollout.Step) outcome.Outcome {
	pod := f.pods[step.Pod]
	key := callKey(reloadCall, set, f, pod)
	if last := f.callOf(step.Ordinal); last != nil && last.Key == key {
		return judgeCall(pod, *last)
	}
	process, err := c.Dialer.Dial(ctx, pod)
	if err != nil {
		return unanswered(err)
	}
	c.events.Normal(set, "ReloadingProcess", "%s", step)
	call, err := process.Reload(ctx, key, set.Spec.Plan.Raw)
	switch {
	case err != nil:
		return unanswered(err)
	case call.Phase == agentreport.CallFailed && call.Reason == agentreport.ReasonRestartRequired:
		return c.instead(ctx, set, f, pod.Name, func(p *rollout.Pod) { p.Reload = rollout.Replace })
	}
	return judgeCall(pod, call)
}

func unanswered(err error) outcome.Outcome {
	return outcome.WaitingFor(callRetry, platformv1.ReasonConfigurationPending, agentclient.ProblemOf(err))
}

// judgeCall says what became of a call with a new plan. One that failed is not
// called again: only another plan can help.
func judgeCall(pod *corev1.Pod, call agentreport.Call) outcome.Outcome {
	if call.Phase == agentreport.CallFailed {
		return outcome.Stalled(platformv1.ReasonConfigurationPending, fmt.Sprintf("pod %s does not take the configuration: %s", pod.Name, call.Message))
	}
	return outcome.Done()
}

func (f *facts) callOf(ordinal int32) *agentreport.Call {
	for _, p := range f.rollout.Pods {
		if p.Ordinal == ordinal {
			return p.Report.LastCall
		}
	}
	return nil
}
