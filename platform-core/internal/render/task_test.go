// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/render"
)

func task(pod *optemplate.PodStep) render.Task {
	return render.Task{Namespace: "shop", Name: "report-sum", Domain: "batch", Operation: "report", Step: "sum", Pod: pod,
		Image: "example/tool:1", Deadline: time.Minute}
}

func TestTaskJobRunsOneConfinedPodWithoutAToken(t *testing.T) {
	one := task(&optemplate.PodStep{})
	key := &optemplate.KeyReference{Name: "s", Key: "k"}
	one.Env = []optemplate.TaskEnv{{Name: "A", Value: "1"}, {Name: "P", Secret: key}}
	one.Pod.RunAsUser, one.Pod.FSGroup = new(int64(7)), new(int64(8))
	one.Mounts = []optemplate.TaskMount{{Path: "/data", Claim: "c"}, {Path: "/cache", Scratch: "1Gi"}}
	job, err := render.TaskJob(render.Settings{}, one)
	if err != nil {
		t.Fatal(err)
	}
	if *job.Spec.BackoffLimit != 0 || *job.Spec.ActiveDeadlineSeconds != 60 ||
		job.Labels["platform.zeroinfra.github.com/operation"] != "report" {
		t.Errorf("the Job is %+v", job)
	}
	spec := job.Spec.Template.Spec
	container := spec.Containers[0]
	if *spec.AutomountServiceAccountToken || !*spec.SecurityContext.RunAsNonRoot ||
		!*container.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("the pod is not confined: %+v", spec)
	}
	if ref := container.Env[1].ValueFrom; ref == nil || ref.SecretKeyRef.Name != "s" || container.Env[1].Value != "" {
		t.Errorf("the secret is no reference: %+v", container.Env[1])
	}
	if s := spec.SecurityContext; *s.RunAsUser != 7 || *s.FSGroup != 8 {
		t.Errorf("the user is %+v", s)
	}
	if len(container.VolumeMounts) != 3 || spec.Volumes[1].PersistentVolumeClaim.ClaimName != "c" {
		t.Errorf("the volumes are %+v", spec.Volumes)
	}
}

func TestTaskJobOfABaselinePodMayBeRoot(t *testing.T) {
	job, err := render.TaskJob(render.Settings{},
		task(&optemplate.PodStep{Confinement: optemplate.ConfinementBaseline, ServiceAccountName: "worker"}))
	if err != nil {
		t.Fatal(err)
	}
	spec := job.Spec.Template.Spec
	if spec.SecurityContext.RunAsNonRoot != nil || *spec.Containers[0].SecurityContext.AllowPrivilegeEscalation ||
		!*spec.AutomountServiceAccountToken {
		t.Errorf("the pod is %+v", spec)
	}
}

func TestTaskJobWithTheAgentsHasTheirImageAsItIs(t *testing.T) {
	settings := render.Settings{AgentImage: "registry.example/agent:1", ImageRegistry: "mirror.example"}
	for image, want := range map[string]string{"registry.example/agent:1": "registry.example/agent:1",
		"example/tool:1": "mirror.example/example/tool:1"} {
		one := task(&optemplate.PodStep{})
		one.Image = image
		job, err := render.TaskJob(settings, one)
		if err != nil {
			t.Fatal(err)
		}
		if got := job.Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("%s is run as %s, want %s", image, got, want)
		}
	}
}
