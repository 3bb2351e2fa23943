// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// makings is how often each is made.
	makings = 3
	// makingBudget is how many times as long as bare pods a cluster may take from apply to Ready, and makingLimit what no busy machine explains.
	makingBudget, makingLimit = 1.5, 4.0
)

// TestRedisClusterIsMadeInTime makes a RedisCluster of six pods, and a StatefulSet of six such pods that know nothing of each other, in turn. It runs
// alone because it measures.
func TestRedisClusterIsMadeInTime(t *testing.T) {
	s := newSpace(t, "making")
	var ours, bare []time.Duration
	for n := range makings {
		bare = append(bare, s.bareSet(fmt.Sprintf("bare%d", n)))
		begun := time.Now()
		r := s.redisCluster(fmt.Sprintf("shop%d", n))
		r.ready()
		ours = append(ours, time.Since(begun))
		cluster := r.object()
		if cluster.Status.Shards != "3/3" {
			t.Errorf("it is ready with %s shards", cluster.Status.Shards)
		}
		s.delete(cluster, client.PropagationPolicy(metav1.DeletePropagationForeground))
		s.emptied()
	}
	slices.Sort(ours)
	slices.Sort(bare)
	ratio := ours[makings/2].Seconds() / bare[makings/2].Seconds()
	t.Logf("apply to Ready of six pods: RedisCluster %v, StatefulSet %v: %.2f times as long (budget %.1f)", ours, bare, ratio, makingBudget)
	limit := makingLimit
	if set.holdBudgets {
		limit = makingBudget
	}
	if ratio > limit {
		t.Errorf("a RedisCluster takes %.2f times as long as a StatefulSet, want at most %.1f", ratio, limit)
	}
}

// bareSet makes a StatefulSet of six Redis processes, and removes it once they are ready. It returns how long they took.
func (s *space) bareSet(name string) time.Duration {
	s.Helper()
	asked := smallCluster()
	labels := map[string]string{"bare": name}
	stateful := &appsv1.StatefulSet{ObjectMeta: named(name), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](6), ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labels}, PodManagementPolicy: appsv1.ParallelPodManagement,
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](999), RunAsGroup: ptr.To[int64](999), FSGroup: ptr.To[int64](999),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "redis", Image: redisImage, ImagePullPolicy: corev1.PullIfNotPresent, Resources: asked.Resources,
				Command:      []string{"redis-server", "--dir", "/data", "--cluster-enabled", "yes", "--appendonly", "yes", "--protected-mode", "no"},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 60,
					ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(6379)}}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		}},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: named("data"), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: asked.Storage.Size}},
		}}},
	}}
	begun := time.Now()
	s.create(stateful)
	s.eventually(readyIn, "the bare pods are ready", func() error {
		if err := s.get(name, stateful); err != nil {
			return err
		}
		if stateful.Status.ReadyReplicas != 6 {
			return fmt.Errorf("%d are", stateful.Status.ReadyReplicas)
		}
		return nil
	})
	took := time.Since(begun)
	s.delete(stateful, client.PropagationPolicy(metav1.DeletePropagationForeground))
	s.emptied()
	return took
}

// emptied waits until no pod is left.
func (s *space) emptied() {
	s.Helper()
	s.eventually(readyIn, "all pods are gone", func() error {
		var pods corev1.PodList
		if err := world.client.List(s.ctx, &pods, client.InNamespace(s.name)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("there are %d", len(pods.Items))
		}
		return nil
	})
}
