// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/primary"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// handsOver gives a set an action by which its primary hands over.
func handsOver(t testing.TB) func(*platformv1.WorkloadSet) {
	return func(s *platformv1.WorkloadSet) {
		t.Helper()
		s.Spec.Switchover = &platformv1.SetSwitchover{Action: "hand-over", Roles: []string{"replica"},
			When:       "target.ordinal != 7",
			Parameters: map[string]string{"to": "${target.name}"}}
		var template corev1.PodTemplateSpec
		var p plan.Plan
		for target, raw := range map[any]*[]byte{&template: &s.Spec.Template.Raw, &p: &s.Spec.Plan.Raw} {
			if err := json.Unmarshal(*raw, target); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.ContainsFunc(template.Spec.Containers,
			func(c corev1.Container) bool { return c.Name == podtemplate.OpsContainer }) {
			template.Spec.Containers = append(template.Spec.Containers,
				corev1.Container{Name: podtemplate.OpsContainer, Image: template.Spec.Containers[0].Image})
		}
		p.Actions = []plan.Action{{Name: "hand-over", Command: []string{"hand-over", "${parameters.to}"},
			Parameters: map[string]string{"to": `=~"^[a-z0-9-]+$"`}}}
		for raw, value := range map[*[]byte]any{&s.Spec.Template.Raw: template, &s.Spec.Plan.Raw: p} {
			data, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			*raw = data
		}
	}
}

// DialOps implements agentclient.OpsDialer.
func (n *node) DialOps(_ context.Context, pod *corev1.Pod) (agentclient.Ops, error) {
	return &opsAgent{n, pod}, nil
}

// opsAgent is the ops agent of one pod, with a middleware that does what it is told.
type opsAgent struct {
	node *node
	pod  *corev1.Pod
}

// Await implements agentclient.Ops.
func (o *opsAgent) Await(ctx context.Context, a agentclient.Action) (agentclient.ActionCall, error) {
	o.node.called(ctx, a.Name, o.pod.Name)
	if a.Name == measureAction {
		return o.node.measure(o.pod.Name, a.Key)
	}
	if a.Name == holdAction || a.Name == handoverAction {
		return o.node.prepares(o.pod.Name, a.Name, a.Key), nil
	}
	return o.Run(ctx, a)
}

// Run implements agentclient.Ops: the first call begins, the next one with the key gives the outcome.
func (o *opsAgent) Run(ctx context.Context, a agentclient.Action) (agentclient.ActionCall, error) {
	call := agentclient.ActionCall{Call: agentreport.Call{Key: a.Key, Phase: agentreport.CallSucceeded}}
	known, to := false, a.Parameters["to"]
	o.node.set(func() {
		if call, known = o.node.ops[a.Key]; known {
			return
		}
		call = agentclient.ActionCall{Call: agentreport.Call{Key: a.Key, Phase: agentreport.CallSucceeded}}
		if o.node.deaf != "" {
			call.Phase, call.Message = agentreport.CallFailed, o.node.deaf
		} else {
			o.node.note("%s hands over to %s", o.pod.Name, strings.TrimPrefix(to, setName+"-"))
			o.node.primary = to
		}
		o.node.ops[a.Key] = call
	})
	if known || call.Phase != agentreport.CallSucceeded {
		return call, nil
	}
	call.Phase = agentreport.CallRunning
	for name, role := range map[string]string{o.pod.Name: "replica", to: "primary"} {
		if err := o.node.reports(ctx, name, role); err != nil {
			return call, err
		}
	}
	return call, nil
}

// reports has a pod report another role.
func (n *node) reports(ctx context.Context, name, role string) error {
	live := &corev1.Pod{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: n.namespace, Name: name}, live); err != nil {
		return err
	}
	r, err := agentreport.Parse(live.Annotations[platformv1.ReportAnnotation])
	if err != nil {
		return err
	}
	r.Role = role
	return n.publish(ctx, live, r)
}

// switches counts the actions that were carried out.
func (n *node) switches() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, call := range n.ops {
		if call.Phase == agentreport.CallSucceeded {
			count++
		}
	}
	return count
}

// renderHandingOver is render for a set that hands over.
func (h *harness) renderHandingOver(set *platformv1.WorkloadSet, change func(*content)) {
	h.Helper()
	c := original()
	change(&c)
	h.change(set, func(s *platformv1.WorkloadSet) {
		c.fill(h, &s.Spec)
		handsOver(h)(s)
	})
}

