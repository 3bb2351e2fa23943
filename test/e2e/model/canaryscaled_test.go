// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestScaledCanaryByGateway has autoscalers decide how many pods there are on both sides of a canary with steps. Its
// weight goes to all requests once it has the pods for them, and so do the others have them when it is promoted.
func TestScaledCanaryByGateway(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	by := gatewayIn(s)
	digests := library(s, 1, 2)
	object(s, "Model", "chat", modelSpec(digests, 1))
	i := object(s, "Inference", "chat", fmt.Sprintf(`{version: "0.7", modelRef: {name: chat, version: v1},
  minReplicas: 2, maxReplicas: 4, cpuUtilization: 1000, parameters: {ctx-size: 256},
  httpRoute: {host: %s, gateway: public},
  resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {memory: 256Mi}}}`, by.host))
	s.WaitForReady(i)
	expectAll(s, by, digests[1])
	expectLeast(s, 2)

	// Two pods have half of the requests, so four are to have all.
	edit(s, i, map[string]any{"canary": stepping("v2", map[string]any{"startTimeout": "20m"}, step(50, "10s"),
		step(100, "10s"))})
	waited := false
	expectState(s, i, func(status map[string]any) bool {
		said, _ := status["message"].(string)
		waited = waited || strings.Contains(said, "the weight 100 waits until 4 pods of the canary are ready")
		if ready, _ := status["readyReplicas"].(int64); status["weight"] == int64(100) && ready < 4 {
			s.Fatalf("the weight went up before the pods were there: %v", status)
		}
		return status["phase"] == "Complete" && status["weight"] == int64(100)
	}, func() {})
	if !waited {
		s.Error("nobody was told that the weight waits for pods")
	}
	expectAll(s, by, digests[2])

	edit(s, i, map[string]any{"modelRef": map[string]any{"name": "chat", "version": "v2"}})
	expectLeast(s, 4)
	expectDigest(s, i, digests[2])
	expectOthers(s, 4)
	edit(s, i, map[string]any{"canary": nil})
	s.WaitForReady(i)
	expectLeast(s, 4)
	expectAll(s, by, digests[2])
	s.Delete(i)
}

// othersSet is the set of the pods of the Inference chat that are not of its canary.
var othersSet = platformv1.WorkloadSetNameFor(platformv1.ApplicationNameFor("Inference", "chat"), "server",
	platformv1.DefaultSet)

// expectLeast waits until the autoscaler of the others leaves so many pods at least.
func expectLeast(s *framework.Namespace, pods int32) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, fmt.Sprintf("at least %d pods", pods), func() error {
		scaler := &autoscalingv2.HorizontalPodAutoscaler{}
		if err := s.Get(othersSet, scaler); err != nil {
			return err
		}
		if least := scaler.Spec.MinReplicas; least == nil || *least != pods {
			return fmt.Errorf("the autoscaler is %+v", scaler.Spec)
		}
		return nil
	})
}

// expectOthers waits until so many pods of the others are ready.
func expectOthers(s *framework.Namespace, pods int32) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, fmt.Sprintf("%d pods are ready", pods), func() error {
		set := &platformv1.WorkloadSet{}
		if err := s.Get(othersSet, set); err != nil {
			return err
		}
		if set.Status.ReadyReplicas != pods {
			return fmt.Errorf("%d of %d are ready", set.Status.ReadyReplicas, set.Spec.Replicas)
		}
		return nil
	})
}
