// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

const (
	// callRetry is after how long an agent that does not answer is called again.
	callRetry = 2 * time.Second
	// actionPoll is after how long an action that runs is asked for again: no report shows its end.
	actionPoll = time.Second
)

// agentStep calls an agent of each pod, one pod after the other.
type agentStep struct{}

func (a agentStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if step.Phase == platformv1.OperationPending {
		if v := a.begin(r, t, step); !v.done() {
			return v
		}
	}
	for i := range step.Targets {
		target := &step.Targets[i]
		if target.Phase == platformv1.OperationSucceeded {
			continue
		}
		target.Phase = platformv1.OperationRunning
		if v := a.settle(r, t, step, target); !v.done() {
			if i > 0 {
				v.untouched = ""
			}
			return v
		}
		target.Phase = platformv1.OperationSucceeded
	}
	return verdict{}
}

// begin records the pods that the step acts on. It waits until all are there:
// a pod that appears later has been started later, and needs nothing. Another attempt goes on where the one before
// failed.
func (a agentStep) begin(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if len(step.Targets) > 0 {
		if t.Agent.Action != "" {
			followPods(r.facts, step)
		}
		r.begin(step)
		return verdict{}
	}
	pods, v := a.pods(r, t)
	if !v.done() {
		return v
	}
	if t.Agent.Call == optemplate.AgentReload {
		pods = slices.DeleteFunc(pods, func(pod Pod) bool { return r.facts.Unreloadable[pod.Component] })
	}
	if len(pods) == 0 {
		return failedf("%s has no pods that step %q could act on: it has 0 replicas", r.facts.Target, t.Name)
	}
	var targets []platformv1.StepTarget
	if t.Agent.Pods == optemplate.PodsOne {
		pods = oneOf(pods)
	}
	for _, pod := range pods {
		if pod.Presence == PodAbsent {
			return verdict{waiting: fmt.Sprintf("pod %s to be created", pod.Name)}
		}
		if chosen(t.Agent.Pods, pod) {
			targets = append(targets, platformv1.StepTarget{Name: pod.Name, UID: pod.UID, Phase: platformv1.OperationPending})
		}
	}
	if len(targets) == 0 && t.Agent.Pods == optemplate.PodsWriters {
		return verdict{waiting: fmt.Sprintf("a pod of %s to become the primary", r.facts.Target)}
	}
	r.begin(step)
	step.Targets = targets
	return verdict{}
}

// pods that a step chooses from, in order: the one that it names, or all.
func (agentStep) pods(r *run, t *optemplate.Step) ([]Pod, verdict) {
	pods := r.facts.inOrder()
	if t.Agent.Pod == "" {
		return pods, verdict{}
	}
	name, v := r.text(t, t.Agent.Pod, item{})
	if !v.done() {
		return nil, v
	}
	i := slices.IndexFunc(pods, func(pod Pod) bool { return pod.Name == name })
	if i < 0 {
		return nil, failedf("%q is no pod of %s that step %q could act on", name, r.facts.Target, t.Name)
	}
	return pods[i : i+1], verdict{}
}

// followPods has another attempt of an action act on the pods that have the names now: what ran in one that was
// replaced has ended with it.
func followPods(f Facts, step *platformv1.StepStatus) {
	for i := range step.Targets {
		target := &step.Targets[i]
		if pod := f.pod(target.Name); target.Phase != platformv1.OperationSucceeded && pod != nil && pod.UID != "" {
			target.UID = pod.UID
		}
	}
}

// oneOf is the first pod that is well, or the first one where none is.
func oneOf(pods []Pod) []Pod {
	i := max(slices.IndexFunc(pods, func(pod Pod) bool { return pod.unhealthyReason() == "" }), 0)
	return pods[i:min(i+1, len(pods))]
}

