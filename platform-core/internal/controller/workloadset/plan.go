// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/podstart"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// settle says where the set stands once the steps were taken.
func settle(set *platformv1.WorkloadSet, f *facts, steps []rollout.Step) outcome.Outcome {
	if f.rollout.Mode == rollout.Suspended {
		return outcome.Held(platformv1.ReasonSuspended, "nothing is done with it as long as suspend is true")
	}
	if refused := checkVolumes(set, f); refused != nil {
		return *refused
	}
	if f.moves {
		return moving(set, f)
	}
	if f.rollout.Mode == rollout.Stopped {
		return settleStopped(f)
	}
	if o := settleStuck(f); o != nil {
		return *o
	}
	if len(steps) > 0 {
		return outcome.Waiting(platformv1.ReasonPodsNotReady, progress(f, steps[0].Pod, steps[0].String()))
	}
	awaited, unsettled := f.rollout.Awaited()
	if held := f.rollout.Held(); unsettled &&
		slices.ContainsFunc(held, func(s rollout.Step) bool { return s.Pod == awaited.Name }) {
		if f.awaits != "" {
			return awaitDisruption(f, held)
		}
		return awaitWindow(f, held)
	}
	if o := expanding(set, f); o != nil {
		return *o
	}
	if unsettled {
		reason, why := explain(f, awaited)
		if platformv1.StopsPods(reason) {
			return outcome.Waiting(reason, why+"; "+progress(f, awaited.Name, "waiting for it"))
		}
		return outcome.Waiting(reason, progress(f, awaited.Name, why))
	}
	if int32(len(f.rollout.Pods)) < f.rollout.Replicas {
		return outcome.Waiting(platformv1.ReasonPodsNotReady, progress(f, "", "waiting for pods to be made"))
	}
	if o := settleElection(set, f); o != nil && !set.Spec.IsClosed() {
		return *o
	}
	if set.Spec.IsClosed() {
		return outcome.Waiting(platformv1.ReasonRestoring, "its pods run with restored data, and no client is led to the "+
			"one that takes writes until the Operation that restores says so; if that was deleted, set spec.data.access to "+
			"Open, with spec.data.generation as it is or as it was before")
	}
	return outcome.Done()
}

// sayFirst has an outcome begin with what stops a pod, whatever else there is to say. Where a failover of a primary
// that there was is pending, that stays the reason. A process that fails is told of beside the wait for the first
// primary, since nothing else tells of it.
func sayFirst(f *facts, o outcome.Outcome) outcome.Outcome {
	if f.rollout.Mode != rollout.Running {
		return o
	}
	reason, cause := stopped(f)
	switch {
	case cause == "":
		return o
	case o.Reason() == platformv1.ReasonFailoverPending && primaryOf(f.primary) != "":
		reason = o.Reason()
	}
	return o.Because(reason, cause)
}

// stopped is what stops the first pod that is stopped; empty for nothing.
func stopped(f *facts) (reason, cause string) {
	for _, p := range f.rollout.Pods {
		if !f.rollout.Wanted(p) || p.Life != rollout.Alive || p.Node == rollout.Unreachable {
			continue
		}
		fault, wake := podstart.Pod{Pod: f.pods[p.Name], Claims: f.claims, Now: f.now}.Fault()
		switch {
		case fault != nil:
			return fault.Reason, fault.Message
		case f.rollout.Founding && p.Report.Health == agentreport.Unhealthy:
			return platformv1.ReasonProcessFailing, fmt.Sprintf("pod %s is unhealthy: %s", p.Name, p.Report.Message)
		case wake > 0:
			f.wakeAfter(wake)
		}
	}
	return "", ""
}

func settleStopped(f *facts) outcome.Outcome {
	if n := len(f.rollout.Pods); n > 0 {
		return outcome.Waiting(platformv1.ReasonProgressing, fmt.Sprintf("it stops: waiting for %d pods to end", n))
	}
	return outcome.DoneAs(platformv1.ReasonStopped, "it is stopped since running is false, and its volumes are kept")
}

// settleStuck tells of the first pod that cannot have its resources anywhere; it runs on with those that it has.
func settleStuck(f *facts) *outcome.Outcome {
	for _, p := range f.rollout.Pods {
		if why, found := f.stuck[p.Name]; found {
			return new(outcome.Stalled(platformv1.ReasonResizeInfeasible, fmt.Sprintf("pod %s: %s", p.Name, why)))
		}
	}
	return nil
}

