// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// scaledIn is how long metrics, autoscaler and pods may take over a change of load.
const scaledIn = 10 * time.Minute

// TestInferenceRoll has pods change to another version of the model, processes restart, and pods come and go, while
// clients have prompts completed: no request fails.
func TestInferenceRoll(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1, 2)
	m := object(s, "Model", "chat", modelSpec(digests, 1))
	i := object(s, "Inference", "chat", `{version: "0.7", modelRef: {name: chat, stage: Production}, replicas: 3,
  parameters: {ctx-size: 512}, resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, digests[1])

	during := func(what string, change func()) {
		clients := newTraffic(s, 2, request{tokens: 32})
		clients.waitFor(batch)
		change()
		clients.waitFor(3 * batch)
		clients.end(what)
	}
	during("a change of the version", func() {
		stage := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"stages":{"Production":"v2"}}}`))
		if err := framework.Cluster.Client.Patch(s.Ctx, m, stage); err != nil {
			s.Fatal(err)
		}
		expectDigest(s, i, digests[2])
		s.WaitForReady(i)
	})
	during("a restart", func() {
		of := platformv1.TargetReference{APIVersion: i.GetAPIVersion(), Kind: i.GetKind(), Name: i.GetName()}
		s.Create(framework.NewRestartOperation("restart", of))
		s.WaitForOperation("restart")
		s.WaitForReady(i)
	})
	during("a change of the number of pods", func() {
		for _, pods := range []int64{5, 2} {
			edit(s, i, map[string]any{"replicas": pods})
			expectPods(s, i, framework.ReadyTimeout, pods)
		}
	})
	if got := shares(s, way{}, batchRequests); got[digests[2]] != batchRequests {
		s.Errorf("at the end the answers are from %v", got)
	}
	s.Delete(i)
}

// TestInferenceScaleByLoad has load, measured by metrics-server, make pods and its end take them away, while other
// clients go on: no request fails.
func TestInferenceScaleByLoad(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1)
	object(s, "Model", "chat", modelSpec(digests, 1))
	i := object(s, "Inference", "chat", `{version: "0.7", modelRef: {name: chat, stage: Production},
  minReplicas: 1, maxReplicas: 3, cpuUtilization: 50, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 100m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)

	few := newTraffic(s, 1, request{tokens: 1, pause: "busybox sleep 2;"})
	load := newTraffic(s, 4, request{tokens: 256})
	expectPods(s, i, scaledIn, 3)
	load.waitFor(3 * batch)
	load.end("load")
	expectPods(s, i, scaledIn, 1)
	few.end("load and its end")
	s.Delete(i)
}

// expectPods waits until an Inference has a number of pods, all of them ready.
func expectPods(s *framework.Namespace, i *unstructured.Unstructured, limit time.Duration, pods int64) {
	s.Helper()
	took := s.Eventually(limit, fmt.Sprintf("there are %d pods", pods), func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		replicas, _, _ := unstructured.NestedInt64(i.Object, "status", "replicas")
		ready, _, _ := unstructured.NestedString(i.Object, "status", "ready")
		if replicas != pods || ready != fmt.Sprintf("%d/%d", pods, pods) {
			return fmt.Errorf("it has %d, ready are %s", replicas, ready)
		}
		return framework.Current(i)
	})
	s.Logf("there are %d pods, after %s", pods, framework.FormatSeconds(took))
}