func chosen(choice optemplate.PodChoice, pod Pod) bool {
	switch choice {
	case optemplate.PodsWriters:
		return writes(pod) == 1
	case optemplate.PodsOthers:
		return writes(pod) == 0
	}
	return true
}

// settle says how far one pod is, or what to call.
func (a agentStep) settle(r *run, t *optemplate.Step, step *platformv1.StepStatus,
	target *platformv1.StepTarget) verdict {
	pod := r.facts.pod(target.Name)
	method := cmp.Or(string(t.Agent.Call), t.Agent.Action)
	switch {
	case pod == nil && r.facts.hasSetOf(target.Name):
		// The set was scaled in.
		return verdict{}
	case pod == nil:
		return verdict{waiting: fmt.Sprintf("the WorkloadSet of pod %s, which is gone, to be there", target.Name)}
	case pod.Presence == PodAbsent, pod.Presence == PodGoing:
		return verdict{waiting: fmt.Sprintf("pod %s to be replaced", pod.Name)}
	case pod.UID != target.UID && t.Agent.Action != "":
		return failedf("pod %s was replaced before action %s in it was known to have ended", pod.Name, t.Agent.Action)
	case pod.UID != target.UID:
		return healthy(pod, "which was replaced, ")
	}
	key := r.key(step, string(target.UID))
	if last := pod.Report.LastCall; last != nil && last.Key == key {
		return a.outcomeOf(t, pod, *last)
	}
	if pod.Presence == PodComing {
		return verdict{waiting: fmt.Sprintf("pod %s to run", pod.Name)}
	}
	answer := r.facts.Answers[key]
	if answer == nil {
		if v := a.handOver(r, t, step, pod); !v.done() {
			return v
		}
		call, why := a.call(r, t, pod)
		if why != "" {
			return verdict{failed: why, untouched: yes}
		}
		// The first time this makes the call, later it asks how the call stands.
		return verdict{waiting: fmt.Sprintf("the %s of pod %s", method, pod.Name), effect: &Effect{Key: key, Call: call}}
	}
	switch answer.Failure {
	case FailureRefused:
		return verdict{failed: fmt.Sprintf("cannot %s pod %s: %s", method, pod.Name, answer.Problem), untouched: yes}
	case FailureUnreachable:
		who := "the process manager"
		if t.Agent.Action != "" {
			who = "the ops agent"
		}
		return verdict{waiting: fmt.Sprintf("%s of pod %s: %s", who, pod.Name, answer.Problem), retry: callRetry,
			unreachable: pod.Name}
	}
	if t.Agent.Action != "" {
		return a.acted(r, t, step, pod, answer)
	}
	return a.answered(t, pod, answer)
}

// handOver has a pod that writes hand over before its process is restarted, where members elect the primary and there
// is another pod: they would elect one only once they miss it.
func (a agentStep) handOver(r *run, t *optemplate.Step, step *platformv1.StepStatus, pod *Pod) verdict {
	switch set := step.Outputs[outputSet]; {
	case a.handsOver(r, t, pod):
	case set != "" && r.facts.primaryOf(set) == nil:
		return verdict{waiting: fmt.Sprintf("another pod to take over from %s", pod.Name), retry: closePoll}
	default:
		return withdraw(r, step)
	}
	if step.Outputs == nil {
		step.Outputs = map[string]string{}
	}
	step.Outputs[outputSet] = platformv1.WorkloadSetNameOf(pod.Name)
	return handedOver(r, step, &Effect{Key: r.key(step, "yield/"+string(pod.UID)),
		Handover: &Handover{Set: platformv1.WorkloadSetNameOf(pod.Name), From: pod.Name}})
}

// handsOver says whether a pod is to hand over before it is called.
func (a agentStep) handsOver(r *run, t *optemplate.Step, pod *Pod) bool {
	return t.Agent.Call == optemplate.AgentRestart && writes(*pod) == 1 &&
		r.facts.HandingOver[platformv1.WorkloadSetNameOf(pod.Name)] && len(r.facts.SetMates(pod.Name)) > 0
}

