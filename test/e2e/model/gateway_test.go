// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// The Gateway controller of the dev cluster's add-on: its namespace and Service, the class that it serves, and the port
// of its listeners.
const (
	gatewayNamespace = "gateway-system"
	gatewayService   = "gateway"
	gatewayClass     = "traefik"
	gatewayPort      = 8000
)

const (
	// measuringPause is how long a step stays for its requests to be counted.
	measuringPause = 2 * time.Minute
	// goodAnswers is how many in a row show that a canary which was rolled back has no requests.
	goodAnswers = 100
)

// TestCanaryByGateway has a Gateway split requests between two versions by the steps 10, 50 and 100. Each share is that
// of the weight, and no request fails, also when the canary is promoted.
func TestCanaryByGateway(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	by := gatewayIn(s)
	digests := library(s, 1, 2)
	object(s, "Model", "chat", modelSpec(digests, 1))
	i := object(s, "Inference", "chat", fmt.Sprintf(`{version: "0.7", modelRef: {name: chat, version: v1}, replicas: 2,
  parameters: {ctx-size: 256}, httpRoute: {host: %s, gateway: public},
  resources: {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 256Mi}}}`, by.host))
	s.WaitForReady(i)
	expectDigest(s, i, digests[1])
	expectAll(s, by, digests[1])

	clients := newTraffic(s, 1, request{way: by, tokens: 16})
	pause := measuringPause.String()
	edit(s, i, map[string]any{"canary": stepping("v2", map[string]any{"maxErrorRate": 5}, step(10, pause), step(50, pause),
		step(100, "10s"))})
	for n, weight := range []int64{10, 50} {
		measuring := func(status map[string]any) bool {
			return status["phase"] == "Measuring" && status["step"] == int64(n+1) && status["weight"] == weight
		}
		expectState(s, i, measuring, func() {})
		expectShare(s, by, digests[2], float64(weight))
		now := canaryOf(s, i)
		if !measuring(now) || now["mechanism"] != "HTTPRoute" {
			s.Fatalf("the requests took longer than the step, so that they say nothing of it: %v", now)
		}
	}
	expectState(s, i, func(status map[string]any) bool {
		return status["phase"] == "Complete" && status["weight"] == int64(100)
	}, func() {})
	expectAll(s, by, digests[2])
	expectShare(s, by, digests[2], 100)

	edit(s, i, map[string]any{"modelRef": map[string]any{"name": "chat", "version": "v2"}})
	expectDigest(s, i, digests[2])
	edit(s, i, map[string]any{"canary": nil})
	s.WaitForReady(i)
	expectAll(s, by, digests[2])
	clients.end("the steps of a canary behind a Gateway")
	s.Delete(i)
}

// TestBadCanaryByGateway has a canary behind a Gateway that refuses what clients send be rolled back, and measures for
// how long they get its answers. No request fails otherwise.
func TestBadCanaryByGateway(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	by := gatewayIn(s)
	first := numbers(s)
	i := object(s, "Inference", "chat", fmt.Sprintf(`{version: "1.21", runtime: onnxruntime,
  modelRef: {name: chat, version: v1}, replicas: 2, httpRoute: {host: %s, gateway: public},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`, by.host))
	s.WaitForReady(i)
	expectDigest(s, i, first)
	expectAllComputed(s, by)

	edit(s, i, map[string]any{"canary": stepping("v3", map[string]any{"maxErrorRate": 5}, step(10, "1h"), step(50, "1h"))})
	seen := watchBadCanary(s, i, by)
	expectMessage(s, i, "requests failed, and 5 % may")
	if seen.first.IsZero() {
		s.Fatal("the canary was rolled back, and clients have seen nothing of it")
	}
	took, last := seen.ended.Sub(seen.first), seen.last.Sub(seen.first)
	s.Logf("%d of %d requests were refused by the canary; from the first of these to the weight 0 it took %s, and to the "+
		"last of them %s", seen.refused, seen.asked, framework.FormatSeconds(took), framework.FormatSeconds(last))
	if framework.Config.HoldBudgets && max(took, last) > rollBackLimit {
		s.Errorf("a bad canary had requests for %s, want at most %s", framework.FormatSeconds(max(took, last)), rollBackLimit)
	}
	s.Delete(i)
}

