// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// bareLabel has the name of the StatefulSet of a pod.
const bareLabel = "bare"

// bareSet is a StatefulSet of processes of the image of Redis that nobody looks after but the kubelet.
type bareSet struct {
	*framework.Namespace
	name     string
	replicas int32
}

// createBareSet creates a StatefulSet whose pods get of resources and storage what those of a small RedisCluster get.
// They run a command as their first process, with POD_NAME and POD_IP in its environment, and are ready once it listens
// on a port.
func createBareSet(s *framework.Namespace, name string, replicas, port int32, command ...string) *bareSet {
	s.Helper()
	asked := smallCluster().InstanceSpec
	return createBareSetOf(s, name, framework.RedisImage, &asked, replicas, port, command...)
}

// createBareSetOf is createBareSet for an image, with what an instance asks of resources and storage.
func createBareSetOf(s *framework.Namespace, name, image string, asked *platformv1.InstanceSpec, replicas, port int32,
	command ...string) *bareSet {
	s.Helper()
	labels := map[string]string{bareLabel: name}
	from := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	s.Create(&appsv1.StatefulSet{ObjectMeta: framework.ObjectMeta(name), Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labels},
		PodManagementPolicy: appsv1.ParallelPodManagement,
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](999), RunAsGroup: ptr.To[int64](999),
				FSGroup:        ptr.To[int64](999),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: framework.RedisComponent, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
				Resources: asked.Resources, Command: command,
				Env:          []corev1.EnvVar{from("POD_NAME", "metadata.name"), from("POD_IP", "status.podIP")},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 60,
					ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		}},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{
			{ObjectMeta: framework.ObjectMeta("data"), Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: asked.Storage.Size}},
			}}},
	}})
	return &bareSet{Namespace: s, name: name, replicas: replicas}
}

// addressed gives the pods of the set DNS names, also while they are not ready.
func (b *bareSet) addressed() {
	b.Helper()
	b.Create(&corev1.Service{ObjectMeta: framework.ObjectMeta(b.name), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: map[string]string{bareLabel: b.name},
		Ports: []corev1.ServicePort{{Name: "redis", Port: redisPort}},
	}})
}

// ready waits until all pods are.
func (b *bareSet) ready() {
	b.Helper()
	b.Eventually(framework.ReadyTimeout, "the pods of "+b.name+" are ready", func() error {
		set := &appsv1.StatefulSet{}
		if err := b.Get(b.name, set); err != nil {
			return err
		}
		if set.Status.ReadyReplicas != b.replicas {
			return fmt.Errorf("%d are", set.Status.ReadyReplicas)
		}
		return nil
	})
}

// pods returns those that are not on their way out, in order of name.
func (b *bareSet) pods() []corev1.Pod {
	b.Helper()
	var list corev1.PodList
	if err := framework.Cluster.Client.List(b.Ctx, &list, client.InNamespace(b.Namespace.Name),
		client.MatchingLabels{bareLabel: b.name}); err != nil {
		b.Fatal(err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(pods, func(x, y corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
	return pods
}

// kill ends the process of a pod from its node. In the pod it is the first one, which nobody there can kill.
func (b *bareSet) kill(pod string) {
	b.Helper()
	found := &corev1.Pod{}
	b.MustGet(pod, found)
	b.PreparePodKill(*found)()
}

// freshen replaces pods whose container was started again: the kubelet would have the next start of that one wait,
// longer and longer, which says nothing of a first one.
func (b *bareSet) freshen() {
	b.Helper()
	for _, pod := range b.pods() {
		if framework.Restarts(&pod)[framework.RedisComponent] > 0 {
			b.ReplacePod(pod.Name)
		}
	}
}