// call is what to call at a pod; why says why it cannot be called.
func (a agentStep) call(r *run, t *optemplate.Step, pod *Pod) (call *Call, why string) {
	call = &Call{Pod: pod.Name, UID: pod.UID, Method: t.Agent.Call, Signal: t.Agent.Signal, Action: t.Agent.Action}
	if t.Agent.Action == "" {
		return call, ""
	}
	call.Parameters = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(t.Agent.Parameters)) {
		value, err := r.facts.Template.Text(t.Name, t.Agent.Parameters[name], r.variables(t, nil))
		if err != nil {
			return nil, fmt.Sprintf("parameter %q of action %q has no value: %v", name, t.Agent.Action, err)
		}
		call.Parameters[name] = value
	}
	i := slices.IndexFunc(r.facts.Actions[pod.Component], func(a plan.Action) bool { return a.Name == t.Agent.Action })
	if i < 0 {
		return nil, fmt.Sprintf("component %q of pod %s has no action %q", pod.Component, pod.Name, t.Agent.Action)
	}
	if err := plugin.CheckActionParameters(&r.facts.Actions[pod.Component][i], call.Parameters); err != nil {
		return nil, err.Error()
	}
	return call, ""
}

// acted judges by what the ops agent said. Its outputs are those of the step, where several pods have some those of the
// last.
func (a agentStep) acted(r *run, t *optemplate.Step, step *platformv1.StepStatus, pod *Pod,
	answer *Answer) verdict {
	switch answer.Call.Phase {
	case report.CallSucceeded:
		if len(answer.Outputs) > 0 {
			outputs, err := r.recorded(t, answer.Outputs)
			if err != nil {
				return failedf("%s of pod %s ended well, and what it said is not as declared: %v", t.Agent.Action, pod.Name, err)
			}
			step.Outputs = outputs
		}
		return verdict{}
	case report.CallRunning:
		waiting := fmt.Sprintf("the %s of pod %s", t.Agent.Action, pod.Name)
		if answer.Call.Message != "" {
			waiting += " (" + answer.Call.Message + ")"
		}
		return verdict{waiting: waiting, retry: actionPoll}
	}
	if answer.Call.Reason == report.ReasonDataBad {
		noteDataBad(step)
	}
	return failedf("%s of pod %s failed: %s", t.Agent.Action, pod.Name, answer.Call.Message)
}

// answered judges by what the process manager said, while the report does not show our call.
func (a agentStep) answered(t *optemplate.Step, pod *Pod, answer *Answer) verdict {
	overtaken := answer.Latest != answer.Call.Key
	if answer.Call.Phase == report.CallSucceeded {
		if last := pod.Report.LastCall; !overtaken || last == nil || last.Key != answer.Latest {
			// The report lags behind what the process manager knows: what it says of the health is old.
			return verdict{waiting: fmt.Sprintf("the report of pod %s", pod.Name)}
		}
	}
	v := a.outcomeOf(t, pod, answer.Call)
	if v.failed == "" && answer.Call.Phase == report.CallRunning && overtaken {
		// The report will never show our call, so that nothing wakes us when it ends.
		v.retry = callRetry
	}
	return v
}

// outcomeOf judges by the record of our call.
func (a agentStep) outcomeOf(t *optemplate.Step, pod *Pod, call report.Call) verdict {
	switch {
	case call.Phase == report.CallFailed, call.Phase == report.CallInterrupted:
		return failedf("%s of pod %s failed: %s", t.Agent.Call, pod.Name, call.Message)
	case call.Phase != report.CallSucceeded:
		return verdict{waiting: fmt.Sprintf("the %s of pod %s", t.Agent.Call, pod.Name)}
	case t.Agent.Call == optemplate.AgentStop:
		return verdict{}
	}
	return healthy(pod, "")
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
