// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// TestInferenceScaleByRequests has requests that servers compute, read by an adapter from their own metrics, make pods,
// and their end take them away. Without an adapter the condition Autoscaled says what to install, and nothing moves. It
// runs alone: the adapter is that of the whole cluster.
func TestInferenceScaleByRequests(t *testing.T) {
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1)
	object(s, "Model", "chat", modelSpec(digests, 1))
	refusedMetric(s)
	i := object(s, "Inference", "chat", `{version: "0.7", modelRef: {name: chat, stage: Production},
  minReplicas: 1, maxReplicas: 3, metrics: [{name: "llamacpp:requests_processing", averageValue: 500m}],
  monitoring: {enabled: true}, parameters: {ctx-size: 512, parallel: 1},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectAutoscaled(s, i, "MetricsUnavailable", "custom.metrics.k8s.io")
	expectPods(s, i, framework.ReadyTimeout, 1)

	adapter(s)
	expectAutoscaled(s, i, "AutoscalerActive", "")
	few := newTraffic(s, 1, request{tokens: 1, pause: "busybox sleep 2;"})
	load := newTraffic(s, 4, request{tokens: 256})
	expectPods(s, i, scaledIn, 3)
	load.waitFor(3 * batch)
	load.end("load")
	expectPods(s, i, scaledIn, 1)
	few.end("load and its end")
	s.Delete(i)
}

// refusedMetric has a metric refused that the runtime does not have: at admission, or by a condition where the webhook
// was away.
func refusedMetric(s *framework.Namespace) {
	s.Helper()
	other := unmade(s, "Inference", "other", `{version: "0.7", modelRef: {name: chat, stage: Production},
  minReplicas: 1, maxReplicas: 3, monitoring: {enabled: true}, metrics: [{name: requests, averageValue: 1}]}`)
	const known = "it has llamacpp:requests_processing, llamacpp:requests_deferred"
	if err := s.TryCreate(other); err != nil {
		if !strings.Contains(err.Error(), known) {
			s.Errorf("an unknown metric: got %v, want %q", err, known)
		}
		return
	}
	s.Eventually(framework.SettleTimeout, "an unknown metric is refused", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(other), other); err != nil {
			return err
		}
		if said := fmt.Sprint(other.Object["status"]); !strings.Contains(said, known) {
			return fmt.Errorf("its status is %s", said)
		}
		return nil
	})
	s.Delete(other)
}

// expectAutoscaled waits until the autoscaler of an Inference says something, with a text in the message.
func expectAutoscaled(s *framework.Namespace, i *unstructured.Unstructured, reason, text string) {
	s.Helper()
	expectCondition(s, i, "Autoscaled", reason, text)
}

// expectCondition waits until a condition of an Inference has a reason, with a text in the message.
func expectCondition(s *framework.Namespace, i *unstructured.Unstructured, condition, reason, text string) {
	s.Helper()
	took := s.Eventually(scaledIn, condition+" says "+reason, func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		said, _, _ := unstructured.NestedSlice(i.Object, "status", "conditions")
		for _, item := range said {
			c, _ := item.(map[string]any)
			if c["type"] == condition && c["reason"] == reason && strings.Contains(fmt.Sprint(c["message"]), text) {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", said)
	})
	s.Logf("%s says %s, after %s", condition, reason, framework.FormatSeconds(took))
}

//go:embed adapter.py
var adapterProgram string

// adapter has a pod serve metrics of the pods of the Inference chat to the autoscalers of the cluster until the test
// ends.
func adapter(s *framework.Namespace) {
	s.Helper()
	const name, port = "adapter", 6443
	certificate, key := selfSigned(s, name)
	s.Create(&corev1.ConfigMap{ObjectMeta: framework.ObjectMeta(name), Data: map[string]string{
		"adapter.py": adapterProgram, "tls.crt": certificate, "tls.key": key}})
	meta := framework.ObjectMeta(name)
	meta.Labels = map[string]string{"app": name}
	s.Create(&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
		Volumes: []corev1.Volume{{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}},
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(999)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{Name: name, Image: "zeroinfra/onnxruntime:1.21",
			Command:      []string{"/usr/bin/python3", "/adapter/adapter.py", "/adapter/tls.crt", "/adapter/tls.key"},
			VolumeMounts: []corev1.VolumeMount{{Name: name, MountPath: "/adapter", ReadOnly: true}},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
				TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
	}})
	s.Create(&corev1.Service{ObjectMeta: framework.ObjectMeta(name), Spec: corev1.ServiceSpec{
		Selector: meta.Labels, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(port)}}}})
	s.Eventually(framework.ReadyTimeout, "the adapter is ready", func() error {
		pod := &corev1.Pod{}
		if err := s.Get(name, pod); err != nil || framework.PodIsReady(pod) {
			return err
		}
		return fmt.Errorf("it is %s", pod.Status.Phase)
	})
	service := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "custom.metrics.k8s.io", "version": "v1beta2", "groupPriorityMinimum": int64(100),
		"versionPriority": int64(100), "insecureSkipTLSVerify": true,
		"service": map[string]any{"name": name, "namespace": s.Name}}}}
	service.SetAPIVersion("apiregistration.k8s.io/v1")
	service.SetKind("APIService")
	service.SetName("v1beta2.custom.metrics.k8s.io")
	if err := framework.Cluster.Client.Create(s.Ctx, service); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		// A group that nobody serves keeps namespaces from being deleted.
		if err := framework.Cluster.Client.Delete(context.Background(), service); err != nil {
			s.Errorf("the cluster keeps the adapter: %v", err)
		}
	})
}

// selfSigned makes a certificate and its key, as PEM.
func selfSigned(s *framework.Namespace, name string) (certificate, key string) {
	s.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now(),
		NotAfter: time.Now().Add(24 * time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		s.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		s.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}
