// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Task is what a pod of no instance runs to completion for a step of an Operation.
type Task struct {
	// Namespace and Name of the Job.
	Namespace, Name string
	// Domain of the operator, and names of the Operation and the step: labels by which people find the pod.
	Domain, Operation, Step string
	// Pod as the template has it; what follows is in place of what it says.
	Pod       *optemplate.PodStep
	Image     string
	Command   []string
	Args      []string
	Env       []optemplate.TaskEnv
	Mounts    []optemplate.TaskMount
	Resources corev1.ResourceRequirements
	// Artifacts that it hands on and takes; nil for none.
	Artifacts *TaskArtifacts
	// Deadline until it is ended.
	Deadline time.Duration
}

// TaskJob returns the Job of a task. Its pod is tried once: another attempt is a matter of the Operation.
func TaskJob(s Settings, t Task) (*batchv1.Job, error) {
	image := t.Image
	if image != s.AgentImage {
		image = (&context{settings: s}).image(image)
	}
	container := corev1.Container{
		Name: jobContainer, Image: image, Command: t.Command, Args: t.Args, Env: taskEnv(t.Env),
		Resources: jobResources(t.Resources),
		// What a command that fails said last is read there, too.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
	}
	spec := corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		ServiceAccountName:           t.Pod.ServiceAccountName,
		AutomountServiceAccountToken: new(t.Pod.ServiceAccountName != ""),
		EnableServiceLinks:           new(false),
		NodeSelector:                 maps.Clone(t.Pod.NodeSelector),
		Tolerations:                  slices.Clone(t.Pod.Tolerations),
		PriorityClassName:            t.Pod.PriorityClassName,
		SecurityContext:              &corev1.PodSecurityContext{RunAsUser: t.Pod.RunAsUser, FSGroup: t.Pod.FSGroup},
		Volumes:                      []corev1.Volume{scratch("tmp", corev1.StorageMediumDefault, "64Mi")},
		Containers:                   []corev1.Container{container},
	}
	if err := mountTask(&spec, t.Mounts); err != nil {
		return nil, err
	}
	confineTask(&spec, t.Pod.Confinement)
	labels := map[string]string{
		platformv1.ManagedByLabel: platformv1.ManagedBy, platformv1.DomainLabel: t.Domain,
		platformv1.OperationLabel: platformv1.DerivedName(platformv1.MaxLabelValue, t.Operation),
		platformv1.StepLabel:      t.Step,
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)}, Spec: spec}
	if err := withArtifacts(&template, s, t.Pod, t.Artifacts); err != nil {
		return nil, err
	}
	s.Pods.completeJob(&template)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name, Labels: labels},
		Spec:       onceWithin(t.Deadline, template),
	}, nil
}

// confineTask confines the pod of a task as its template says.
func confineTask(spec *corev1.PodSpec, confinement optemplate.Confinement) {
	confine(spec)
	if confinement == optemplate.ConfinementBaseline {
		spec.SecurityContext.RunAsNonRoot = nil
		container := spec.Containers[0].SecurityContext
		container.ReadOnlyRootFilesystem, container.Capabilities = nil, nil
	}
}

// mountTask adds volumes to the container of a task.
func mountTask(spec *corev1.PodSpec, mounts []optemplate.TaskMount) error {
	for i, mount := range mounts {
		volume := corev1.Volume{Name: fmt.Sprintf("mount-%d", i)}
		switch {
		case mount.Claim != "":
			volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: mount.Claim,
				ReadOnly: mount.ReadOnly}
		case mount.ConfigMap != "":
			volume.ConfigMap = &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: mount.ConfigMap}}
		case mount.Secret != "":
			volume.Secret = &corev1.SecretVolumeSource{SecretName: mount.Secret}
		default:
			size, err := resource.ParseQuantity(string(mount.Scratch))
			if err != nil {
				return fmt.Errorf("%q of the mount %s is no quantity such as 1Gi", mount.Scratch, mount.Path)
			}
			volume.EmptyDir = &corev1.EmptyDirVolumeSource{SizeLimit: &size}
		}
		spec.Volumes = append(spec.Volumes, volume)
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{
			Name: volume.Name, MountPath: mount.Path, SubPath: mount.SubPath, ReadOnly: mount.ReadOnly})
	}
	return nil
}

// taskEnv are the variables of a task; what is out of an object is a reference.
func taskEnv(wanted []optemplate.TaskEnv) []corev1.EnvVar {
	env := make([]corev1.EnvVar, 0, len(wanted))
	for _, one := range wanted {
		variable := corev1.EnvVar{Name: one.Name, Value: one.Value}
		switch {
		case one.Secret != nil:
			variable.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: one.Secret.Name}, Key: one.Secret.Key}}
		case one.ConfigMap != nil:
			variable.ValueFrom = &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: one.ConfigMap.Name}, Key: one.ConfigMap.Key}}
		}
		env = append(env, variable)
	}
	return env
}
