// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// sidecar is the container that a mesh would put into each pod. It never ends by itself.
const sidecar = "mesh-proxy"

// sidecarPatch adds it: a Redis without data, since its image is on each node. It gives what the policies of namespaces
// ask for.
const sidecarPatch = `[{"op": "add", "path": "/spec/containers/-", "value": {
  "name": "` + sidecar +
	`", "image": "zeroinfra/redis:7.0",
  "command": ["redis-server", "--port", "16379", "--bind", "127.0.0.1", "--save", "", "--dir", "/"],
  "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}},
  "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": true, "runAsUser": 999,
    "seccompProfile": {"type": "RuntimeDefault"}}}}]`

// TestInjectedSidecars has a mesh put a container that never ends into each pod of a namespace: instances become ready,
// and the Jobs of Backups end when their own container has.
func TestInjectedSidecars(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "mesh")
	injected := injectSidecars(s)
	i := s.CreateRedis("cache", framework.WithReplicas(1))
	i.WaitForReplicas(1)
	for _, pod := range (&framework.Application{Namespace: s, Name: i.Application()}).Pods() {
		if !hasSidecar(&pod) {
			t.Errorf("pod %s has no container %s", pod.Name, sidecar)
		}
	}
	i.MustDo("SET", "greeting", "hello")
	s.CreateRepository("store", "zeroinfra/redis:7.0")
	before := injected.Load()
	s.Create(framework.NewBackupOperation("nightly", "store", i.Reference()))
	s.WaitForStoredBackup("nightly")
	if injected.Load() == before {
		t.Error("no pod of a mover got the container")
	}
	s.RestartTarget(i.Reference())
	i.WaitForReplicas(1)
	if got := i.MustDo("GET", "greeting"); got != "hello" {
		t.Errorf("the greeting is %q", got)
	}
}

// hasSidecar says whether a pod has the container of the mesh.
func hasSidecar(pod *corev1.Pod) bool {
	for _, container := range pod.Spec.Containers {
		if container.Name == sidecar {
			return true
		}
	}
	return false
}

// injectSidecars has the API server add the sidecar to each new pod of the namespace. It counts them.
func injectSidecars(s *framework.Namespace) *atomic.Int64 {
	s.Helper()
	count := &atomic.Int64{}
	listener, err := s.NewExternalClient().Listen()
	if err != nil {
		s.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		count.Add(1)
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Patch: []byte(sidecarPatch),
			PatchType: new(admissionv1.PatchTypeJSONPatch)}
		_ = json.NewEncoder(w).Encode(review)
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	s.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: framework.ObjectMeta(s.Name),
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "sidecars.mesh.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: new(server.URL), CABundle: authority},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Name}},
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"pods"}},
			}},
		}},
	}
	if err := framework.Cluster.Client.Create(s.Ctx, configuration); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := framework.Cluster.Client.Delete(context.Background(), configuration); err != nil {
			s.Error(err)
		}
	})
	return count
}

// TestQuotaOfCPULimits has a ResourceQuota ask each container for a limit of CPU, which the settings of the operator
// give to agents, movers and Jobs. Without them the instance says what is missing.
func TestQuotaOfCPULimits(t *testing.T) {
	s := framework.NewNamespace(t, "quota")
	s.Create(&corev1.ResourceQuota{ObjectMeta: framework.ObjectMeta("compute"), Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourceLimitsCPU: resource.MustParse("10")},
	}})
	i := s.CreateRedis("cache", framework.WithReplicas(1), func(spec *databasev1.RedisSpec) {
		spec.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1")
	})
	s.Eventually(framework.SettleTimeout, "the instance says that the quota keeps its pods away", func() error {
		said := framework.Describe(i.Object().Status.Conditions)
		if !strings.Contains(said, "limits.cpu") {
			return fmt.Errorf("it says: %s", said)
		}
		return nil
	})
	s.RestoreOperatorAtEnd()
	s.MustInstall(framework.OperatorName, "pods.agentCPULimit=500m", "pods.jobCPULimit=500m")
	i.WaitReadyCondition()
	// Clients of the test say nothing of a limit.
	s.Create(&corev1.LimitRange{ObjectMeta: framework.ObjectMeta("defaults"),
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		}}}})
	i.WaitForReplicas(1)
	i.MustDo("SET", "greeting", "hello")
	s.CreateRepository("store", "zeroinfra/redis:7.0")
	s.Create(framework.NewBackupOperation("nightly", "store", i.Reference()))
	s.WaitForStoredBackup("nightly")
	// A resize within the quota is done, with a default of the LimitRange that is below the instance's own request.
	i.Update(func(spec *databasev1.RedisSpec) {
		spec.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("150m")
	})
	i.WaitForReplicas(1)
	if got := i.MustDo("GET", "greeting"); got != "hello" {
		t.Errorf("the greeting is %q", got)
	}
}
