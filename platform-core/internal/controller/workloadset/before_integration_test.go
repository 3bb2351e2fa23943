// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// holdAction has clients of a pod wait, and handoverAction pauses a primary.
const holdAction, handoverAction = "hold", "handover"

// slam is the name of the pod whose clients cannot wait.
const slam = "redis-a-door-main-1"

// prepares notes once that an action was run, and says how it ended: a call that runs is asked for again.
func (n *node) prepares(pod, name, key string) agentclient.ActionCall {
	n.mu.Lock()
	defer n.mu.Unlock()
	call, known := n.ops[key]
	switch {
	case !known && name == holdAction && pod != slam:
		n.note("%s begins to %s", pod, name)
		call.Phase = agentreport.CallRunning
	case !known && pod == slam:
		call.Phase, call.Message = agentreport.CallFailed, "clients are still in transactions"
	case !known:
		n.note("%s %s", pod, name)
		call.Phase = agentreport.CallSucceeded
	case call.Phase == agentreport.CallRunning:
		n.note("%s holds", pod)
		call.Phase = agentreport.CallSucceeded
	}
	call.Key = key
	n.ops[key] = call
	return call
}

// door makes a pod of another component of the Application.
func (h *harness) door(name string, labels map[string]string) {
	h.Helper()
	labels[platformv1.ApplicationLabel] = "redis-a"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name, Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "door", Image: "door"}}}}
	h.must(env.Client.Create(h.Context(), pod))
	testkit.WaitFor(h, env.Client, pod, "a pod that is ready", func() error {
		if facts.ConditionOf(pod, corev1.PodReady) != corev1.ConditionTrue {
			return fmt.Errorf("the conditions are %+v", pod.Status.Conditions)
		}
		return nil
	})
}

// behindADoor is a set of two pods, of which the first writes, whose clients come through a pod of another component
// that can have them wait.
func (h *harness) behindADoor(m *crew) *platformv1.WorkloadSet {
	h.Helper()
	h.start(-1)
	set := h.create(2, withFailover, func(s *platformv1.WorkloadSet) {
		s.Spec.Failover.Handover, s.Spec.Failover.Before = handoverAction,
			[]platformv1.FailoverBefore{{Component: "door", Action: holdAction}}
	})
	h.writes(m, set, "0", 1)
	h.door("redis-a-door-main-0", map[string]string{platformv1.ComponentLabel: "door"})
	return set
}

// Clients that come through another component wait before the primary is paused, and who cannot have them wait keeps
// nobody from that.
func TestClientsWaitBeforeThePrimaryIsPaused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := newCrew(h)
	set := h.behindADoor(m)
	h.door(slam, map[string]string{platformv1.ComponentLabel: "door"})
	h.door("redis-a-other-main-0", map[string]string{platformv1.ComponentLabel: "other"})
	h.node.events()
	h.ask(set, platformv1.HandoverRequest{From: setName + "-0",
		Request: platformv1.RequestOf(h.operation("switchover", nil))})
	testkit.WaitFor(h, env.Client, set, "another pod writing", func() error {
		if w := set.Status.Primary; w.Member == nil || w.Member.Name != setName+"-1" ||
			!slices.Equal(m.primaries(), []string{"1"}) {
			return fmt.Errorf("the record is %+v, and there write %v", w, m.primaries())
		}
		return nil
	})
	got := slices.DeleteFunc(h.node.events(),
		func(e string) bool { return !strings.Contains(e, "hold") && !strings.Contains(e, handoverAction) })
	if want := []string{"redis-a-door-main-0 begins to hold", "redis-a-door-main-0 holds", setName +
		"-0 handover"}; !slices.Equal(got, want) {
		t.Errorf("it went %q, want %q", got, want)
	}
	h.tells(set, "SwitchingOver", "Prepare ", "Pause "+setName+"-0")
	h.tells(set, "ClientsDoNotWait", "pod "+slam+
		" could not have its clients wait while the primary changes: clients are still in transactions")
}

// Agents are called in the term that the record of their set has then: one that knows of a later one does not do what
// an operator asks that missed it. Those of another set go by no term of this one.
func TestCallsAreMadeInTheTermOfTheRecord(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := newCrew(h)
	set := h.behindADoor(m)
	settles := func(ordinal string, term int64) {
		t.Helper()
		testkit.WaitFor(h, env.Client, set, "pod "+ordinal+" writing", func() error {
			if w := set.Status.Primary; w.Term != term || w.Member == nil || w.Previous != nil ||
				!slices.Equal(m.primaries(), []string{ordinal}) {
				return fmt.Errorf("the record is %+v, and there write %v", w, m.primaries())
			}
			return nil
		})
		testkit.WaitForReady(h, env.Client, set)
	}
	h.ask(set, platformv1.HandoverRequest{From: setName + "-0"})
	settles("1", 2)
	h.ask(set, platformv1.HandoverRequest{From: setName + "-1"})
	settles("0", 3)
	h.render(set, func(c *content) { c.Plan = planOf("d2", "s1") })
	settles("0", 3)
	// The primary hands over before it is restarted, and is called in the term in which it does not write any more.
	h.render(set, func(c *content) { c.Plan = planOf("d3", "s2") })
	settles("1", 4)
	want := map[string][]uint64{
		holdAction + " redis-a-door-main-0": {0}, handoverAction + " 0": {1, 3}, handoverAction + " 1": {2},
		"reloads 0": {3}, "reloads 1": {3}, "restarts 0": {4}, "restarts 1": {3},
	}
	got := map[string][]uint64{}
	h.node.set(func() {
		for call, terms := range h.node.terms {
			// How often each was asked is not the matter.
			got[call] = slices.Compact(slices.Clone(terms))
		}
	})
	for call, terms := range want {
		if !slices.Equal(got[call], terms) {
			t.Errorf("%s was asked for in terms %v, want %v", call, got[call], terms)
		}
	}
	for call, terms := range got {
		if _, known := want[call]; !known && (!strings.HasPrefix(call, measureAction) || slices.Contains(terms, 0)) {
			t.Errorf("%s was asked for in terms %v", call, terms)
		}
	}
}
