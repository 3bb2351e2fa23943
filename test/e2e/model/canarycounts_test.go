// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
	"github.com/zeroinfra/test/e2e/model/tinyonnx"
)

// TestCanaryByCountedRequests has a good canary of onnxruntime wait for a request of a client and take its steps, and
// one that does not compute what clients send, and one that is slow, be rolled back, by the counters of its pods. A
// gate that these have no counters for is refused.
func TestCanaryByCountedRequests(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	first := numbers(s)
	i := object(s, "Inference", "chat", `{version: "1.21", runtime: onnxruntime, modelRef: {name: chat, version: v1},
  replicas: 4, resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, first)

	edit(s, i, map[string]any{"canary": stepping("v2", map[string]any{"maxErrorRate": 5}, step(25, "10s"),
		step(50, "10s"))})
	expectState(s, i, func(status map[string]any) bool {
		return status["phase"] == "Measuring" && strings.Contains(fmt.Sprint(status["message"]), "counted no request")
	}, func() {})
	expectState(s, i, func(status map[string]any) bool { return status["phase"] == "Complete" },
		func() { requests(s, i) })

	edit(s, i, map[string]any{"canary": nil})
	s.WaitForReady(i)
	edit(s, i, map[string]any{"canary": stepping("v3", map[string]any{"maxErrorRate": 5}, step(25, "1h"))})
	expectState(s, i, func(status map[string]any) bool { return status["phase"] == "RolledBack" },
		func() { requests(s, i) })
	expectMessage(s, i, "requests failed, and 5 % may")

	// No server takes less for a request.
	edit(s, i, map[string]any{"canary": nil})
	s.WaitForReady(i)
	edit(s, i, map[string]any{"canary": stepping("v2", map[string]any{"maxErrorRate": nil, "maxTimePerRequest": "1us"},
		step(50, "1h"))})
	expectState(s, i, func(status map[string]any) bool { return status["phase"] == "RolledBack" },
		func() { requests(s, i) })
	expectMessage(s, i, "for a request, and 1µs are allowed")

	// The plugin names no counters of tokens: the canary gets no pods, and begins once the gate can be measured.
	edit(s, i, map[string]any{"canary": nil})
	s.WaitForReady(i)
	edit(s, i, map[string]any{"canary": stepping("v2", map[string]any{"maxErrorRate": nil, "maxTimePerToken": "1s"},
		step(25, "1h"))})
	expectCondition(s, i, "Stalled", "InvalidSpec", "maxTimePerToken cannot be measured")
	expectState(s, i, func(status map[string]any) bool {
		return status["phase"] == "Refused" && status["replicas"] == int64(0)
	}, func() {})
	edit(s, i, map[string]any{"canary": map[string]any{"gate": map[string]any{"maxErrorRate": 5, "maxTimePerToken": nil}}})
	expectState(s, i, func(status map[string]any) bool { return status["phase"] == "Measuring" }, func() {})
	s.Delete(i)
}

// numbers has the Model chat, in the format ONNX, with versions that multiply a number by 2 and 3 and add another: v1
// and v2. v3 takes three numbers, so that it refuses those that send two. It returns the digest of the first.
func numbers(s *framework.Namespace) string {
	s.Helper()
	versions := [][]byte{tinyonnx.Model(2, 1), tinyonnx.Model(3, 1), tinyonnx.Model(2, 1, 4)}
	files, spec := map[string][]byte{}, "format: ONNX\nversions:\n"
	for n, file := range versions {
		files[fmt.Sprintf("%d.onnx", n+1)] = file
		spec += fmt.Sprintf("  - {name: v%d, sha256: \"%s\", source: {http: {url: \"http://library:8080/%[1]d.onnx\"}}}\n",
			n+1, digestOf(file))
	}
	libraryOf(s, files)
	object(s, "Model", "chat", spec)
	return digestOf(versions[0])
}

// requests has the Service compute with the row 10, 5, each time by a connection of its own. The wider version refuses
// that, so what is answered does not count.
func requests(s *framework.Namespace, i *unstructured.Unstructured) {
	s.Helper()
	script := fmt.Sprintf(`for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
		busybox wget -q -T 30 -O /dev/null --header 'Content-Type: application/json' --post-data \
		'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[10,5]}]}' \
		http://inference-%s:8080/v2/models/chat/infer; done; true`, i.GetName())
	if _, err := framework.Run(s.Ctx, s.Name, libraryPod, libraryPod, "", "/usr/bin/busybox", "sh", "-c",
		script); err != nil {
		s.Fatal(err)
	}
}

// expectState waits until the status of a canary is as it is wanted, while something is done.
func expectState(s *framework.Namespace, i *unstructured.Unstructured, wanted func(status map[string]any) bool,
	meanwhile func()) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, "the canary is as it is wanted", func() error {
		meanwhile()
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(i.Object, "status", "canary")
		if !wanted(status) {
			return fmt.Errorf("it is %v", status)
		}
		return nil
	})
}
