// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// callRetry is after how long a process manager that does not answer is called again.
const callRetry = 2 * time.Second

// stepKind is one type of step.
type stepKind interface {
	// advance takes the step as far as the facts allow and records in it what it decides.
	advance(r *run, step *platformv1.StepStatus) verdict
}

// kindOf returns the type of a step; nil when this operator does not know it.
func kindOf(step plugin.OperationStep) stepKind {
	if step.Agent != nil && (step.Agent.Call == plugin.AgentRestart || step.Agent.Call == plugin.AgentReload) {
		return agentStep{step.Agent.Call}
	}
	return nil
}

// Call is a call to the process manager of one pod.
type Call struct {
	// Pod by name, and UID of the one that is meant.
	Pod string
	UID types.UID
	// Method to call.
	Method plugin.AgentCall
	// Key is the idempotency key: the same whenever the same call is decided on.
	Key string
}

// agentStep calls the process manager of each pod, one pod after the other.
type agentStep struct{ method plugin.AgentCall }

func (a agentStep) advance(r *run, step *platformv1.StepStatus) verdict {
	if step.Phase == platformv1.OperationPending {
		if v := a.begin(r, step); v.waiting != "" || v.failed != "" {
			return v
		}
	}
	for i := range step.Targets {
		target := &step.Targets[i]
		if target.Phase == platformv1.OperationSucceeded {
			continue
		}
		recorded := target.Phase == platformv1.OperationRunning
		target.Phase = platformv1.OperationRunning
		v := a.settle(r, step.Name, target)
		if v.call != nil && recorded {
			// Making the call again is no news: what was said last stays until there is an answer.
			v.waiting = strings.TrimPrefix(step.Message, waitingFor)
		}
		if v.waiting != "" || v.failed != "" {
			return v
		}
		target.Phase = platformv1.OperationSucceeded
	}
	return verdict{}
}

// begin records the pods that the step acts on. It waits until all are there:
// a pod that appears later has been started later, and needs nothing.
func (a agentStep) begin(r *run, step *platformv1.StepStatus) verdict {
	pods := r.facts.inOrder()
	if len(pods) == 0 {
		return verdict{failed: fmt.Sprintf("%s has no pods that step %q could act on: it has 0 replicas", r.facts.Target, step.Name)}
	}
	var targets []platformv1.StepTarget
	for _, pod := range pods {
		if pod.Presence == PodAbsent {
			return verdict{waiting: fmt.Sprintf("pod %s to be created", pod.Name)}
		}
		targets = append(targets, platformv1.StepTarget{Name: pod.Name, UID: pod.UID, Phase: platformv1.OperationPending})
	}
	r.begin(step)
	step.Targets = targets
	return verdict{}
}

// settle says how far one pod is, or what to call.
func (a agentStep) settle(r *run, stepName string, target *platformv1.StepTarget) verdict {
	pod := r.facts.pod(target.Name)
	switch {
	case pod == nil && r.facts.hasSetOf(target.Name):
		// The set was scaled in.
		return verdict{}
	case pod == nil:
		return verdict{waiting: fmt.Sprintf("the WorkloadSet of pod %s, which is gone, to be there", target.Name)}
	case pod.Presence == PodAbsent, pod.Presence == PodGoing:
		return verdict{waiting: fmt.Sprintf("pod %s to be replaced", pod.Name)}
	case pod.UID != target.UID:
		return healthy(pod, "which was replaced, ")
	}
	key := fmt.Sprintf("%s/%s/%s", r.op.UID, stepName, target.UID)
	if last := pod.Report.LastCall; last != nil && last.Key == key {
		return a.outcomeOf(pod, *last)
	}
	if pod.Presence == PodComing {
		return verdict{waiting: fmt.Sprintf("pod %s to run", pod.Name)}
	}
	if pod.Answer == nil {
		// The first time this makes the call, later it asks how the call stands.
		call := &Call{Pod: pod.Name, UID: pod.UID, Method: a.method, Key: key}
		return verdict{waiting: fmt.Sprintf("the %s of pod %s", a.method, pod.Name), call: call}
	}
	return a.answered(pod)
}

// answered judges by what the process manager said, while the report does not show our call.
func (a agentStep) answered(pod *Pod) verdict {
	answer := pod.Answer
	switch answer.Failure {
	case FailureRefused:
		return verdict{failed: fmt.Sprintf("cannot %s pod %s: %s", a.method, pod.Name, answer.Problem)}
	case FailureUnreachable:
		return verdict{waiting: fmt.Sprintf("the process manager of pod %s: %s", pod.Name, answer.Problem), retry: callRetry}
	}
	overtaken := answer.Latest != answer.Call.Key
	if answer.Call.Phase == report.CallSucceeded {
		if last := pod.Report.LastCall; !overtaken || last == nil || last.Key != answer.Latest {
			// The report lags behind what the process manager knows: what it says of the health is old.
			return verdict{waiting: fmt.Sprintf("the report of pod %s", pod.Name)}
		}
	}
	v := a.outcomeOf(pod, answer.Call)
	if v.failed == "" && answer.Call.Phase == report.CallRunning && overtaken {
		// The report will never show our call, so that nothing wakes us when it ends.
		v.retry = callRetry
	}
	return v
}

// outcomeOf judges by the record of our call.
func (a agentStep) outcomeOf(pod *Pod, call report.Call) verdict {
	switch call.Phase {
	case report.CallFailed:
		return verdict{failed: fmt.Sprintf("%s of pod %s failed: %s", a.method, pod.Name, call.Message)}
	case report.CallSucceeded:
		return healthy(pod, "")
	}
	return verdict{waiting: fmt.Sprintf("the %s of pod %s", a.method, pod.Name)}
}

// healthy is done when the middleware in the pod is.
func healthy(pod *Pod, aside string) verdict {
	if pod.Report.Health == report.Healthy {
		return verdict{}
	}
	waiting := fmt.Sprintf("pod %s, %sto become healthy", pod.Name, aside)
	if aside == "" {
		waiting = fmt.Sprintf("pod %s to become healthy", pod.Name)
	}
	if pod.Report.Message != "" {
		waiting += ": " + pod.Report.Message
	}
	return verdict{waiting: waiting}
}
