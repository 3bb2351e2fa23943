// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// failoverSteps is how many writes of a failover are tried. The last of them are those of status and record, after
// another one writes.
const failoverSteps = 8

// TestOperatorKilledDuringFailover kills the operator (SIGKILL from the node) after its 0th, 1st, 2nd … write of a
// failover, under load. However far it came, another one takes over once, never two take writes, and what was
// acknowledged with a replica is there.
func TestOperatorKilledDuringFailover(t *testing.T) {
	s := framework.NewNamespace(t, "fokills")
	// A spare replica, so that a round lasts as long as the Lease and not as a pod's start on top.
	s.RestoreOperatorAtEnd()
	s.MustInstall(framework.OperatorName, "replicas=2")
	r := s.CreateReplicatedRedis("db")
	r.WaitReady()
	r.WaitForPrimary()
	for n := range framework.Config.FaultRounds * failoverSteps {
		after := n % failoverSteps
		t.Run(fmt.Sprintf("round %d, after %d writes", n/failoverSteps+1, after), func(t *testing.T) {
			s := s.In(t)
			s.MustLeader()
			r := r.In(s)
			failsOverWithoutOperator(r, after)
		})
	}
}

// failsOverWithoutOperator ends the writer for good, and the operator when that has made so many writes for it.
func failsOverWithoutOperator(r *framework.Replicated, after int) {
	r.Helper()
	primary, before := r.WaitForPrimary()
	trial := r.StartTrial()
	end := r.PrepareOperatorKill()
	audit := framework.StartAudit(r.T)
	made := func() int {
		return framework.CountWrites(of(r.WorkloadSet().Name, framework.WritesInNamespace(r.Namespace.Name, audit.Writes())),
			framework.OperatorActor)
	}
	r.Kind.KillUntil(r.Namespace, primary, "", "", "", func() {
		r.Eventually(framework.SettleTimeout, fmt.Sprintf("the operator has made %d writes", after), func() error {
			if n := made(); n < after && r.WorkloadSet().Status.Primary.Term == before {
				return fmt.Errorf("it has made %d", n)
			}
			return nil
		})
		end()
		r.WaitForPrimaryChange(primary, framework.SettleTimeout)
	})
	r.WaitForPrimary()
	_, now := trial.StopAndVerify("operator killed in a step", before, expiryGap)
	if n := r.RecordedTerms(before, now); n != 1 {
		r.Errorf("%d failovers are on record", n)
	}
	r.Logf("ended after %d writes; term %d is now %d", after, before, now)
}

// TestFailoverOfANodeWithTheLeader cuts off the node on which both the primary and the operator that leads are: the
// other operator has to become the leader first.
func TestFailoverOfANodeWithTheLeader(t *testing.T) {
	s := framework.NewNamespace(t, "foleader")
	s.RestoreOperatorAtEnd()
	s.MustInstall(framework.OperatorName, "replicas=2")
	r := s.CreateReplicatedRedis("db")
	r.WaitReady()
	r.WaitForPrimary()
	for n := range framework.Config.FaultRounds {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) {
			r := r.In(s.In(t))
			node := nodeOfLeader(r.Application.Namespace)
			if primary, _ := r.WaitForPrimary(); r.NodeOf(primary) != node {
				for _, pod := range r.Pods() {
					if pod.Spec.NodeName == node {
						r.SwitchOver(primary, pod.Name)
					}
				}
			}
			nodeIsCutOff(r, "node with the leader cut off", "kube-system")
		})
	}
}

// nodeOfLeader is the node of the operator that leads.
func nodeOfLeader(s *framework.Namespace) string {
	s.Helper()
	pod := &corev1.Pod{}
	if err := framework.Cluster.Client.Get(s.Ctx,
		client.ObjectKey{Namespace: framework.OperatorNamespace, Name: s.MustLeader()}, pod); err != nil {
		s.Fatal(err)
	}
	return pod.Spec.NodeName
}

// of keeps the writes of objects whose names begin so.
func of(prefix string, all []framework.AuditedWrite) []framework.AuditedWrite {
	return slices.DeleteFunc(all, func(w framework.AuditedWrite) bool { return !framework.ContainsWord(w.Name, prefix) })
}
