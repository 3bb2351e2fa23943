// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
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
)

// reportConditions says what the pods' reports come to by the expressions of the plugin. Where no pod says anything of
// it now, as while one takes over from another, the condition stays as it is.
func reportConditions(set *platformv1.WorkloadSet, f *facts) {
	for _, declared := range set.Spec.Conditions {
		said, heard := conditionOf(declared, f.rollout.Pods)
		switch {
		case said != nil:
			conditions.Set(set, *said)
		case heard || set.Spec.Running != nil && !*set.Spec.Running:
			conditions.Remove(set, declared.Type)
		}
	}
	reportConnections(set, f)
	for _, kind := range conditions.Declared(set) {
		declared := func(c platformv1.SetCondition) bool { return c.Type == kind }
		if kind != platformv1.ConnectionsAvailableCondition && !slices.ContainsFunc(set.Spec.Conditions, declared) {
			conditions.Remove(set, kind)
		}
	}
}

// reportConnections says which pods have no connection left for their own probe.
func reportConnections(set *platformv1.WorkloadSet, f *facts) {
	var full []string
	for _, p := range f.rollout.Pods {
		if p.Life != rollout.Terminating && p.Report.OutOfConnections != "" {
			full = append(full, connectionsOf(p))
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

// connectionsOf a pod that turns its own probe away.
func connectionsOf(p rollout.Pod) string {
	return fmt.Sprintf("clients have all connections of pod %s (%s)", p.Name, p.Report.OutOfConnections)
}

// conditionOf the pods: what one says that is not well comes before what others say. heard is false where no pod that
// it speaks of reports.
func conditionOf(declared platformv1.SetCondition, pods []rollout.Pod) (said *metav1.Condition, heard bool) {
	for _, p := range pods {
		// The label, and not the report: a pod that nobody hears of any more may have reported that it writes.
		if p.Life == rollout.Terminating || len(declared.Roles) > 0 && !slices.Contains(declared.Roles, p.Role) {
			continue
		}
		// One that is not healthy may report attributes all the same, and those are for an election alone.
		if p.Report.Health != agentreport.Healthy || len(p.Report.Attributes) == 0 {
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
