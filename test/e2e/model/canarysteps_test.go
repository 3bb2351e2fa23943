// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// rollBackLimit is how long a bad canary may have requests, and how long one that cannot be served may have pods beyond
// its startTimeout.
const rollBackLimit = 60 * time.Second

// TestCanarySteps has a good canary take its steps, and a slow one and one that cannot be served be rolled back within
// 60 s; then the pods are those of the other version again, and no request fails.
func TestCanarySteps(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1, 2)
	object(s, "Model", "chat", modelSpec(digests, 1)+fmt.Sprintf(
		"  - {name: bad, sha256: \"%s\", source: {http: {url: \"http://%s:8080/m1.gguf\"}}}\n", strings.Repeat("0", 64),
		libraryPod))
	i := object(s, "Inference", "chat",
		`{version: "0.7", modelRef: {name: chat, version: v1}, replicas: 4, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, digests[1])

	edit(s, i, map[string]any{"canary": stepping("v2", map[string]any{"maxErrorRate": 50, "maxTimePerToken": "1m"},
		step(25, "10s"), step(50, "10s"))})
	expectPhase(s, i, "Complete", 2)
	expectCanary(s, i, digests[2], 50)

	// No server takes less for a token. Another pause makes it another canary.
	edit(s, i, map[string]any{"canary": nil})
	s.WaitForReady(i)
	edit(s, i, map[string]any{"canary": stepping("v2", map[string]any{"maxTimePerToken": "1us"}, step(25, "1h"),
		step(50, "1h"))})
	rolledBackInTime(s, i, func(status map[string]any) bool {
		weight, _ := status["weight"].(int64)
		return weight > 0
	}, 0)
	expectMessage(s, i, "for a token, and 1µs are allowed")
	expectOnly(s, i, digests[1])

	const startTimeout = 30 * time.Second
	edit(s, i, map[string]any{"canary": stepping("bad", map[string]any{"maxTimePerToken": nil,
		"startTimeout": startTimeout.String()}, step(25, "10s"), step(50, "10s"))})
	rolledBackInTime(s, i, func(status map[string]any) bool { return status["phase"] == "Starting" }, startTimeout)
	expectMessage(s, i, "after 30s 0 of 1 pods of the canary are ready")
	expectOnly(s, i, digests[1])
	s.Delete(i)
}

// stepping is a canary of a version of the Model chat with steps.
func stepping(version string, gate map[string]any, steps ...any) map[string]any {
	return map[string]any{"modelRef": map[string]any{"name": "chat", "version": version}, "steps": steps, "gate": gate}
}

func step(weight int, pause string) any { return map[string]any{"weight": weight, "pause": pause} }

// expectPhase waits until the steps of a canary are in a phase, while clients have prompts completed.
func expectPhase(s *framework.Namespace, i *unstructured.Unstructured, phase string, step int64) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, "the canary is "+phase, func() error {
		completions(s)
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(i.Object, "status", "canary")
		if status["phase"] != phase || status["step"] != step {
			return fmt.Errorf("it is %v", status)
		}
		return framework.Current(i)
	})
}

// rolledBackInTime waits until a canary that is bad in its first step is rolled back and has no requests, while clients
// have prompts completed. Both ends are seen from outside: what is allowed, beyond the time that its gate gives it, is
// counted from when the status first says what begins it.
func rolledBackInTime(s *framework.Namespace, i *unstructured.Unstructured, begins func(status map[string]any) bool,
	given time.Duration) {
	s.Helper()
	clients := newTraffic(s, 1, request{tokens: 16})
	defer clients.end("a roll-back")
	var began time.Time
	s.Eventually(framework.ReadyTimeout, "the canary is rolled back", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(i.Object, "status", "canary")
		if began.IsZero() && begins(status) {
			began = time.Now()
		}
		if status["phase"] != "RolledBack" || status["step"] != int64(1) || status["weight"] != int64(0) {
			return fmt.Errorf("it is %v", status)
		}
		return framework.Current(i)
	})
	if began.IsZero() {
		s.Fatalf("the canary was rolled back before it was seen to begin: %v", i.Object["status"])
	}
	took := time.Since(began)
	s.Logf("the canary was rolled back, and had no requests, after %s, of which its gate gives it %s",
		framework.FormatSeconds(took), given)
	if took > given+rollBackLimit {
		s.Errorf("a bad canary was rolled back after %s, want at most %s", framework.FormatSeconds(took), given+rollBackLimit)
	}
}

// completions has the Service complete prompts, each by a connection of its own; all have to be answered.
func completions(s *framework.Namespace) {
	s.Helper()
	const script = `for n in 1 2 3 4 5 6 7 8; do
		busybox wget -q -T 60 -O /dev/null --header 'Content-Type: application/json' \
		--post-data '{"prompt":"hello","max_tokens":64,"ignore_eos":true}' \
		http://inference-chat:8080/v1/completions || echo failed; done`
	said, err := framework.Run(s.Ctx, s.Name, libraryPod, libraryPod, "", "/usr/bin/busybox", "sh", "-c", script)
	if err != nil {
		s.Fatal(err)
	}
	if strings.Contains(said, "failed") {
		s.Errorf("completions failed: %s", said)
	}
}

// expectMessage checks why a canary was rolled back.
func expectMessage(s *framework.Namespace, i *unstructured.Unstructured, want string) {
	s.Helper()
	got, _, _ := unstructured.NestedString(i.Object, "status", "canary", "message")
	s.Logf("the canary was rolled back: %s", got)
	if !strings.Contains(got, want) {
		s.Errorf("the canary was rolled back since %q; want %q", got, want)
	}
}

// expectOnly checks that the canary has no pods, and that all answers are from one file.
func expectOnly(s *framework.Namespace, i *unstructured.Unstructured, digest string) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, "the canary has no pods", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(i.Object, "status", "canary")
		if status["replicas"] != int64(0) || status["weight"] != int64(0) {
			return fmt.Errorf("it is %v", status)
		}
		return nil
	})
	s.WaitForReady(i)
	if got := shares(s, way{}, batchRequests); got[digest] != batchRequests {
		s.Errorf("after the canary was rolled back the answers are from %v", got)
	}
}
