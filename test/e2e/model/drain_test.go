// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"

	"github.com/zeroinfra/test/e2e/framework"
	"github.com/zeroinfra/test/e2e/model/tinygguf"
)

const (
	// serverPod is the first of the Inference chat, and serverContainer the one in it that serves.
	serverPod, serverContainer = "inference-chat-server-main-0", "llama"
	// longAnswer is how many tokens an answer has that takes longer than a server goes on for its kubelet and clients.
	longAnswer = 8000
)

// TestInferenceHealthCheck reads healthCheck and drainTimeout back from the pod, and has another path of it make the
// pod not ready, and ready again, while nothing restarts.
func TestInferenceHealthCheck(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1)
	object(s, "Model", "chat", modelSpec(digests, 1))
	i := object(s, "Inference", "chat", `{version: "0.7", modelRef: {name: chat, version: v1}, parameters: {ctx-size: 512},
  healthCheck: {path: /v1/health, interval: 3s, timeout: 4s}, drainTimeout: 45s,
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	told := planOf(s)
	if h := told.Probe.HTTP; h == nil || h.Path != "/v1/health" || h.IntervalSeconds != 3 || h.TimeoutSeconds != 4 {
		s.Errorf("the pod has the health check %+v", h)
	}
	if h := told.Process.Hooks; h == nil || h.PreStop == nil || !slices.Contains(h.PreStop.Command, "--within=45s") {
		s.Errorf("the pod has the hooks %+v", h)
	}

	before := &corev1.Pod{}
	s.MustGet(serverPod, before)
	edit(s, i, map[string]any{"healthCheck": map[string]any{"path": "/no-such-path"}})
	expectReadyPods(s, i, "0/1")
	edit(s, i, map[string]any{"healthCheck": map[string]any{"path": "/health"}})
	expectReadyPods(s, i, "1/1")
	s.WaitForReady(i)
	after := &corev1.Pod{}
	s.MustGet(serverPod, after)
	if after.UID != before.UID || !maps.Equal(framework.Restarts(after), framework.Restarts(before)) {
		s.Errorf("pod %s was %s with the restarts %v, and is %s with %v", serverPod, before.UID,
			framework.Restarts(before), after.UID, framework.Restarts(after))
	}
	s.Delete(i)
}

// planOf is what the agents of the first pod go by, as it is mounted there.
func planOf(s *framework.Namespace) *plan.Plan {
	s.Helper()
	said, err := framework.Run(s.Ctx, s.Name, serverPod, serverContainer, "", "/usr/bin/busybox", "cat",
		plan.PlanDir+"/"+plan.PlanFile)
	p := &plan.Plan{}
	if err == nil {
		err = json.Unmarshal([]byte(said), p)
	}
	if err != nil {
		s.Fatal(err)
	}
	return p
}

// expectReadyPods waits until so many pods of how many are ready.
func expectReadyPods(s *framework.Namespace, i *unstructured.Unstructured, want string) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, want+" pods are ready", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		if ready, _, _ := unstructured.NestedString(i.Object, "status", "ready"); ready != want {
			return fmt.Errorf("ready are %s", ready)
		}
		return nil
	})
}

// TestInferenceDrain has one server change to another version while it computes a long answer: with drainTimeout the
// answer is complete, and without it is cut off.
func TestInferenceDrain(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests, files := map[uint64]string{}, map[string][]byte{}
	for _, seed := range []uint64{1, 2} {
		file := tinygguf.LongModel(seed)
		digests[seed], files[fmt.Sprintf("m%d.gguf", seed)] = digestOf(file), file
	}
	libraryOf(s, files)
	object(s, "Model", "chat", modelSpec(digests, 1))
	i := object(s, "Inference", "chat", `{version: "0.7", modelRef: {name: chat, version: v1}, drainTimeout: 5m,
  parameters: {ctx-size: 12288, parallel: 1},
  resources: {requests: {cpu: 50m, memory: 192Mi}, limits: {cpu: 200m, memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, digests[1])

	answered := answering(s)
	edit(s, i, map[string]any{"modelRef": map[string]any{"name": "chat", "version": "v2"}})
	expectReadyPods(s, i, "0/1")
	select {
	case err := <-answered:
		s.Fatalf("the answer ended before the server was to end, with %v: it has to be longer", err)
	default:
	}
	if err := <-answered; err != nil {
		s.Errorf("the answer that was in flight: %v", err)
	}
	expectDigest(s, i, digests[2])
	s.WaitForReady(i)

	edit(s, i, map[string]any{"drainTimeout": "0s"})
	s.Eventually(framework.ReadyTimeout, "the pod has no time to drain", func() error {
		if h := planOf(s).Process.Hooks; h == nil || h.PreStop == nil ||
			!slices.Contains(h.PreStop.Command, "--within=0s") {
			return fmt.Errorf("it has the hooks %+v", h)
		}
		return nil
	})
	s.WaitForReady(i)
	answered = answering(s)
	edit(s, i, map[string]any{"modelRef": map[string]any{"name": "chat", "version": "v1"}})
	if err := <-answered; err == nil {
		s.Error("without drainTimeout the answer that was in flight is complete")
	}
	expectDigest(s, i, digests[1])
	s.Delete(i)
}

// answering has the server compute a long answer, and tells once that has ended why it is not complete.
func answering(s *framework.Namespace) <-chan error {
	s.Helper()
	ways := s.NewPortForwards()
	c := &http.Client{Transport: &http.Transport{DialContext: ways.DialService, DisableKeepAlives: true}}
	answered := make(chan error, 1)
	go func() { answered <- longCompletion(s.Ctx, c) }()
	s.Eventually(framework.SettleTimeout, "the server computes the answer", func() error {
		return computes(s.Ctx, c)
	})
	return answered
}

// computes says why the server does not compute an answer.
func computes(ctx context.Context, c *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://inference-chat:8080/metrics", nil)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(said), "\nllamacpp:requests_processing 1\n") {
		err = fmt.Errorf("it says %s", said)
	}
	return err
}

// longCompletion is one request, whose answer must have all tokens that were asked for.
func longCompletion(ctx context.Context, c *http.Client) error {
	tokens, err := tokensOf(ctx, c, "http://inference-chat:8080/v1/completions",
		fmt.Sprintf(`{"prompt":"hello","max_tokens":%d,"ignore_eos":true}`, longAnswer))
	if err == nil && tokens != longAnswer {
		err = fmt.Errorf("the answer has %d tokens", tokens)
	}
	return err
}
