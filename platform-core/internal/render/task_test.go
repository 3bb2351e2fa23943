// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
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

// Where the pod runs, and with which devices, is what its template says.
func TestTaskJobRunsWhereItsTemplateSays(t *testing.T) {
	gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
	taint := corev1.Toleration{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoSchedule}
	one := withFiles(&optemplate.PodStep{NodeSelector: map[string]string{"gpu": "h100"}, PriorityClassName: "high",
		Tolerations: []corev1.Toleration{taint}, FSGroup: new(int64(8))})
	one.Resources = corev1.ResourceRequirements{Limits: gpu}
	one.Mounts = []optemplate.TaskMount{{Path: "/data", Claim: "c", SubPath: "a/b", ReadOnly: true}}
	job, err := render.TaskJob(render.Settings{}, one)
	if err != nil {
		t.Fatal(err)
	}
	spec := job.Spec.Template.Spec
	if spec.NodeSelector["gpu"] != "h100" || spec.PriorityClassName != "high" || len(spec.Tolerations) != 1 ||
		spec.Tolerations[0] != taint || *spec.SecurityContext.FSGroup != 8 {
		t.Errorf("the pod is %+v", spec)
	}
	own := spec.InitContainers[1]
	if got := own.Resources.Limits["nvidia.com/gpu"]; got.Value() != 2 {
		t.Errorf("the task has %+v", own.Resources)
	}
	if got := own.VolumeMounts[1]; got.MountPath != "/data" || got.SubPath != "a/b" || !got.ReadOnly {
		t.Errorf("the task mounts %+v", own.VolumeMounts)
	}
	for _, mover := range []corev1.Container{spec.InitContainers[0], spec.Containers[0]} {
		if _, has := mover.Resources.Limits["nvidia.com/gpu"]; has {
			t.Errorf("the mover %s has a GPU", mover.Name)
		}
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

// withFiles is a task that takes an artifact and hands one on.
func withFiles(pod *optemplate.PodStep) render.Task {
	one := task(pod)
	one.Artifacts = &render.TaskArtifacts{
		Repository: &platformv1.BackupRepository{Spec: platformv1.BackupRepositorySpec{S3: &platformv1.S3Repository{
			Endpoint: "https://s3", Bucket: "b", CredentialsSecretRef: platformv1.SecretReference{Name: "keys"}}}},
		Folders: []string{"/out", "/in"},
		Fetch: &mover.Artifacts{Folder: "_artifacts/shop/u", Files: []mover.ArtifactFile{
			{Name: "make.model", Path: "/in/model", Mount: 1, SHA256: strings.Repeat("a", 64), Size: 1 << 20}}},
		Keep: &mover.Artifacts{Folder: "_artifacts/shop/u", MaxBytes: 1 << 30,
			Files: []mover.ArtifactFile{{Name: "report", Path: "/out/report"}}},
	}
	return one
}

func mounted(container corev1.Container) (paths []string) {
	for _, mount := range container.VolumeMounts {
		paths = append(paths, mount.MountPath)
	}
	return paths
}

// Movers stand before and after the container of the task, and it has neither the keys of the repository nor their
// plans.
func TestTaskWithArtifactsHasMoversAroundItsContainer(t *testing.T) {
	job, err := render.TaskJob(render.Settings{AgentImage: "registry.example/agent:1"}, withFiles(&optemplate.PodStep{}))
	if err != nil {
		t.Fatal(err)
	}
	template := job.Spec.Template
	spec := template.Spec
	if len(spec.InitContainers) != 2 || spec.InitContainers[0].Name != render.FetchContainer ||
		spec.InitContainers[1].Name != render.TaskContainer || len(spec.Containers) != 1 ||
		spec.Containers[0].Name != render.KeepContainer {
		t.Fatalf("the pod is %+v", spec)
	}
	if got := template.Annotations["kubectl.kubernetes.io/default-container"]; got != render.TaskContainer {
		t.Errorf("kubectl shows the log of %q", got)
	}
	own, fetch, keep := spec.InitContainers[1], spec.InitContainers[0], spec.Containers[0]
	if got := mounted(own); !slices.Equal(got, []string{"/tmp", "/out", "/in"}) || own.Image != "example/tool:1" {
		t.Errorf("the task has %v", got)
	}
	for _, container := range []corev1.Container{fetch, keep} {
		want := []string{mover.CredentialsPath, "/zeroinfra/mover", "/zeroinfra/artifacts/0", "/zeroinfra/artifacts/1"}
		if got := mounted(container); !slices.Equal(got, want) || container.Image != "registry.example/agent:1" ||
			*container.SecurityContext.RunAsUser != mover.User || !*container.SecurityContext.ReadOnlyRootFilesystem {
			t.Errorf("a mover is %+v", container)
		}
	}
	for annotation, verb := range map[string]mover.Verb{platformv1.FetchPlanAnnotation: mover.VerbFetch,
		platformv1.MoverPlanAnnotation: mover.VerbKeep} {
		var plan mover.Plan
		if err := json.Unmarshal([]byte(template.Annotations[annotation]), &plan); err != nil || plan.Verb != verb ||
			plan.Repository.Bucket != "b" || len(plan.Artifacts.Files) != 1 {
			t.Errorf("a plan is %+v: %v", plan, err)
		}
	}
	for _, volume := range spec.Volumes {
		if volume.Name == "artifacts-0" && volume.EmptyDir.SizeLimit.Value() != 1<<30+64<<20 ||
			volume.Name == "artifacts-1" && volume.EmptyDir.SizeLimit.Value() != 65<<20 {
			t.Errorf("the volume is %+v", volume.EmptyDir)
		}
	}
}

// The mover of a task that says its user reads its files as that user.
func TestMoversRunAsTheUserOfTheTask(t *testing.T) {
	for user, nonRoot := range map[int64]bool{0: false, 7: true} {
		pod := &optemplate.PodStep{RunAsUser: new(user), Confinement: optemplate.ConfinementBaseline}
		one := withFiles(pod)
		one.Artifacts.Fetch = nil
		job, err := render.TaskJob(render.Settings{}, one)
		if err != nil {
			t.Fatal(err)
		}
		security := job.Spec.Template.Spec.Containers[0].SecurityContext
		if *security.RunAsUser != user || *security.RunAsNonRoot != nonRoot || security.Capabilities == nil {
			t.Errorf("as user %d the mover has %+v", user, security)
		}
		if own := job.Spec.Template.Spec.InitContainers[0]; own.SecurityContext.ReadOnlyRootFilesystem != nil {
			t.Errorf("the task has %+v", own.SecurityContext)
		}
	}
}