func TestPrimaryHandsOverBeforeItIsTakenOut(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready(handsOver(t))
	h.renderHandingOver(set, func(c *content) { c.Plan = planOf("d2", "s2") })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 restarts", "1 restarts", "0 hands over to 1", "0 restarts")
	h.tells(set, "SwitchingOver", "SwitchOver "+setName+"-0 to "+setName+"-1")
	h.samePods(before)
	if s := set.Status.Switchover; s == nil || s.Phase != platformv1.SwitchoverSucceeded || s.From != setName+"-0" ||
		s.To != setName+"-1" || s.Attempt != 1 {
		t.Errorf("the status says %+v", s)
	}
	if role := h.pods()["1"].Labels[platformv1.RoleLabel]; role != "primary" {
		t.Errorf("pod 1 has role %q", role)
	}
	// What reloads takes nobody out; a reload that turns out not to be enough does.
	h.renderHandingOver(set, func(c *content) { c.Plan = planOf("d3", "s2") })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 reloads", "0 reloads", "1 reloads")
	h.node.set(func() { h.node.refuseReload = true })
	h.renderHandingOver(set, func(c *content) { c.Plan = planOf("d4", "s2") })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 reloads", "2 restarts", "0 reloads", "0 restarts", "1 reloads", "1 hands over to 0", "1 restarts")
	h.samePods(before)
	// Resources that need other pods, and the primary's pod that is not wanted any more.
	h.renderHandingOver(set, func(c *content) { c.Plan, c.Resources = planOf("d4", "s2"), corev1.ResourceRequirements{} })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 starts redis:1", "1 starts redis:1", "0 hands over to 1", "0 starts redis:1")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas, s.Spec.ExcludedOrdinals = 2, []int32{1} })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("1 hands over to 0")
	writes := h.writesWhile(func() { h.touch(set); testkit.WaitForReady(h, env.Client, set) })
	if writes > 0 {
		t.Errorf("%d pods were written at rest", writes)
	}
}

func TestPrimaryThatDoesNotHandOverIsHeld(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready(handsOver(t))
	h.node.set(func() { h.node.deaf = `action "hand-over" failed with exit code 1: no quorum` })
	h.renderHandingOver(set, func(c *content) { c.Plan = planOf("d2", "s2") })
	h.says(set, platformv1.ReasonSwitchoverFailed, "pod "+setName+"-0, the primary, did not hand over to "+setName+
		"-1 in 3 tries (action \"hand-over\" failed with exit code 1: no quorum)")
	h.sameEvents("2 restarts", "1 restarts")
	h.samePods(before)
	calls := 0
	h.node.set(func() { calls = len(h.node.ops) })
	if calls != primary.SwitchoverTries {
		t.Errorf("it was called %d times, want %d", calls, primary.SwitchoverTries)
	}
	// It is mended, and the spec changes.
	h.node.set(func() { h.node.deaf = "" })
	h.renderHandingOver(set, func(c *content) { c.Plan = planOf("d3", "s3") })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 restarts", "1 restarts", "0 hands over to 1", "0 restarts")
	h.samePods(before)
	// Someone else makes another pod the primary: that is as good.
	h.node.set(func() { h.node.deaf = "no" })
	h.renderHandingOver(set, func(c *content) { c.Plan = planOf("d4", "s4") })
	h.says(set, platformv1.ReasonSwitchoverFailed, "pod "+setName+"-1, the primary, did not hand over")
	for name, role := range map[string]string{setName + "-1": "replica", setName + "-2": "primary"} {
		if err := h.node.reports(t.Context(), name, role); err != nil {
			t.Fatal(err)
		}
	}
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 restarts", "0 restarts", "1 restarts")
	h.samePods(before)
}

// A primary that is out is changed at once: there is nothing to hand over.
func TestPrimaryThatIsOutIsNotHeld(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready(handsOver(t))
	h.node.set(func() { h.node.deaf, h.node.absent["redis:2"] = "no", true })
	h.renderHandingOver(set, func(c *content) { c.Plan = planOf("d2", "s2") })
	h.says(set, platformv1.ReasonSwitchoverFailed, "pod "+setName+"-0, the primary, did not hand over")
	primary := h.pods()["0"]
	r, err := agentreport.Parse(primary.Annotations[platformv1.ReportAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	r.Health = agentreport.Unhealthy
	if err := h.node.publish(t.Context(), &primary, r); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(h, "the restart of the primary", func(context.Context) error {
		pod := h.pods()["0"]
		r, err := agentreport.Parse(pod.Annotations[platformv1.ReportAnnotation])
		if err == nil && r.ConfigDigest != "d2" {
			err = errors.New("it runs as before")
		}
		return err
	})
	h.samePods(before)
	h.sameEvents("2 restarts", "1 restarts", "0 restarts")
}
