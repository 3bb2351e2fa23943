// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/test/e2e/framework"
)

// lostIn is how long Kubernetes and the engine may take over a node that is gone, until a pod of it serves elsewhere.
const lostIn = 5 * time.Minute

// TestInferenceLosesANode cuts the node of a server off: the other server goes on, and the lost one is made again on
// another node. It runs alone: nobody else's pods should be on that node.
func TestInferenceLosesANode(t *testing.T) {
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1)
	object(s, "Model", "chat", modelSpec(digests, 1))
	i := object(s, "Inference", "chat", `{version: "0.7", modelRef: {name: chat, stage: Production}, replicas: 2,
  parameters: {ctx-size: 512}, resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}},
  scheduling: {tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute,
    tolerationSeconds: 3}]}}`)
	s.WaitForReady(i)
	pods := []string{"inference-chat-server-main-0", "inference-chat-server-main-1"}
	// The files are to be had also when the node is gone.
	at := slices.IndexFunc(pods, func(pod string) bool { return s.NodeOf(pod) != s.NodeOf(libraryPod) })
	if at < 0 {
		s.Fatalf("all pods are on node %s", s.NodeOf(libraryPod))
	}
	lost, node := &corev1.Pod{}, s.NodeOf(pods[at])
	s.VacateNode(node, framework.OperatorNamespace, "kube-system")
	s.MustGet(pods[at], lost)
	framework.DevCluster(t, "node", "cut", node)
	healed := false
	heal := func() {
		healed = true
		framework.DevCluster(t, "node", "heal", node)
	}
	defer func() {
		if !healed {
			heal()
		}
	}()
	complete(s, "inference-chat")
	took := s.Eventually(lostIn, "the server is ready on another node", func() error {
		pod := &corev1.Pod{}
		if err := s.Get(lost.Name, pod); err != nil {
			return err
		}
		if pod.UID == lost.UID || pod.Spec.NodeName == node || !framework.PodIsReady(pod) {
			return fmt.Errorf("pod %s is %s on node %s", pod.Name, pod.UID, pod.Spec.NodeName)
		}
		return nil
	})
	s.Logf("node cut off to another server ready: %s", framework.FormatSeconds(took))
	s.WaitForReady(i)
	complete(s, "inference-chat")
	heal()
	s.WaitForReady(i)
}
