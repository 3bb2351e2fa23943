// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// jobContainer is the name of the container of a job.
const jobContainer = "job"

// Job is what a pod of its own runs to completion for an Operation.
type Job struct {
	// Name of it.
	Name string
	// Pod whose volumes it has, where the container has them that it is like; empty for none.
	Pod string
	// Mounts of the component that it has, by name, as far as the pods of the set have them.
	Mounts []string
	// Image in place of that of the component; empty for none.
	Image string
	// Command and arguments.
	Command []string
	// Env of the container.
	Env []optemplate.JobEnv
	// Resources of the container.
	Resources corev1.ResourceRequirements
	// ServiceAccountName is whose token it has; none when empty.
	ServiceAccountName string
	// Deadline until it is ended.
	Deadline time.Duration
}

// JobOf returns a Job whose pod is like those of a set: the image of container, the user, where it may run; it is
// confined as they are. The label of the Application lets it through the walls of that. It is no pod of the set: no
// Service selects it.
func JobOf(set *platformv1.WorkloadSet, container string, s Settings, j Job) (*batchv1.Job, error) {
	job, err := jobLike(set, container, s, j)
	if err != nil {
		return nil, err
	}
	s.Pods.completeJob(&job.Spec.Template)
	return job, nil
}

// jobLike is JobOf for a Job that gets more before it has what the settings give every pod.
func jobLike(set *platformv1.WorkloadSet, container string, s Settings, j Job) (*batchv1.Job, error) {
	like, err := Pod(set, 0)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(like.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i < 0 {
		return nil, fmt.Errorf("the pods of %s have no container %q", set.Name, container)
	}
	image := like.Spec.Containers[i].Image
	if j.Image != "" {
		image = (&context{settings: s}).image(j.Image)
	}
	spec := corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		ServiceAccountName:           j.ServiceAccountName,
		AutomountServiceAccountToken: new(j.ServiceAccountName != ""),
		EnableServiceLinks:           new(false),
		SecurityContext:              like.Spec.SecurityContext,
		NodeSelector:                 like.Spec.NodeSelector,
		Tolerations:                  like.Spec.Tolerations,
		PriorityClassName:            like.Spec.PriorityClassName,
		ImagePullSecrets:             like.Spec.ImagePullSecrets,
		Volumes:                      []corev1.Volume{scratch("tmp", corev1.StorageMediumDefault, "64Mi")},
		Containers: []corev1.Container{{
			Name: jobContainer, Image: image, Command: j.Command, Env: jobEnv(set.Spec.Application, j.Env),
			Resources:       jobResources(j.Resources),
			SecurityContext: like.Spec.Containers[i].SecurityContext,
			// What a command that fails said last is read there, too.
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			VolumeMounts:             []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
		}},
	}
	if affinity := like.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		spec.Affinity = &corev1.Affinity{NodeAffinity: affinity.NodeAffinity}
	}
	withAuthority(&spec, set.Spec.Application, like.Spec.Volumes)
	confine(&spec)
	if err := withVolumes(&spec, set, j.Pod, like.Spec.Containers[i].VolumeMounts); err != nil {
		return nil, err
	}
	withMounts(&spec, j.Mounts, &like.Spec, like.Spec.Containers[i].VolumeMounts)
	labels := map[string]string{
		platformv1.ManagedByLabel: platformv1.ManagedBy, platformv1.ApplicationLabel: set.Spec.Application,
		platformv1.DomainLabel: set.Labels[platformv1.DomainLabel],
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)}, Spec: spec}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: j.Name, Labels: labels},
		// Whether it is tried again is for the Operation to say.
		Spec: onceWithin(j.Deadline, template),
	}, nil
}

// withVolumes mounts the claims of a pod as the container has them that the job is like.
func withVolumes(spec *corev1.PodSpec, set *platformv1.WorkloadSet, pod string, mounts []corev1.VolumeMount) error {
	if pod == "" {
		return nil
	}
	number, mine := strings.CutPrefix(pod, set.Name+"-")
	ordinal, err := strconv.ParseInt(number, 10, 32)
	if !mine || err != nil {
		return fmt.Errorf("%q is no pod of %s", pod, set.Name)
	}
	whole, err := Pod(set, int32(ordinal))
	if err != nil {
		return err
	}
	for _, volume := range whole.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil || Foreign(&volume) {
			continue
		}
		spec.Volumes = append(spec.Volumes, volume)
		for _, mount := range mounts {
			if mount.Name == volume.Name {
				spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, mount)
			}
		}
	}
	spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: optemplate.JobPodEnv, Value: pod})
	return nil
}

// withAuthority mounts what clients of an instance with TLS know it by, and not its key.
func withAuthority(spec *corev1.PodSpec, application string, volumes []corev1.Volume) {
	if !slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Name == volumeCerts }) {
		return
	}
	spec.Volumes = append(spec.Volumes,
		corev1.Volume{Name: volumeCerts, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  platformv1.TrustNameFor(application),
			Items:       []corev1.KeyToPath{{Key: plan.CAFile, Path: plan.CAFile}},
			DefaultMode: new(int32(secretMode)),
		}}})
	spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: volumeCerts, MountPath: plan.CertificatesDir, ReadOnly: true})
}

// jobEnv has passwords by reference.
func jobEnv(application string, wanted []optemplate.JobEnv) []corev1.EnvVar {
	env := make([]corev1.EnvVar, 0, len(wanted))
	for _, one := range wanted {
		variable := corev1.EnvVar{Name: one.Name, Value: one.Value}
		if one.Secret != nil {
			variable.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{
					Name: platformv1.CredentialNameFor(application, one.Secret.Credential)},
				Key: cmp.Or(one.Secret.Key, plugin.SecretKeyPassword),
			}}
		}
		env = append(env, variable)
	}
	return env
}

func jobResources(wanted corev1.ResourceRequirements) corev1.ResourceRequirements {
	if len(wanted.Requests) > 0 || len(wanted.Limits) > 0 {
		return *wanted.DeepCopy()
	}
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}}
}
