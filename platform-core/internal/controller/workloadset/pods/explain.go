// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"fmt"
	"strings"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/podstart"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Cause is what stops the first pod that is stopped; empty for nothing.
func Cause(f *Verdict) (reason, cause string) {
	for _, p := range f.Rollout.Pods {
		if !f.Rollout.Wanted(p) || p.Life != rollout.Alive || p.Node == rollout.Unreachable {
			continue
		}
		fault, wake := podstart.Pod{Pod: f.Pods[p.Name], Claims: f.Claims, Now: f.Now}.Fault()
		switch {
		case fault != nil:
			return fault.Reason, fault.Message
		case f.Rollout.Founding && p.Report.Health == agentreport.Unhealthy:
			return platformv1.ReasonProcessFailing, fmt.Sprintf("pod %s is unhealthy: %s", p.Name, p.Report.Message)
		case wake > 0:
			f.WakeAfter(wake)
		}
	}
	return "", ""
}

// Stuck tells of the first pod that cannot have its resources anywhere; it runs on with those that it has.
func Stuck(f *Verdict) *outcome.Outcome {
	for _, p := range f.Rollout.Pods {
		if why, found := f.stuck[p.Name]; found {
			return new(outcome.Stalled(platformv1.ReasonResizeInfeasible, fmt.Sprintf("pod %s: %s", p.Name, why)))
		}
	}
	return nil
}

// Explain says why a pod is not settled and what to do about it.
func Explain(f *Verdict, p rollout.Pod) (reason, message string) {
	if p.Node == rollout.Unreachable {
		return platformv1.ReasonNodeUnreachable, explainLost(f, p)
	}
	if p.Life == rollout.Terminating {
		return platformv1.ReasonPodsNotReady, fmt.Sprintf("waiting for pod %s to end", p.Name)
	}
	if !f.Rollout.Wanted(p) {
		return platformv1.ReasonPodsNotReady, fmt.Sprintf("pod %s is deleted once all wanted pods are ready", p.Name)
	}
	switch p.Report.Health {
	case agentreport.Unhealthy:
		return platformv1.ReasonProcessFailing, fmt.Sprintf("pod %s is unhealthy: %s", p.Name, p.Report.Message)
	case agentreport.Stopped:
		return platformv1.ReasonPodsNotReady, fmt.Sprintf("the process in pod %s was stopped on request", p.Name)
	}
	switch {
	case p.Report.Health == agentreport.Starting && p.Report.OutOfConnections != "":
		return platformv1.ReasonTooManyClients, ConnectionsOf(p) +
			": it becomes ready once its probe can connect; close connections, or raise the limit in the parameters"
	case p.Restart == rollout.Underway:
		return platformv1.ReasonPodsNotReady, fmt.Sprintf("pod %s restarts with another image", p.Name)
	case p.Resources == rollout.Underway:
		return platformv1.ReasonResizePending, fmt.Sprintf("pod %s: %s", p.Name, p.Note)
	}
	return explainConfiguration(f, p)
}

func explainConfiguration(f *Verdict, p rollout.Pod) (reason, message string) {
	if call := p.Report.LastCall; call != nil && call.Phase == agentreport.CallFailed &&
		p.Report.ConfigDigest != f.Rollout.ConfigDigest {
		return platformv1.ReasonConfigurationPending,
			fmt.Sprintf("pod %s rejects the configuration: %s", p.Name, call.Message)
	}
	if p.Report.ConfigDigest != "" && p.Report.ConfigDigest != f.Rollout.ConfigDigest {
		return platformv1.ReasonConfigurationPending,
			fmt.Sprintf("pod %s does not yet run with the current configuration", p.Name)
	}
	waiting := fmt.Sprintf("waiting for pod %s to be ready", p.Name)
	if p.Report.Health == agentreport.Starting && p.Report.Message != "" {
		waiting += ": " + p.Report.Message
	}
	return platformv1.ReasonPodsNotReady, waiting
}

// States is the list of pods for the status, in order of ordinal.
func States(f *Verdict) []platformv1.PodState {
	states := make([]platformv1.PodState, 0, len(f.Rollout.Pods))
	for _, p := range f.Rollout.Pods {
		state := platformv1.PodState{
			Name:    p.Name,
			Role:    p.Role,
			Health:  string(p.Report.Health),
			Version: p.Report.Version, MemberID: p.Report.MemberID,
			Node:    f.Pods[p.Name].Spec.NodeName,
			Zone:    zoneTold(f.Pods[p.Name]),
			Message: strings.TrimSpace(cmp.Or(p.Report.Message, p.Report.OutOfConnections)),

			CertificateDigest: p.Report.CertificateDigest,
			External:          externalOf(&f.Plan, f.Pods[p.Name]),
		}
		states = append(states, state)
	}
	return states
}

// ConnectionsOf says that a pod turns its own probe away.
func ConnectionsOf(p rollout.Pod) string {
	return fmt.Sprintf("clients have all connections of pod %s (%s)", p.Name, p.Report.OutOfConnections)
}
