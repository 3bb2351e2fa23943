// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// failoverSteps is how many writes of a failover are tried. The last of them are those of status and record, after another one writes.
const failoverSteps = 8

// TestOperatorKilledDuringFailover kills the operator (SIGKILL from the node) after its 0th, 1st, 2nd … write of a failover, under load. However far it came,
// another one takes over once, never two take writes, and what was acknowledged with a replica is there.
func TestOperatorKilledDuringFailover(t *testing.T) {
	s := newSpace(t, "fokills")
	// A spare replica, so that a round lasts as long as the Lease and not as a pod's start on top.
	s.restoreOperator()
	s.mustInstall(operatorName, "replicas=2")
	r := s.replicatedRedis("db")
	r.ready()
	r.whole()
	for n := range set.faultRounds * failoverSteps {
		after := n % failoverSteps
		t.Run(fmt.Sprintf("round %d, after %d writes", n/failoverSteps+1, after), func(t *testing.T) {
			s := s.in(t)
			s.mustLeader()
			r := r.in(s)
			r.failsOverWithoutOperator(after)
		})
	}
}

// failsOverWithoutOperator ends the writer for good, and the operator when that has made so many writes for it.
func (r *replicated) failsOverWithoutOperator(after int) {
	r.Helper()
	primary, before := r.whole()
	trial := r.begin()
	end := r.aimAtOperator()
	audit := auditFromNow(r.T)
	made := func() int { return count(of(r.set().Name, in(r.space.name, audit.writes())), byOperator) }
	r.kind.killedUntil(r.space, primary, "", "", "", func() {
		r.eventually(settleIn, fmt.Sprintf("the operator has made %d writes", after), func() error {
			if n := made(); n < after && r.set().Status.Writer.Term == before {
				return fmt.Errorf("it has made %d", n)
			}
			return nil
		})
		end()
		r.changed(primary, settleIn)
	})
	r.whole()
	_, now := trial.judge("operator killed in a step", before, expiryGap)
	if n := r.recorded(before, now); n != 1 {
		r.Errorf("%d failovers are on record", n)
	}
	r.Logf("ended after %d writes; term %d is now %d", after, before, now)
}

// TestFailoverOfANodeWithTheLeader cuts off the node on which both the primary and the operator that leads are: the other operator has to
// become the leader first.
func TestFailoverOfANodeWithTheLeader(t *testing.T) {
	s := newSpace(t, "foleader")
	s.restoreOperator()
	s.mustInstall(operatorName, "replicas=2")
	r := s.replicatedRedis("db")
	r.ready()
	r.whole()
	for n := range set.faultRounds {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) {
			r := r.in(s.in(t))
			node := r.nodeOfLeader()
			if primary, _ := r.whole(); r.node(primary) != node {
				for _, pod := range r.pods() {
					if pod.Spec.NodeName == node {
						r.switchTo(primary, pod.Name)
					}
				}
			}
			r.nodeIsCutOff("node with the leader cut off", "kube-system")
		})
	}
}

// nodeOfLeader is the node of the operator that leads.
func (s *space) nodeOfLeader() string {
	s.Helper()
	pod := &corev1.Pod{}
	if err := world.client.Get(s.ctx, client.ObjectKey{Namespace: operatorNamespace, Name: s.mustLeader()}, pod); err != nil {
		s.Fatal(err)
	}
	return pod.Spec.NodeName
}

// of keeps the writes of objects whose names begin so.
func of(prefix string, all []write) []write {
	return slices.DeleteFunc(all, func(w write) bool { return !containsWord(w.name, prefix) })
}
