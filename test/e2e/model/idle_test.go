// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// idlePauses are the seconds between bursts of requests around idle.after: as the door calls itself idle, while the
// server ends, and when there is none.
var idlePauses = []int{60, 62, 66, 80}

// TestInferenceIdle takes the server away while no request comes, and brings it back for the next ones, whenever they
// come: none fails.
func TestInferenceIdle(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1)
	object(s, "Model", "chat", modelSpec(digests, 1))
	i := object(s, "Inference", "chat", `{version: "0.7", modelRef: {name: chat, stage: Production},
  idle: {after: 1m, maxWait: 5m}, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	first := s.WaitForReady(i)
	endpoint, _, _ := unstructured.NestedString(i.Object, "status", "endpoint")
	if !strings.HasPrefix(endpoint, "inference-chat-door.") {
		s.Errorf("clients are told %q", endpoint)
	}
	s.Logf("it is ready after %s", framework.FormatSeconds(first))
	burst(s, 0, 5)
	expectIdle(s, i)

	begin := time.Now()
	burst(s, 0, 1)
	s.Logf("a request without a server is answered after %s", framework.FormatSeconds(time.Since(begin)))
	servers := map[types.UID]bool{}
	noteServer(s, servers)
	for _, pause := range idlePauses {
		burst(s, pause, 5)
		noteServer(s, servers)
	}
	if len(servers) < 3 {
		s.Errorf("there were %d servers one after the other, for requests after pauses of %v s", len(servers), idlePauses)
	}
	s.Logf("there were %d servers one after the other, for requests after pauses of %v s", len(servers), idlePauses)

	expectIdle(s, i)
	edit(s, i, map[string]any{"idle": nil})
	expectPods(s, i, framework.ReadyTimeout, 1)
	complete(s, "inference-chat")
	s.Delete(i)
}

// burst has a pod make requests one after the other, after a pause in seconds. Each has to be answered at once.
func burst(s *framework.Namespace, pause, count int) {
	s.Helper()
	script := fmt.Sprintf(`busybox sleep %d; n=0; while [ $n -lt %d ]; do n=$((n+1))
		busybox wget -q -T 300 -O /dev/null --header 'Content-Type: application/json' \
		--post-data '{"prompt":"hello","max_tokens":8}' http://inference-chat-door:8080/v1/completions \
		&& echo answered || echo failed; done`, pause, count)
	said, err := framework.Run(s.Ctx, s.Name, libraryPod, libraryPod, "", "/usr/bin/busybox", "sh", "-c", script)
	if err != nil {
		s.Fatal(err)
	}
	if answered := strings.Count(said, "answered"); answered != count {
		s.Errorf("after a pause of %d s %d of %d requests were answered: %s", pause, answered, count, said)
	}
}

// expectIdle waits until there is no server, and the Inference is ready all the same.
func expectIdle(s *framework.Namespace, i *unstructured.Unstructured) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, "there is no server", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		phase, _, _ := unstructured.NestedString(i.Object, "status", "idle", "phase")
		ready, _, _ := unstructured.NestedString(i.Object, "status", "ready")
		replicas, _, _ := unstructured.NestedInt64(i.Object, "status", "replicas")
		if phase != "Idle" || ready != "0/0" || replicas != 0 {
			return fmt.Errorf("it is %q with %d pods, ready are %s", phase, replicas, ready)
		}
		return framework.Current(i)
	})
	s.WaitForReady(i)
}

// noteServer notes the server that is there, if any: one that ends may have answered.
func noteServer(s *framework.Namespace, servers map[types.UID]bool) {
	s.Helper()
	pod := &corev1.Pod{}
	switch err := s.Get("inference-chat-server-main-0", pod); {
	case err == nil:
		servers[pod.UID] = true
	case !apierrors.IsNotFound(err):
		s.Fatal(err)
	}
}
