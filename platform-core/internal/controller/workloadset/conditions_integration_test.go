// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// writable declares a condition by what the primary reports.
func writable(s *platformv1.WorkloadSet) {
	s.Spec.Conditions = []platformv1.SetCondition{{Type: "Writable", Roles: []string{"primary"},
		Status:  "attributes['readOnly'] == 'yes' ? 'False' : 'True'",
		Reason:  "attributes['readOnly'] == 'yes' ? 'ReadOnly' : 'ReadWrite'",
		Message: "attributes['readOnly'] == 'yes' ? 'somebody has set read_only' : 'it takes writes'"}}
}

// reports has a pod report other than before.
func (h *harness) reports(ordinal int32, change func(*agentreport.Report)) {
	h.Helper()
	testkit.Eventually(h, fmt.Sprintf("the report of pod %d", ordinal), func(ctx context.Context) error {
		live := &corev1.Pod{}
		key := client.ObjectKey{Namespace: h.namespace, Name: platformv1.PodNameFor(setName, ordinal)}
		if err := env.Client.Get(ctx, key, live); err != nil {
			return err
		}
		r, err := agentreport.Parse(live.Annotations[platformv1.ReportAnnotation])
		if err != nil || r.Health == "" {
			return fmt.Errorf("it has yet to report at all: %w", err)
		}
		change(&r)
		return h.node.publish(ctx, live, r)
	})
}

// writableIs waits for the condition.
func (h *harness) writableIs(set *platformv1.WorkloadSet, status metav1.ConditionStatus, reason, says string) {
	h.Helper()
	testkit.WaitFor(h, env.Client, set, fmt.Sprintf("Writable %s %s", status, reason), func() error {
		c := conditions.Get(set, "Writable")
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// What a primary said of itself is not told any more once it is known not to respond: its process hangs, or its node
// is away.
func TestConditionIsUnknownWhileThePrimaryDoesNotRespond(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.start(-1)
	set := h.create(3, writable)
	says := func(readOnly string) func(*agentreport.Report) {
		return func(r *agentreport.Report) {
			r.Health, r.Message, r.Attributes = agentreport.Healthy, "", map[string]string{"readOnly": readOnly}
		}
	}
	hangs := func(r *agentreport.Report) {
		r.Health, r.Message, r.Attributes = agentreport.Unhealthy, "no answer within 5s", nil
	}
	primary := platformv1.PodNameFor(setName, 0)
	h.reports(0, says("no"))
	h.writableIs(set, metav1.ConditionTrue, "ReadWrite", "it takes writes")
	testkit.WaitForReady(t, env.Client, set)

	h.reports(0, hangs)
	h.writableIs(set, metav1.ConditionUnknown, "NotResponding", "pod "+primary+" does not respond: no answer within 5s")
	h.reports(0, says("no"))
	h.writableIs(set, metav1.ConditionTrue, "ReadWrite", "it takes writes")
	testkit.WaitForReady(t, env.Client, set)

	h.lose(corev1.ConditionTrue)
	h.writableIs(set, metav1.ConditionUnknown, "NotResponding", "its node is unreachable")
	// Another one is elected, and says of itself what is wrong. That is still told when it does not respond any more.
	h.reports(1, func(r *agentreport.Report) { says("yes")(r); r.Role = "primary" })
	h.writableIs(set, metav1.ConditionFalse, "ReadOnly", "somebody has set read_only")
	h.reports(1, hangs)
	h.says(set, platformv1.ReasonNodeUnreachable, "")
	h.writableIs(set, metav1.ConditionFalse, "ReadOnly", "somebody has set read_only")
}
