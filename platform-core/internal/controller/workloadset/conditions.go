// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/reportexpr"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// Reasons of conditions that a plugin declares. WorkloadSet and its owners have them.
const (
	// reasonUnreadable: the expressions of the plugin give no status or reason for the report of a pod. The
	// condition is Unknown. Correct the plugin as the message says, and publish it under a new version.
	reasonUnreadable = "CannotTell"
	// reasonNotResponding: the pod that the condition speaks of does not respond, so that it is not known whether the
	// condition is still True. The condition is Unknown until a pod reports. See Ready for what is wrong with the pod.
	reasonNotResponding = "NotResponding"
)

// reportConditions says what the pods' reports come to by the expressions of the plugin. Where no pod says anything of
// it now, as while one takes over from another, the condition stays as it is; but one that was True is Unknown while a
// pod that it speaks of is known not to respond. One that was False stays so: what was wrong may be the cause.
func reportConditions(set *platformv1.WorkloadSet, all []rollout.Pod) {
	for _, declared := range set.Spec.Conditions {
		said, heard := conditionOf(declared, all)
		switch was := conditions.Get(set, declared.Type); {
		case said != nil:
			conditions.Set(set, *said)
		case heard || set.Spec.Running != nil && !*set.Spec.Running:
			conditions.Remove(set, declared.Type)
		case was != nil && (was.Status == metav1.ConditionTrue || was.Reason == reasonNotResponding):
			if unknown := notResponding(declared, all); unknown != nil {
				conditions.Set(set, *unknown)
			}
		}
	}
	reportConnections(set, all)
	for _, kind := range conditions.Declared(set) {
		declared := func(c platformv1.SetCondition) bool { return c.Type == kind }
		if kind != platformv1.ConnectionsAvailableCondition && !slices.ContainsFunc(set.Spec.Conditions, declared) {
			conditions.Remove(set, kind)
		}
	}
}

// reportConnections says which pods have no connection left for their own probe.
func reportConnections(set *platformv1.WorkloadSet, all []rollout.Pod) {
	var full []string
	for _, p := range all {
		if p.Life != rollout.Terminating && p.Report.OutOfConnections != "" {
			full = append(full, pods.ConnectionsOf(p))
		}
	}
	if len(full) == 0 {
		conditions.Remove(set, platformv1.ConnectionsAvailableCondition)
		return
	}
	conditions.Set(set, metav1.Condition{
		Type: platformv1.ConnectionsAvailableCondition, Status: metav1.ConditionFalse,
		Reason: platformv1.ReasonTooManyClients,
		Message: strings.Join(full, "; ") + ". New clients are turned away. It is alive, so no process is restarted and no " +
			"other pod takes over. Close connections, have clients share them by a pool, or raise the limit in the parameters"})
}

// conditionOf the pods: what one says that is not well comes before what others say. heard is false where no pod that
// it speaks of reports.
func conditionOf(declared platformv1.SetCondition, all []rollout.Pod) (said *metav1.Condition, heard bool) {
	for _, p := range all {
		// One that is not healthy may report attributes all the same, and those are for an election alone. The report of
		// one on an unreachable node is what it said before.
		if !concerns(declared, p) || p.Node == rollout.Unreachable || p.Report.Health != agentreport.Healthy ||
			len(p.Report.Attributes) == 0 {
			continue
		}
		heard = true
		c := judged(declared, p)
		if c != nil && (said == nil || said.Status == metav1.ConditionTrue && c.Status != metav1.ConditionTrue) {
			said = c
		}
	}
	return said, heard
}

// concerns says whether a condition speaks of a pod. The label counts, and not the report: a pod that nobody hears of
// any more may have reported that it writes.
func concerns(declared platformv1.SetCondition, p rollout.Pod) bool {
	return p.Life != rollout.Terminating && (len(declared.Roles) == 0 || slices.Contains(declared.Roles, p.Role))
}

// notResponding is the condition while the first pod that it speaks of is known not to respond; nil where none is.
func notResponding(declared platformv1.SetCondition, all []rollout.Pod) *metav1.Condition {
	for _, p := range all {
		why := ""
		switch {
		case !concerns(declared, p):
			continue
		case p.Node == rollout.Unreachable:
			why = "its node is unreachable"
		case p.Report.Health == agentreport.Unhealthy:
			why = cmp.Or(p.Report.Message, "it is unhealthy")
		case p.Report.Health == agentreport.Stopped:
			why = "its process was stopped on request"
		default:
			continue
		}
		return &metav1.Condition{Type: declared.Type, Status: metav1.ConditionUnknown, Reason: reasonNotResponding,
			Message: fmt.Sprintf("pod %s does not respond: %s. The condition is known again once a pod reports; see Ready for "+
				"what to do", p.Name, why)}
	}
	return nil
}

func judged(declared platformv1.SetCondition, p rollout.Pod) *metav1.Condition {
	var texts [3]string
	for i, source := range []string{declared.Status, declared.Reason, declared.Message} {
		text, err := reportexpr.Text(source, p.Report.Role, p.Report.Attributes)
		if err != nil {
			return &metav1.Condition{Type: declared.Type, Status: metav1.ConditionUnknown, Reason: reasonUnreadable,
				Message: fmt.Sprintf("pod %q: %v", p.Name, err)}
		}
		if texts[i] = text; texts[0] == "" {
			return nil
		}
	}
	status := metav1.ConditionStatus(texts[0])
	if status != metav1.ConditionTrue && status != metav1.ConditionFalse || !plugin.IsReason(texts[1]) {
		return &metav1.Condition{Type: declared.Type, Status: metav1.ConditionUnknown, Reason: reasonUnreadable,
			Message: fmt.Sprintf("pod %q: the plugin gives the status %q and the reason %q", p.Name, texts[0], texts[1])}
	}
	return &metav1.Condition{Type: declared.Type, Status: status, Reason: texts[1], Message: texts[2]}
}
