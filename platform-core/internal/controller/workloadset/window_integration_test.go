// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// windowed gives a set one window a day, half a day from now.
func windowed(set *platformv1.WorkloadSet) (opens time.Time) {
	opens = time.Now().UTC().Add(12 * time.Hour).Truncate(time.Hour)
	set.Spec.Maintenance = &platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{{
		Schedule: platformv1.CronLine(fmt.Sprintf("0 %d * * *", opens.Hour())),
		Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "UTC",
	}}}
	return opens
}

// report has a pod say something of itself.
func (h *harness) report(pod corev1.Pod, change func(*agentreport.Report)) {
	h.Helper()
	r, err := agentreport.Parse(pod.Annotations[platformv1.ReportAnnotation])
	if err != nil {
		h.Fatal(err)
	}
	change(&r)
	if err := h.node.publish(h.Context(), &pod, r); err != nil {
		h.Fatal(err)
	}
}

func TestChangesThatDisturbWaitForAWindow(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	var opens time.Time
	set, before := h.ready(func(s *platformv1.WorkloadSet) { opens = windowed(s) })
	next := "waits for the maintenance window, next " + opens.Format("2006-01-02T15:04Z") + " (UTC): "
	all := fmt.Sprintf("pods %[1]s-0, %[1]s-1 and %[1]s-2 are to be ", setName)
	h.render(set, func(c *content) { c.Image = "redis:2" })
	h.says(set, platformv1.ReasonWaitingForMaintenance, next+all+"restarted with another image")
	h.render(set, func(c *content) { c.Plan = planOf("d2", "s2") })
	h.says(set, platformv1.ReasonWaitingForMaintenance, next+all+"restarted")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Revision = "r2" })
	h.says(set, platformv1.ReasonWaitingForMaintenance, next+all+"replaced")
	h.sameEvents()
	h.samePods(before)
	if writes := h.writesWhile(func() {
		h.touch(set)
		h.says(set, platformv1.ReasonWaitingForMaintenance, next)
	}); writes > 0 {
		t.Errorf("%d pods were written while they wait", writes)
	}
	// What is broken does not wait; nor do more pods and fewer.
	h.report(h.pods()["1"], func(r *agentreport.Report) { r.Health, r.Message = agentreport.Unhealthy, "it hangs" })
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 4 })
	h.says(set, platformv1.ReasonWaitingForMaintenance,
		fmt.Sprintf("%spods %[2]s-0 and %[2]s-2 are to be replaced", next, setName))
	h.samePods(before, "1", "3")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 3 })
	testkit.WaitGone(h, env.Client, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: setName + "-3"}})
	h.node.events()
	// Nothing but the clock says that the window opens.
	ahead := time.Until(opens) - 3*time.Second
	h.clock.Store(int64(ahead))
	h.touch(set)
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 starts redis:1", "0 starts redis:1")
	h.samePods(before, "0", "1", "2")
	for name, pod := range h.pods() {
		// Of the time at which a pod was made the server keeps the second.
		if at := pod.CreationTimestamp.Add(ahead + time.Second); name != "1" && at.Before(opens) {
			t.Errorf("pod %s was made at %s, before the window opens at %s", name, at, opens)
		}
	}
}

func TestWhatRunsOnDoesNotWaitForAWindow(t *testing.T) {
	h := newHarness(t)
	h.knowsNode()
	h.start(-1)
	set, before := h.ready(func(s *platformv1.WorkloadSet) { windowed(s) })
	h.render(set, func(c *content) { c.Plan = planOf("d2", "s1") })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 reloads", "1 reloads", "0 reloads")
	h.samePods(before)
	h.render(set, func(c *content) { c.Plan, c.Resources = planOf("d2", "s1"), resources("150Mi", "300Mi") })
	if h.resizable {
		testkit.WaitForReady(h, env.Client, set)
		h.sameEvents("2 gets 150Mi", "1 gets 150Mi", "0 gets 150Mi")
	} else {
		h.says(set, platformv1.ReasonWaitingForMaintenance, "are to be replaced")
		h.sameEvents()
	}
	h.samePods(before)
	// What the server does not give in place needs other pods, which wait.
	h.render(set, func(c *content) { c.Plan, c.Resources = planOf("d2", "s1"), corev1.ResourceRequirements{} })
	h.says(set, platformv1.ReasonWaitingForMaintenance, "to be replaced")
	h.sameEvents()
	h.samePods(before)
	// A stop is asked for, and so is a start: then the pods are as they are to be.
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Running = new(false) })
	h.says(set, platformv1.ReasonStopped, "")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Running = new(true) })
	testkit.WaitForReady(h, env.Client, set)
	h.samePods(before, "0", "1", "2")
}

func TestWindowsThatAreTakenAwayHoldNothing(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready(func(s *platformv1.WorkloadSet) { windowed(s) })
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Revision = "r2" })
	h.says(set, platformv1.ReasonWaitingForMaintenance, "replaced")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Maintenance = nil })
	testkit.WaitForReady(h, env.Client, set)
	h.samePods(before, "0", "1", "2")
}
