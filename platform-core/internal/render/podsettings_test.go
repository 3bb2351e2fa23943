// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// withPods are the settings of the tests and what all pods get.
func withPods() Settings {
	s := settings
	s.Pods = &PodSettings{
		ImagePullSecrets: []string{"registry"},
		Labels:           map[string]string{"sidecar.istio.io/inject": "false", platformv1.ComponentLabel: "other"},
		Annotations:      map[string]string{"linkerd.io/inject": "disabled", "note": "${none}"},
		AgentCPU:         resource.MustParse("5m"), JobCPU: resource.MustParse("2"),
	}
	return s
}

// What all pods get replaces no pod, takes no label away, and leaves the middleware's own resources to the user.
func TestSettingsOfAllPods(t *testing.T) {
	before, _ := render(t, redis(t), settings, application(nil))
	set, _ := render(t, redis(t), withPods(), application(nil))
	if set.Spec.Revision != before.Spec.Revision {
		t.Errorf("the revision is %s, and was %s", set.Spec.Revision, before.Spec.Revision)
	}
	instance := pod(t, set, 0)
	if !slices.Equal(instance.Spec.ImagePullSecrets, []corev1.LocalObjectReference{{Name: "registry"}}) ||
		instance.Labels["sidecar.istio.io/inject"] != "false" ||
		instance.Labels[platformv1.ComponentLabel] != "redis" || instance.Annotations["linkerd.io/inject"] != "disabled" ||
		instance.Annotations["note"] != "${none}" {
		t.Errorf("the pod is %+v with pull secrets %v", instance.ObjectMeta, instance.Spec.ImagePullSecrets)
	}
	for _, container := range slices.Concat(instance.Spec.InitContainers, instance.Spec.Containers) {
		limit, limited := container.Resources.Limits[corev1.ResourceCPU]
		if own := container.Name == "redis"; own == limited || !own &&
			(limit.String() != "5m" || container.Resources.Requests.Cpu().Cmp(limit) > 0) {
			t.Errorf("container %s has %+v", container.Name, container.Resources)
		}
	}
}

// Each Job that the engine makes has what all pods get.
func TestSettingsOfAllPodsReachJobs(t *testing.T) {
	s := withPods()
	spec, _ := render(t, redis(t), s, application(nil))
	set := spec.DeepCopy()
	set.Name, set.Namespace, set.Labels = "cache-redis-main", "shop", map[string]string{platformv1.DomainLabel: "database"}
	set.Spec.Restore = &platformv1.SetRestore{
		From: platformv1.ComponentRestore{Backup: "x", UID: "backup-uid", Method: "rdb"}, Container: "redis", Folder: "/data"}
	m := Mover{Namespace: "shop", Name: "mover", Domain: "database", For: types.UID("uid"), Deadline: time.Minute,
		Repository: bucket(),
		Plan:       mover.Plan{Verb: mover.VerbRestore, Backup: &mover.Backup{Key: "shop/cache/x"}}}
	for name, made := range map[string]func() (*batchv1.Job, error){
		"job": func() (*batchv1.Job, error) {
			return JobOf(set, "redis", s, Job{Name: "job", Deadline: time.Minute})
		},
		"mover beside":          func() (*batchv1.Job, error) { return MoverBeside(set, "redis", s, m, nil) },
		"mover into a volume":   func() (*batchv1.Job, error) { return MoverInto(set, s, m) },
		"mover through servers": func() (*batchv1.Job, error) { return MoverThrough(set, s, m) },
		"mover alone":           func() (*batchv1.Job, error) { return MoverAlone(s, m) },
	} {
		job, err := made()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		template := job.Spec.Template
		if template.Labels["sidecar.istio.io/inject"] != "false" || template.Annotations["note"] != "${none}" ||
			(name != "job" && template.Annotations[platformv1.MoverPlanAnnotation] == "") ||
			!slices.Equal(template.Spec.ImagePullSecrets, []corev1.LocalObjectReference{{Name: "registry"}}) {
			t.Errorf("%s: the pod is %+v with pull secrets %v", name, template.ObjectMeta, template.Spec.ImagePullSecrets)
		}
		for _, container := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
			if limit := container.Resources.Limits[corev1.ResourceCPU]; limit.String() != "2" {
				t.Errorf("%s: container %s has %+v", name, container.Name, container.Resources)
			}
		}
	}
}
