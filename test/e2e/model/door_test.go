// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// TestInferenceWithAKey has a server answer those alone who show the key, and take another key. The operator shows it
// as well: a canary is measured behind the key.
func TestInferenceWithAKey(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1, 2)
	object(s, "Model", "chat", modelSpec(digests, 1))
	s.CreateSecret("door", "apiKey", "first-key")
	i := object(s, "Inference", "chat", `{version: "0.7", modelRef: {name: chat, stage: Production},
  apiKeySecretRef: {name: door, key: apiKey}, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectStatus(s, "first-key", http.StatusOK)
	expectStatus(s, "", http.StatusUnauthorized)
	expectStatus(s, "second-key", http.StatusUnauthorized)

	other := client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"apiKey":"second-key"}}`))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "door"}}
	if err := framework.Cluster.Client.Patch(s.Ctx, secret, other); err != nil {
		s.Fatal(err)
	}
	expectStatus(s, "second-key", http.StatusOK)
	expectStatus(s, "first-key", http.StatusUnauthorized)

	edit(s, i, map[string]any{"replicas": 2, "canary": stepping("v2",
		map[string]any{"maxErrorRate": 0, "maxTimePerToken": "1m"}, step(50, "10s"))})
	expectState(s, i, func(status map[string]any) bool { return status["phase"] == "Complete" }, func() {})
	s.Delete(i)
}

// expectStatus waits until a completion with a key is answered with a status.
func expectStatus(s *framework.Namespace, key string, want int) {
	s.Helper()
	ways := s.NewPortForwards()
	c := &http.Client{Transport: &http.Transport{DialContext: ways.DialService, DisableKeepAlives: true}}
	s.Eventually(framework.ReadyTimeout, fmt.Sprintf("with the key %q it answers %d", key, want), func() error {
		request, err := http.NewRequestWithContext(s.Ctx, http.MethodPost, "http://inference-chat:8080/v1/completions",
			strings.NewReader(`{"prompt":"hello","max_tokens":1}`))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		if key != "" {
			request.Header.Set("Authorization", "Bearer "+key)
		}
		response, err := c.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != want {
			said, _ := io.ReadAll(response.Body)
			return fmt.Errorf("it answers %s: %s", response.Status, said)
		}
		return nil
	})
}

// gpu is an extended resource that a node of the cluster is made to have one of. Nobody computes with it.
const gpu = "example.com/gpu"

// TestInferenceOnOneGPU has pods change to another version where the cluster has one GPU: the old pod goes first.
func TestInferenceOnOneGPU(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	node := nodeWithGPU(s)
	digests := library(s, 1, 2)
	m := object(s, "Model", "chat", modelSpec(digests, 1))
	i := object(s, "Inference", "chat", `{version: "0.7", modelRef: {name: chat, stage: Production},
  gpus: {resourceName: example.com/gpu}, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, digests[1])
	if got := s.NodeOf("inference-chat-server-main-0"); got != node {
		s.Errorf("the pod is on node %s, and the GPU on %s", got, node)
	}
	stage := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"stages":{"Production":"v2"}}}`))
	if err := framework.Cluster.Client.Patch(s.Ctx, m, stage); err != nil {
		s.Fatal(err)
	}
	expectDigest(s, i, digests[2])
	// Another size is another pod, for which there is no second GPU.
	edit(s, i, map[string]any{"resources": map[string]any{"requests": map[string]any{"ephemeral-storage": "1Mi"}}})
	s.Eventually(framework.ReadyTimeout, "the pod has another size", func() error {
		pod := &corev1.Pod{}
		if err := s.Get("inference-chat-server-main-0", pod); err != nil {
			return err
		}
		for _, c := range pod.Spec.Containers {
			if _, has := c.Resources.Requests[corev1.ResourceEphemeralStorage]; c.Name == "llama" && has {
				return nil
			}
		}
		return fmt.Errorf("pod %s is the old one", pod.UID)
	})
	s.WaitForReady(i)
	complete(s, "inference-chat")
}

// nodeWithGPU has a node of the cluster advertise a GPU until the test ends.
func nodeWithGPU(s *framework.Namespace) string {
	s.Helper()
	var nodes corev1.NodeList
	if err := framework.Cluster.Client.List(s.Ctx, &nodes); err != nil || len(nodes.Items) == 0 {
		s.Fatalf("there are %d nodes: %v", len(nodes.Items), err)
	}
	node := &nodes.Items[len(nodes.Items)-1]
	advertise := func(ctx context.Context, count string) error {
		return framework.Cluster.Client.Status().Patch(ctx, node.DeepCopy(),
			client.RawPatch(types.MergePatchType, []byte(`{"status":{"capacity":{"`+gpu+`":`+count+`}}}`)))
	}
	if err := advertise(s.Ctx, `"1"`); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := advertise(context.Background(), "null"); err != nil {
			s.Errorf("node %s keeps its GPU: %v", node.Name, err)
		}
	})
	return node.Name
}
