// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// A job is like the pods of its set as far as a command needs that, and no further.
func TestJobOf(t *testing.T) {
	app := application(func(app *platformv1.Application) {
		app.Spec.Components = []platformv1.ApplicationComponent{{Name: "redis", Scheduling: &platformv1.Scheduling{
			NodeSelector: map[string]string{"disk": "fast"},
			Tolerations:  []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
		}}}
	})
	spec, _ := render(t, redis(t), settings, app)
	set := spec.DeepCopy()
	set.Name, set.Namespace, set.Labels = "cache-redis-main", "shop", map[string]string{platformv1.DomainLabel: "database"}
	wanted := Job{Name: "op-count", Command: []string{"redis-cli", "DBSIZE"}, Deadline: 90 * time.Second,
		Env: []optemplate.JobEnv{
			{Name: "A", Value: "b"}, {Name: "REDISCLI_AUTH", Secret: &plan.SecretRef{Credential: "default", Key: "password"}}}}
	job, err := JobOf(set, "redis", settings, wanted)
	if err != nil {
		t.Fatal(err)
	}
	if *job.Spec.BackoffLimit != 0 || *job.Spec.ActiveDeadlineSeconds != 90 || job.Spec.TTLSecondsAfterFinished != nil ||
		job.Namespace != "shop" {
		t.Errorf("the job is %+v", job.Spec)
	}
	pod, container := job.Spec.Template.Spec, job.Spec.Template.Spec.Containers[0]
	of := func(p *corev1.Pod) corev1.Container { return p.Spec.Containers[0] }
	like, err := Pod(set, 0)
	if err != nil {
		t.Fatal(err)
	}
	if container.Image != of(like).Image || pod.NodeSelector["disk"] != "fast" || len(pod.Tolerations) != 1 ||
		*pod.SecurityContext.RunAsUser != 999 {
		t.Errorf("the pod is %+v", pod)
	}
	if pod.RestartPolicy != corev1.RestartPolicyNever || *pod.AutomountServiceAccountToken ||
		pod.ServiceAccountName != "" || len(pod.Volumes) != 1 ||
		!*pod.SecurityContext.RunAsNonRoot || *container.SecurityContext.AllowPrivilegeEscalation ||
		container.SecurityContext.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the pod is not confined: %+v", pod)
	}
	if from := container.Env[1].ValueFrom.SecretKeyRef; from.Name != "cache-default" || from.Key != "password" ||
		container.Env[1].Value != "" || container.Env[0].Value != "b" {
		t.Errorf("the environment is %+v", container.Env)
	}
	labels := job.Spec.Template.Labels
	if labels[platformv1.ApplicationLabel] != "cache" || labels[platformv1.ComponentLabel] != "" ||
		labels[platformv1.RoleLabel] != "" || labels[platformv1.DomainLabel] != "database" {
		t.Errorf("the labels are %v", labels)
	}
	wanted.Image, wanted.ServiceAccountName, wanted.Resources = "example.com/tools/dump:1", "able",
		corev1.ResourceRequirements{Limits: corev1.ResourceList{
			"memory": container.Resources.Requests["memory"], "nvidia.com/gpu": resource.MustParse("2")}}
	elsewhere := settings
	elsewhere.ImageRegistry = "mirror.example.com/m"
	if job, err = JobOf(set, "redis", elsewhere, wanted); err != nil {
		t.Fatal(err)
	}
	pod, container = job.Spec.Template.Spec, job.Spec.Template.Spec.Containers[0]
	if container.Image != "mirror.example.com/m/tools/dump:1" || !*pod.AutomountServiceAccountToken ||
		pod.ServiceAccountName != "able" ||
		len(container.Resources.Requests) != 0 || len(container.Resources.Limits) != 2 {
		t.Errorf("the pod is %+v", pod)
	}
	if _, err := JobOf(set, "sentinel", settings, wanted); err == nil ||
		!strings.Contains(err.Error(), `no container "sentinel"`) {
		t.Errorf("got %v", err)
	}
}

// A job can have the volumes of a pod that is gone, where the container has them that it is like, and is told whose
// they are.
func TestJobWithVolumes(t *testing.T) {
	spec, _ := render(t, redis(t), settings, application(func(*platformv1.Application) {}))
	set := spec.DeepCopy()
	set.Name, set.Namespace = "cache-redis-main", "shop"
	job, err := JobOf(set, "redis", settings,
		Job{Name: "op-convert", Pod: "cache-redis-main-2", Command: []string{"convert"}, Deadline: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	pod, container := job.Spec.Template.Spec, job.Spec.Template.Spec.Containers[0]
	claims := 0
	for _, volume := range pod.Volumes {
		if claim := volume.PersistentVolumeClaim; claim != nil {
			if claims++; claim.ClaimName != "data-cache-redis-main-2" || claim.ReadOnly {
				t.Errorf("the job has the claim %+v", claim)
			}
		}
	}
	mounted := 0
	for _, mount := range container.VolumeMounts {
		if mount.Name == "data" && mount.MountPath == "/data" && !mount.ReadOnly {
			mounted++
		}
	}
	last := container.Env[len(container.Env)-1]
	if claims != 1 || mounted != 1 || last.Name != optemplate.JobPodEnv || last.Value != "cache-redis-main-2" ||
		*pod.SecurityContext.FSGroup != 999 {
		t.Errorf("the pod is %+v", pod)
	}
	for _, other := range []string{"cache-redis-main", "cache-redis-other-0", "cache-redis-main-x"} {
		if _, err := JobOf(set, "redis", settings, Job{Name: "op", Pod: other, Command: []string{"convert"}}); err == nil ||
			!strings.Contains(err.Error(), "is no pod of cache-redis-main") {
			t.Errorf("of pod %q it says %v", other, err)
		}
	}
}