// gatewayIn makes the Gateway public in the namespace, and waits until its controller serves it. It returns how clients
// come to the Inference chat.
func gatewayIn(s *framework.Namespace) way {
	s.Helper()
	g := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"gatewayClassName": gatewayClass,
		"listeners": []any{map[string]any{"name": "web", "protocol": "HTTP", "port": int64(gatewayPort)}}}}}
	g.SetAPIVersion("gateway.networking.k8s.io/v1")
	g.SetKind("Gateway")
	g.SetName("public")
	s.Create(g)
	s.Eventually(framework.ReadyTimeout, "the Gateway is programmed", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(g.Object, "status", "conditions")
		for _, condition := range conditions {
			if c, is := condition.(map[string]any); is && c["type"] == "Programmed" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", conditions)
	})
	return way{address: gatewayService + "." + gatewayNamespace + ".svc", host: "chat." + s.Name + ".example.org"}
}

// canaryOf is what the status of an Inference says of its canary.
func canaryOf(s *framework.Namespace, i *unstructured.Unstructured) map[string]any {
	s.Helper()
	if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
		s.Fatal(err)
	}
	status, _, _ := unstructured.NestedMap(i.Object, "status", "canary")
	return status
}

// gatewayClient comes to the Gateway from outside: to a pod that its Service leads to.
func gatewayClient(s *framework.Namespace) *http.Client {
	ways := (&framework.Namespace{T: s.T, Ctx: s.Ctx, Name: gatewayNamespace}).NewPortForwards()
	return &http.Client{Timeout: answerTimeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return ways.DialService(ctx, network, net.JoinHostPort(gatewayService, fmt.Sprint(gatewayPort)))
		}}}
}

// expectAllComputed waits until a Gateway leads to servers that compute.
func expectAllComputed(s *framework.Namespace, by way) {
	s.Helper()
	c := gatewayClient(s)
	s.Eventually(framework.SettleTimeout, "the Gateway leads to the Inference", func() error {
		if got, code, err := compute(s.Ctx, c, by, "chat"); err != nil || got != 2*10+5 {
			return fmt.Errorf("it is answered with %d, %v: %v", code, got, err)
		}
		return nil
	})
}

// badCanary is what clients have seen of one.
type badCanary struct {
	asked, refused int
	// first and last are when it refused a request, and ended is when the status said that it has no more of them.
	first, last, ended time.Time
}

// watchBadCanary makes one request after the other until a canary is rolled back and has no more of them. What is not
// computed is refused by the canary; any other answer is a failure.
func watchBadCanary(s *framework.Namespace, i *unstructured.Unstructured, by way) badCanary {
	s.Helper()
	var seen badCanary
	c, good := gatewayClient(s), 0
	s.Eventually(framework.ReadyTimeout, "the canary is rolled back, and has no requests", func() error {
		for range goodAnswers / 10 {
			seen.ask(s, c, by, &good)
		}
		status := canaryOf(s, i)
		if status["phase"] != "RolledBack" || status["weight"] != int64(0) {
			good = 0
			return fmt.Errorf("%d of %d requests are refused, and the canary is %v", seen.refused, seen.asked, status)
		}
		if seen.ended.IsZero() {
			seen.ended = time.Now()
		}
		if good < goodAnswers {
			return fmt.Errorf("the canary is rolled back, and only %d requests in a row are answered well", good)
		}
		return framework.Current(i)
	})
	return seen
}

// ask makes one request. good counts those in a row that are answered well.
func (b *badCanary) ask(s *framework.Namespace, c *http.Client, by way, good *int) {
	s.Helper()
	b.asked++
	got, code, err := compute(s.Ctx, c, by, "chat")
	switch {
	case err == nil && code == http.StatusBadRequest:
		b.refused, b.last, *good = b.refused+1, time.Now(), 0
		if b.first.IsZero() {
			b.first = b.last
		}
	case err != nil, code != http.StatusOK, got != 2*10+5:
		*good = 0
		s.Errorf("a request was answered with %d, %v: %v", code, got, err)
	default:
		*good++
	}
}
