// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestMetricsAndHealth proves that the operator's probes and metrics answer and that the metrics follow what happens.
func TestMetricsAndHealth(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "metrics")
	i := s.CreateRedis("db")
	i.WaitReady()
	bad := s.CreateRedis("bad", passwordFrom("absent"))
	bad.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonSecretNotFound})
	pod := s.MustLeader()
	for _, path := range []string{"healthz", "readyz"} {
		if out, err := framework.FetchFromOperator(s.Ctx, pod, framework.ProbesPort, path); err != nil ||
			!strings.HasPrefix(out, "ok") {
			t.Errorf("/%s answers %q: %v", path, out, err)
		}
	}
	page, err := framework.ScrapeMetrics(s.Ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		metric string
		labels []string
		least  float64
	}{
		{"leader_election_master_status", nil, 1},
		{"controller_runtime_reconcile_total", []string{`controller="workloadset"`}, 1},
		{"controller_runtime_reconcile_total", []string{`controller="application"`}, 1},
		{"zeroinfra_reconcile_outcomes_total", nil, 2},
		{"workqueue_adds_total", nil, 1},
		{"rest_client_requests_total", nil, 1},
		{"process_resident_memory_bytes", nil, 1 << 20},
	} {
		if value, found := framework.Sample(page, want.metric, want.labels...); !found || value < want.least {
			t.Errorf("metric %s%v is %v (there: %t), want at least %v", want.metric, want.labels, value, found, want.least)
		}
	}
	resident, _ := framework.Sample(page, "process_resident_memory_bytes")
	t.Logf("operator: %.1f MiB resident", resident/(1<<20))
	checkMetricsService(s, pod)
}

// checkMetricsService proves that the metrics are reached by the name that the chart gives them.
func checkMetricsService(s *framework.Namespace, pod string) {
	s.Helper()
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: framework.OperatorNamespace, Name: framework.OperatorName + "-metrics"}
	if err := framework.Cluster.Client.Get(s.Ctx, key, service); err != nil {
		s.Fatal(err)
	}
	host := fmt.Sprintf("%s.%s.svc:%s", service.Name, service.Namespace, strconv.Itoa(int(service.Spec.Ports[0].Port)))
	client := s.ClientPod()
	out := s.MustRunClientCommand(func() (string, error) {
		return framework.Run(s.Ctx, s.Name, client, framework.ClientPodName, "", "wget", "-q", "-O", "-", "http://"+host+
			"/metrics")
	})
	if _, found := framework.Sample(out, "controller_runtime_reconcile_total"); !found {
		s.Errorf("the Service %q does not lead to the metrics of pod %q", service.Name, pod)
	}
}