// progress says how far a change of the pods is, or how many are ready when there is none.
func progress(f *facts, pod, what string) string {
	updated, ready, behind := 0, 0, 0
	for _, p := range f.rollout.Pods {
		switch {
		case !f.rollout.Wanted(p) || p.Life != rollout.Alive:
			continue
		case f.rollout.Updated(p):
			updated++
		case p.Revision != f.rollout.Revision || p.Images != rollout.Current || p.Restart != rollout.Current ||
			p.Resources != rollout.Current || p.Report.ConfigDigest != "":
			behind++
		}
		if f.rollout.Settled(p) == rollout.Ready {
			ready++
		}
	}
	if behind > 0 && pod != "" {
		return fmt.Sprintf("%d of %d updated, waiting for %s: %s", updated, f.rollout.Replicas, pod, what)
	}
	return fmt.Sprintf("%d of %d ready: %s", ready, f.rollout.Replicas, what)
}

// explain says why a pod is not settled and what to do about it.
func explain(f *facts, p rollout.Pod) (reason, message string) {
	if p.Node == rollout.Unreachable {
		return platformv1.ReasonNodeUnreachable, explainLost(f, p)
	}
	if p.Life == rollout.Terminating {
		return platformv1.ReasonPodsNotReady, fmt.Sprintf("waiting for pod %s to end", p.Name)
	}
	if !f.rollout.Wanted(p) {
		return platformv1.ReasonPodsNotReady, fmt.Sprintf("pod %s goes when all wanted pods are ready", p.Name)
	}
	switch p.Report.Health {
	case agentreport.Unhealthy:
		return platformv1.ReasonProcessFailing, fmt.Sprintf("pod %s is unhealthy: %s", p.Name, p.Report.Message)
	case agentreport.Stopped:
		return platformv1.ReasonPodsNotReady, fmt.Sprintf("the process in pod %s was stopped on request", p.Name)
	}
	switch {
	case p.Report.Health == agentreport.Starting && p.Report.OutOfConnections != "":
		return platformv1.ReasonTooManyClients, connectionsOf(p) +
			": it is ready once its probe is let in; close connections, or raise the limit in the parameters"
	case p.Restart == rollout.Underway:
		return platformv1.ReasonPodsNotReady, fmt.Sprintf("pod %s restarts with another image", p.Name)
	case p.Resources == rollout.Underway:
		return platformv1.ReasonResizePending, fmt.Sprintf("pod %s: %s", p.Name, p.Note)
	}
	return explainConfiguration(f, p)
}

func explainConfiguration(f *facts, p rollout.Pod) (reason, message string) {
	if call := p.Report.LastCall; call != nil && call.Phase == agentreport.CallFailed &&
		p.Report.ConfigDigest != f.rollout.ConfigDigest {
		return platformv1.ReasonConfigurationPending,
			fmt.Sprintf("pod %s does not take the configuration: %s", p.Name, call.Message)
	}
	if p.Report.ConfigDigest != "" && p.Report.ConfigDigest != f.rollout.ConfigDigest {
		return platformv1.ReasonConfigurationPending,
			fmt.Sprintf("pod %s does not yet run with the current configuration", p.Name)
	}
	return platformv1.ReasonPodsNotReady, fmt.Sprintf("waiting for pod %s to be ready", p.Name)
}

// podStates is the list of pods for the status, in order of ordinal.
func podStates(f *facts) []platformv1.PodState {
	states := make([]platformv1.PodState, 0, len(f.rollout.Pods))
	for _, p := range f.rollout.Pods {
		state := platformv1.PodState{
			Name:    p.Name,
			Role:    p.Role,
			Health:  string(p.Report.Health),
			Version: p.Report.Version,
			Node:    f.pods[p.Name].Spec.NodeName,
			Zone:    zoneTold(f.pods[p.Name]),
			Message: strings.TrimSpace(cmp.Or(p.Report.Message, p.Report.OutOfConnections)),

			CertificateDigest: p.Report.CertificateDigest,
			External:          externalOf(&f.plan, f.pods[p.Name]),
		}
		states = append(states, state)
	}
	return states
}
