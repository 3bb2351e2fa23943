// SPDX-License-Identifier: Apache-2.0

package trim_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/zeroinfra/platform-core/internal/trim"
)

func TestPodKeepsWhatIsReadOfIt(t *testing.T) {
	claimed := corev1.Volume{Name: "data",
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: "data-a-0"}}}
	scratch := corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	kept := corev1.Container{
		Name: "a", Image: "a:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}
	full := kept
	full.Command, full.Env = []string{"run"}, []corev1.EnvVar{{Name: "A", Value: "b"}}
	full.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	full.ReadinessProbe = &corev1.Probe{PeriodSeconds: 2}
	pod := func(c corev1.Container, volumes ...corev1.Volume) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "a-0", Labels: map[string]string{"a": "b"},
				Annotations: map[string]string{"c": "d"}},
			Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{c}, Containers: []corev1.Container{c}, Volumes: volumes, NodeName: "n",
				NodeSelector: map[string]string{"e": "f"}, Tolerations: []corev1.Toleration{{Key: "g"}},
				Affinity: &corev1.Affinity{},
			},
			Status: corev1.PodStatus{PodIP: "10.0.0.1",
				ContainerStatuses: []corev1.ContainerStatus{{Name: "a", ContainerID: "x"}}},
		}
	}
	given := pod(full, scratch, claimed)
	given.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	got, err := trim.Pod(given)
	if err != nil {
		t.Fatal(err)
	}
	if want := pod(kept, claimed); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestWhatIsNoPodIsLeftAlone(t *testing.T) {
	gone := cache.DeletedFinalStateUnknown{Key: "a/b"}
	if got, err := trim.Pod(gone); err != nil || got != any(gone) {
		t.Errorf("got %v, %v", got, err)
	}
}
