// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

const (
	// TaskContainer is the container of a task. It is an init container where the task has artifacts to keep.
	TaskContainer = jobContainer
	// FetchContainer fetches the artifacts that a task takes, before its container starts.
	FetchContainer = "fetch-artifacts"
	// KeepContainer keeps the artifacts that a task hands on, once its container has ended well.
	KeepContainer = "keep-artifacts"

	// fetchPlan and keepPlan are the files of their plans.
	fetchPlan, keepPlan = mover.FetchPlanPath, mover.PlanPath
	// artifactKeysMode lets the user of a task's pod, whoever that is, read the keys in the containers that mount them.
	artifactKeysMode = 0o444
	// artifactSlack is how much room the folder of an artifact has beside that.
	artifactSlack = int64(64) << 20
	// defaultContainerAnnotation names the container whose log kubectl shows.
	defaultContainerAnnotation = "kubectl.kubernetes.io/default-container"
)

// TaskArtifacts are the files that a task hands on, and those of earlier ones that it takes.
type TaskArtifacts struct {
	// Repository that they are in, which has a bucket.
	Repository *platformv1.BackupRepository
	// Folders of the container that they are in.
	Folders []string
	// Fetch and Keep say which; nil for none.
	Fetch, Keep *mover.Artifacts
}

// withArtifacts adds movers to the pod of a task: an init container before that of the task, and one after it, which
// then is an init container itself, so that Kubernetes has each begin once the one before has ended well. They alone
// have the keys of the repository.
func withArtifacts(template *corev1.PodTemplateSpec, s Settings, pod *optemplate.PodStep, a *TaskArtifacts) error {
	if a == nil {
		return nil
	}
	spec := &template.Spec
	task, annotations := spec.Containers[0], map[string]string{defaultContainerAnnotation: TaskContainer}
	var files []corev1.DownwardAPIVolumeFile
	plan := func(verb mover.Verb, artifacts *mover.Artifacts, annotation, file string) error {
		text, err := json.Marshal(mover.Plan{Verb: verb, Repository: storeOf(a.Repository), Artifacts: artifacts})
		annotations[annotation] = string(text)
		files = append(files, corev1.DownwardAPIVolumeFile{Path: path.Base(file), FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1", FieldPath: "metadata.annotations['" + annotation + "']"}})
		return err
	}
	task.VolumeMounts = append(task.VolumeMounts, a.folders(spec)...)
	spec.Containers = []corev1.Container{task}
	if a.Fetch != nil {
		if err := plan(mover.VerbFetch, a.Fetch, platformv1.FetchPlanAnnotation, fetchPlan); err != nil {
			return fmt.Errorf("cannot write the plan of a mover: %w", err)
		}
		spec.InitContainers = append(spec.InitContainers, a.mover(s, pod, FetchContainer, fetchPlan))
	}
	if a.Keep != nil {
		if err := plan(mover.VerbKeep, a.Keep, platformv1.MoverPlanAnnotation, keepPlan); err != nil {
			return fmt.Errorf("cannot write the plan of a mover: %w", err)
		}
		spec.InitContainers = append(spec.InitContainers, task)
		spec.Containers = []corev1.Container{a.mover(s, pod, KeepContainer, keepPlan)}
	}
	keys := storeKeys(a.Repository.Spec.S3)
	keys.Projected.DefaultMode = new(int32(artifactKeysMode))
	spec.Volumes = append(spec.Volumes, keys, corev1.Volume{Name: volumeMover, VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: files}}})
	template.Annotations = annotations
	return nil
}

// folderVolume is the name of the volume of a folder of artifacts.
func folderVolume(number int) string { return "artifacts-" + strconv.Itoa(number) }

// folders adds a volume for each folder, and returns where the container of the task has them.
func (a *TaskArtifacts) folders(spec *corev1.PodSpec) []corev1.VolumeMount {
	room := make([]int64, len(a.Folders))
	if a.Fetch != nil {
		for _, file := range a.Fetch.Files {
			room[file.Mount] += file.Size
		}
	}
	if a.Keep != nil {
		for _, file := range a.Keep.Files {
			room[file.Mount] += a.Keep.MaxBytes
		}
	}
	var mounts []corev1.VolumeMount
	for number, folder := range a.Folders {
		limit := resource.NewQuantity(room[number]+artifactSlack, resource.BinarySI)
		spec.Volumes = append(spec.Volumes, scratch(folderVolume(number), corev1.StorageMediumDefault, limit.String()))
		mounts = append(mounts, corev1.VolumeMount{Name: folderVolume(number), MountPath: folder})
	}
	return mounts
}

// mover is a container that carries artifacts. It runs as the user of the task where that is known, whose files it
// reads.
func (a *TaskArtifacts) mover(s Settings, pod *optemplate.PodStep, name, plan string) corev1.Container {
	user := moverUser
	if pod.RunAsUser != nil {
		user = *pod.RunAsUser
	}
	container := corev1.Container{
		Name: name, Image: s.AgentImage, Command: []string{opsImagePath, "mover", "--plan", plan},
		Resources:                moverResources(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: new(user), RunAsNonRoot: new(user != 0), AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeStoreKeys, MountPath: mover.CredentialsPath, ReadOnly: true},
			{Name: volumeMover, MountPath: path.Dir(plan), ReadOnly: true},
		},
	}
	for number := range a.Folders {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: folderVolume(number),
			MountPath: path.Join(mover.ArtifactsPath, strconv.Itoa(number))})
	}
	return container
}
