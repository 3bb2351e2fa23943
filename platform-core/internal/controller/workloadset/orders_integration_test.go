// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// operation makes an Operation that runs a step which asks for another primary.
func (h *harness) operation(name string, change func(*platformv1.Operation)) *platformv1.Operation {
	h.Helper()
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name},
		Spec: platformv1.OperationSpec{
			TemplateRef: "Failover", TargetRef: platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(),
				Kind: "WorkloadSet", Name: setName},
		}}
	if change != nil {
		change(op)
	}
	if err := env.Client.Create(h.Context(), op); err != nil {
		h.Fatal(err)
	}
	op.Status.Phase = platformv1.OperationRunning
	op.Status.Steps = []platformv1.StepStatus{
		{Name: "failover", Phase: platformv1.OperationRunning, Outputs: map[string]string{"asked": setName}}}
	if err := env.Client.Status().Update(h.Context(), op); err != nil {
		h.Fatal(err)
	}
	return op
}

// as is the client of another administrator.
func as(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	other, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// ask puts a request on a set.
func (h *harness) ask(set *platformv1.WorkloadSet, request platformv1.HandoverRequest) {
	h.Helper()
	h.change(set, func(s *platformv1.WorkloadSet) {
		s.Annotations = map[string]string{platformv1.SwitchPrimaryAnnotation: request.String()}
	})
}

// unasked waits until nothing is asked of a set.
func (h *harness) unasked(set *platformv1.WorkloadSet) {
	h.Helper()
	testkit.WaitFor(h, env.Client, set, "no request", func() error {
		if text, found := set.Annotations[platformv1.SwitchPrimaryAnnotation]; found {
			return fmt.Errorf("it is asked for %q", text)
		}
		return nil
	})
}

// What an Operation asked for goes with it, in whichever way it goes.
func TestARequestGoesWithItsOperation(t *testing.T) {
	t.Parallel()
	for name, goes := range map[string]func(h *harness, op *platformv1.Operation) error{
		"deleted": func(h *harness, op *platformv1.Operation) error { return env.Client.Delete(h.Context(), op) },
		"ended, and the set is looked at again": func(h *harness, op *platformv1.Operation) error {
			op.Status.Phase = platformv1.OperationFailed
			return env.Client.Status().Update(h.Context(), op)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			m, set := h.reigned(2)
			h.must(m.change(setName+"-1", func(s *simulatedMember) { s.breaks = true }))
			op := h.operation("asks", nil)
			h.ask(set, platformv1.HandoverRequest{From: setName + "-0", Request: platformv1.RequestOf(op)})
			testkit.WaitFor(h, env.Client, set, "a word on the request", func() error {
				if s := set.Status.Switchover; s == nil || s.Request != platformv1.RequestOf(op) ||
					s.Phase != platformv1.SwitchoverFailed || s.Message == "" {
					return fmt.Errorf("it says %+v", s)
				}
				return nil
			})
			h.must(goes(h, op))
			h.unasked(set)
			// The primary stays when somebody could take over again.
			h.must(m.change(setName+"-1", func(s *simulatedMember) { s.breaks = false }))
			testkit.WaitForReady(h, env.Client, set)
			h.writes(m, set, "0", 1)
		})
	}
}

// An Operation that works through the pods has the primary hand over before its process is restarted, while nothing
// else is done to a pod.
func TestAnOperationAtWorkHasThePrimaryHandOver(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready(handsOver(t))
	op := h.operation("restart", func(op *platformv1.Operation) {
		op.Spec.TemplateRef, op.Labels = "Restart",
			map[string]string{platformv1.ApplicationLabel: set.Spec.Application,
				platformv1.DomainLabel: set.Labels[platformv1.DomainLabel]}
	})
	pod := before["0"]
	op.Status.Steps[0].Targets = []platformv1.StepTarget{
		{Name: pod.Name, UID: pod.UID, Phase: platformv1.OperationRunning}}
	if err := env.Client.Status().Update(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	h.ask(set, platformv1.HandoverRequest{From: pod.Name, Request: platformv1.RequestOf(op)})
	testkit.WaitFor(h, env.Client, set, "a handover", func() error {
		if s := set.Status.Switchover; s == nil || s.Phase != platformv1.SwitchoverSucceeded || s.From != pod.Name ||
			s.Request != platformv1.RequestOf(op) {
			return fmt.Errorf("it says %+v", s)
		}
		return nil
	})
	h.sameEvents("0 hands over to 1")
	h.samePods(before)
}

// A request of an Operation that never was, or of an earlier one under its name, is taken back.
func TestARequestOfNobody(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m, set := h.reigned(2)
	h.operation("asks", nil)
	for _, request := range []string{"nobody/1", "asks/another-uid"} {
		h.ask(set, platformv1.HandoverRequest{From: setName + "-0", Way: platformv1.TakeOver, Request: request})
		h.unasked(set)
	}
	// Without an Operation the primary is asked to hand over, and is not taken over from.
	h.writes(m, set, "0", 1)
}

// Another pod takes over from a primary that works, and one that lacks too much only when that was approved.
func TestAnotherOneTakesOver(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := newCrew(h)
	h.start(-1)
	set := h.create(3, withFailover, func(s *platformv1.WorkloadSet) { s.Spec.Failover.Handover = "handover" })
	h.writes(m, set, "0", 1)
	h.must(m.change(setName+"-1", func(s *simulatedMember) { s.offset = 9 }))
	op := h.operation("takes", func(op *platformv1.Operation) {
		op.Spec.Author, op.Spec.Parameters = "admin", platformv1.Parameters{"acceptDataLoss": "true"}
	})
	before := op.DeepCopy()
	op.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationApproved}
	h.must(as(t, "bob").Patch(h.Context(), op, client.MergeFrom(before)))
	h.ask(set, platformv1.HandoverRequest{From: setName + "-0", To: setName + "-2", Way: platformv1.TakeOver,
		Request: platformv1.RequestOf(op)})
	h.writes(m, set, "2", 2)
	// The one that has more takes over without that.
	op = h.operation("takes-more", nil)
	h.ask(set, platformv1.HandoverRequest{From: setName + "-2", To: setName + "-0", Way: platformv1.TakeOver,
		Request: platformv1.RequestOf(op)})
	h.writes(m, set, "1", 3)
	h.unasked(set)
}

// What is about to take over loses its label before the primary does, and both have theirs again when the set is
// suspended before anything came of it.
func TestASuspendedHandoverLeavesNobodyWithoutALabel(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := newCrew(h)
	h.start(-1)
	set := h.create(2, withFailover, func(s *platformv1.WorkloadSet) { s.Spec.Failover.Handover = "handover" })
	h.writes(m, set, "0", 1)
	labels := func(primary, candidate string) {
		h.Helper()
		testkit.Eventually(h, fmt.Sprintf("the labels %q and %q", primary, candidate), func(context.Context) error {
			pods := h.pods()
			if w, other := pods["0"].Labels[platformv1.RoleLabel], pods["1"].Labels[platformv1.RoleLabel]; w != primary ||
				other != candidate {
				return fmt.Errorf("they are %q and %q", w, other)
			}
			return nil
		})
	}
	labels("primary", "replica")
	h.ask(set, platformv1.HandoverRequest{From: setName + "-0", To: setName + "-1"})
	labels("primary", "")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Suspend = true })
	labels("primary", "replica")
	h.says(set, platformv1.ReasonSuspended, "suspend")
}
