// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// A set whose engine waits for all pods before it names the first primary says first why they do not start.
func TestASetWithoutAPrimarySaysWhyItsPodsDoNotStart(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.node.set(func() { h.node.absent["redis:1"] = true })
	h.start(-1)
	set := h.create(3, withFailover)
	const cause = "pod " + setName + `-0: container redis cannot get image "redis:1" (ImagePullBackOff): make it available`
	h.saysFirst(set, platformv1.ReasonImageUnavailable, cause, "the first primary is named once all 3 pods are there")
	for ordinal, pod := range h.pods() {
		for _, c := range pod.Spec.Containers {
			if c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
				t.Errorf("container %s of pod %s has policy %s", c.Name, ordinal, c.TerminationMessagePolicy)
			}
		}
	}
}

// A pod that there is no room for is told of first, whatever the others do.
func TestASetSaysThatThereIsNoNodeForAPod(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.node.set(func() { h.node.homeless = setName + "-2" })
	h.start(-1)
	set := h.create(3)
	const first = "no node for pod " + setName + "-2: no room; make room on a node"
	h.saysFirst(set, platformv1.ReasonPodUnschedulable, first, "2 of 3 ready")
}

// What a quota has no room for is told with the words of the API server, and what to do.
func TestASetSaysThatAQuotaIsExceeded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.start(-1)
	set := h.create(3)
	testkit.WaitForReady(t, env.Client, set)
	h.noMorePods(set)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 4 })
	const refusal = `pods "` + setName + `-3" is forbidden: exceeded quota: full`
	for _, text := range []string{refusal, "raise the ResourceQuota or ask for less"} {
		h.saysFirst(set, platformv1.ReasonQuotaExceeded, "cannot create Pod", text)
	}
}
