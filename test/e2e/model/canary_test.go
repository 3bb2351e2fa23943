// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// Share of the requests that a canary is allowed to miss its weight by, in points, and of how many requests.
const (
	deviation     = 3
	shareRequests = 2000
	// batchRequests are made by one command in a pod.
	batchRequests = 200
)

// TestCanary has a canary get its share of the requests, a bad one get none, and a good one be promoted; no request
// fails meanwhile.
func TestCanary(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1, 2)
	// A version whose file has another digest is never served.
	bad := strings.Repeat("0", 64)
	object(s, "Model", "chat", modelSpec(digests, 1)+fmt.Sprintf(
		"  - {name: bad, sha256: \"%s\", source: {http: {url: \"http://%s:8080/m1.gguf\"}}}\n", bad, libraryPod))
	i := object(s, "Inference", "chat",
		`{version: "0.7", modelRef: {name: chat, version: v1}, replicas: 4, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, digests[1])

	edit(s, i, map[string]any{"canary": canary("v2", 25)})
	expectCanary(s, i, digests[2], 25)
	expectShare(s, way{}, digests[2], 25)

	edit(s, i, map[string]any{"canary": canary("bad", 25)})
	expectCanary(s, i, bad, 0)
	expectAll(s, way{}, digests[1])

	edit(s, i, map[string]any{"canary": canary("v2", 50)})
	expectCanary(s, i, digests[2], 50)
	edit(s, i, map[string]any{"modelRef": map[string]any{"name": "chat", "version": "v2"}})
	expectDigest(s, i, digests[2])
	edit(s, i, map[string]any{"canary": nil})
	s.WaitForReady(i)
	expectAll(s, way{}, digests[2])
	s.Delete(i)
}

// TestCanaryShares has a canary go from 10 to 50 percent of 2,000 requests each, and then to all of them by its
// promotion; no request fails.
func TestCanaryShares(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1, 2)
	object(s, "Model", "chat", modelSpec(digests, 1))
	// Small pods: there are ten, so that one of them is 10 percent.
	i := object(s, "Inference", "chat",
		`{version: "0.7", modelRef: {name: chat, version: v1}, replicas: 10, parameters: {ctx-size: 256},
  resources: {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 256Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, digests[1])
	for _, weight := range []int{10, 50} {
		edit(s, i, map[string]any{"canary": canary("v2", weight)})
		expectCanary(s, i, digests[2], int64(weight))
		s.WaitForReady(i)
		expectShare(s, way{}, digests[2], float64(weight))
	}
	edit(s, i, map[string]any{"modelRef": map[string]any{"name": "chat", "version": "v2"}})
	expectDigest(s, i, digests[2])
	edit(s, i, map[string]any{"canary": nil})
	s.WaitForReady(i)
	expectAll(s, way{}, digests[2])
	expectShare(s, way{}, digests[2], 100)
	s.Delete(i)
}

// canary is that of a version of the Model chat.
func canary(version string, weight int) map[string]any {
	return map[string]any{"modelRef": map[string]any{"name": "chat", "version": version}, "weight": weight}
}

// edit changes the spec of an Inference.
func edit(s *framework.Namespace, i *unstructured.Unstructured, spec map[string]any) {
	s.Helper()
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err == nil {
		err = framework.Cluster.Client.Patch(s.Ctx, i, client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		s.Fatal(err)
	}
}

// expectCanary waits until a canary is to serve a file, and has a weight.
func expectCanary(s *framework.Namespace, i *unstructured.Unstructured, digest string, weight int64) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, fmt.Sprintf("the canary has the weight %d", weight), func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(i.Object, "status", "canary")
		now, _, _ := unstructured.NestedString(status, "model", "digest")
		if status["weight"] != weight || status["mechanism"] != "Replicas" || now != "sha256:"+digest {
			return fmt.Errorf("it is %v", status)
		}
		return nil
	})
}

// expectShare checks which part of the requests that come by a way the pods with a file answer, in percent: all of them
// where that is wanted.
func expectShare(s *framework.Namespace, by way, digest string, want float64) {
	s.Helper()
	got := shares(s, by, shareRequests)
	share := 100 * float64(got[digest]) / shareRequests
	s.Logf("the canary has %.1f %% of %d requests, of the weight %.0f", share, shareRequests, want)
	if math.Abs(share-want) > deviation || want == 100 && got[digest] != shareRequests {
		s.Errorf("the canary has %.1f %% of the requests: %v", share, got)
	}
}

// expectAll waits until the pods with a file answer all requests: the proxies of the nodes learn of a pod that is not
// ready any more after its status tells it.
func expectAll(s *framework.Namespace, by way, digest string) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, "one version answers all requests", func() error {
		if got := shares(s, by, batchRequests); got[digest] != batchRequests {
			return fmt.Errorf("the answers are from %v, and are to be from %s", got, digest)
		}
		return nil
	})
}

// shares counts the answers to requests by the file that was served. Each request has a connection of its own, and all
// have to be answered.
func shares(s *framework.Namespace, by way, requests int) map[string]int {
	s.Helper()
	script := fmt.Sprintf(`n=0; while [ $n -lt %d ]; do n=$((n+1))
		%s %s | busybox grep -o '/cache/[0-9a-f]*' || echo failed; done`, batchRequests, by.wget("-O -"), by.url("/props"))
	got := map[string]int{}
	for range requests / batchRequests {
		said, err := framework.Run(s.Ctx, s.Name, libraryPod, libraryPod, "", "/usr/bin/busybox", "sh", "-c", script)
		if err != nil {
			s.Fatal(err)
		}
		for _, line := range strings.Fields(said) {
			got[strings.TrimPrefix(line, "/cache/")]++
		}
	}
	if got["failed"] > 0 {
		s.Errorf("%d of %d requests failed", got["failed"], requests)
	}
	return got
}
