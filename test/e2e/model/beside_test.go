// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// besideTrials is how often each side is made.
	besideTrials = 5
	// besideBudget is how many times as long as a Deployment an Inference may take, and besideLimit what no busy machine
	// explains.
	besideBudget, besideLimit = 1.2, 4.0
)

// TestInferenceBesideADeployment measures how long an Inference takes from its creation to its first answer, and how
// long a Deployment with a Service and an autoscaler does that downloads the same model and runs the same server. It
// runs alone because it measures.
func TestInferenceBesideADeployment(t *testing.T) {
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1)
	object(s, "Model", "chat", modelSpec(digests, 1))
	first := func(service string, objects ...client.Object) time.Duration {
		began := time.Now()
		for _, o := range objects {
			s.Create(o)
		}
		firstAnswer(s, service)
		took := time.Since(began)
		for _, o := range objects {
			s.Delete(o)
		}
		s.Eventually(framework.ReadyTimeout, "its pods are gone", func() error {
			var pods corev1.PodList
			if err := framework.Cluster.Client.List(s.Ctx, &pods, client.InNamespace(s.Name)); err != nil {
				return err
			}
			if len(pods.Items) != 1 {
				return fmt.Errorf("there are %d pods, want that of the library alone", len(pods.Items))
			}
			return nil
		})
		return took
	}
	var ours, bare []time.Duration
	for range besideTrials {
		ours = append(ours, first("inference-chat", unmade(s, "Inference", "chat", `{version: "0.7",
  modelRef: {name: chat, stage: Production}, minReplicas: 1, maxReplicas: 3, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)))
		bare = append(bare, first("bare", bareObjects()...))
	}
	slices.Sort(ours)
	slices.Sort(bare)
	ratio := ours[besideTrials/2].Seconds() / bare[besideTrials/2].Seconds()
	s.Logf("from the creation to the first answer: Inference %v, Deployment %v; of the medians ours / bare is %.2f "+
		"(budget %.1f)", ours, bare, ratio, besideBudget)
	limit := besideLimit
	if framework.Config.HoldBudgets {
		limit = besideBudget
	}
	if ratio > limit {
		s.Errorf("an Inference takes %.2f times as long as a Deployment, want at most %.1f", ratio, limit)
	}
}

// firstAnswer waits until a Service has a prompt completed, and asks often.
func firstAnswer(s *framework.Namespace, service string) {
	s.Helper()
	ways := s.NewPortForwards()
	c := &http.Client{Transport: &http.Transport{DialContext: ways.DialService, DisableKeepAlives: true}}
	s.Eventually(framework.ReadyTimeout, "the first completion of "+service,
		func() error { return completion(s.Ctx, c, "http://"+service+":8080/v1/completions") })
}

// bareObjects are what somebody writes who has no operator.
func bareObjects() []client.Object {
	labels := map[string]string{"app": "bare"}
	restricted := &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	mounts := []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}}
	pod := corev1.PodSpec{
		AutomountServiceAccountToken: new(false),
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(999)),
			FSGroup: new(int64(999)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Volumes: []corev1.Volume{{Name: "cache",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		InitContainers: []corev1.Container{{Name: "fetch", Image: image, VolumeMounts: mounts, SecurityContext: restricted,
			Command: []string{"/usr/bin/busybox", "wget", "-q", "-O", "/cache/m.gguf",
				"http://" + libraryPod + ":8080/m1.gguf"}}},
		Containers: []corev1.Container{{Name: "llama", Image: image, VolumeMounts: mounts, SecurityContext: restricted,
			Command: []string{"llama-server", "--host", "0.0.0.0", "--port", "8080", "--model", "/cache/m.gguf",
				"--alias", "chat", "--ctx-size", "512", "--parallel", "1", "--threads", "1", "--offline", "--no-ui", "--metrics",
				"--cache-ram", "0"},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(8080)}}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("50m"), "memory": resource.MustParse("96Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("512Mi")}}}},
	}
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: framework.ObjectMeta("bare"), Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod}}},
		&corev1.Service{ObjectMeta: framework.ObjectMeta("bare"), Spec: corev1.ServiceSpec{Selector: labels,
			Ports: []corev1.ServicePort{{Port: 8080}}}},
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: framework.ObjectMeta("bare"),
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(1)), MaxReplicas: 3,
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "bare"},
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(80))}}}}}},
	}
}
