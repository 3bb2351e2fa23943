// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

const (
	// MoverContainer is the container of a Job whose termination message is the result.
	MoverContainer = jobContainer
	// opsImagePath is the ops agent's binary in the agents' own image.
	opsImagePath = "/agent-ops"
	// moverUser is who all movers run as, whatever the middleware's image: so each can delete what another one wrote.
	moverUser = int64(65532)
	// restoreKept is how long a Job stays that filled a volume, or failed to: whoever asked has taken note of that long before.
	restoreKept = time.Hour

	volumeMover      = plugin.VolumePrefix + "mover"
	volumeStoreKeys  = plugin.VolumePrefix + "store-keys"
	volumeStorePass  = plugin.VolumePrefix + "store-pass"
	volumeRepository = plugin.VolumePrefix + "repository"
	// volumeTarget begins the names of volumes with the credentials of a target.
	volumeTarget = plugin.VolumePrefix + "target-"
)

// Keys of the Secret of an S3 repository.
const (
	StoreAccessKey = "accessKey"
	StoreSecretKey = "secretKey"
)

// Mover is a Job that carries a backup, or looks after what is kept.
type Mover struct {
	// Name and Namespace of it.
	Namespace, Name string
	// Domain of the operator, and the UID of the object that it works for.
	Domain string
	For    types.UID
	// Owner of it.
	Owner metav1.OwnerReference
	// Plan that it has, but for the repository.
	Plan mover.Plan
	// Repository that it works on.
	Repository *platformv1.BackupRepository
	// Deadline until it is ended.
	Deadline time.Duration
	// From is the Backup whose data it puts somewhere; nil where it does not.
	From *platformv1.Backup
}

// MoverBeside returns the Job of a mover that takes the data of an instance: in the image of a container of a set, whose pods let it in, with the
// variables of the method.
func MoverBeside(set *platformv1.WorkloadSet, container string, s Settings, m Mover, env []plugin.JobEnv) (*batchv1.Job, error) {
	job, err := JobOf(set, container, s, Job{Name: m.Name, Env: env, Resources: moverResources(), Deadline: m.Deadline})
	if err != nil {
		return nil, err
	}
	withMover(&job.Spec.Template.Spec, s.AgentImage)
	return m.complete(job)
}

// MoverInto returns the Job of a mover that fills the volumes of the first pod of a set as that says: as the user whose files they are to be, who
// may read what is in the repository and nothing else there.
func MoverInto(set *platformv1.WorkloadSet, m Mover) (*batchv1.Job, error) {
	restore, ordinals := set.Spec.Restore, set.Spec.Ordinals()
	if restore == nil || len(ordinals) == 0 {
		return nil, fmt.Errorf("nothing is to be restored into %s", set.Name)
	}
	first := platformv1.PodNameFor(set.Name, ordinals[0])
	like, err := Pod(set, ordinals[0])
	if err != nil {
		return nil, err
	}
	agent := slices.IndexFunc(like.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == plugin.InitContainer })
	if agent < 0 {
		return nil, fmt.Errorf("the pods of %s have no container %q", set.Name, plugin.InitContainer)
	}
	var env []plugin.JobEnv
	for _, variable := range restore.Env {
		env = append(env, plugin.JobEnv{Name: variable.Name, Value: variable.Value})
	}
	job, err := JobOf(set, restore.Container, Settings{}, Job{Name: m.Name, Pod: first, Env: env, Resources: moverResources(), Deadline: m.Deadline})
	if err != nil {
		return nil, err
	}
	spec := &job.Spec.Template.Spec
	withMover(spec, like.Spec.InitContainers[agent].Image)
	m.Plan.Command, m.Plan.Into = restore.Command, &mover.Into{Folder: restore.Folder, ID: string(restore.From.UID)}
	own := spec.SecurityContext.DeepCopy()
	if job, err = m.complete(job); err != nil {
		return nil, err
	}
	own.SupplementalGroups = append(own.SupplementalGroups, moverUser)
	spec.SecurityContext = own
	if err := withTarget(spec, restore.From.Target, m.From); err != nil {
		return nil, err
	}
	job.Spec.TTLSecondsAfterFinished = new(int32(restoreKept / time.Second))
	for i := range spec.Volumes {
		if claim := spec.Volumes[i].PersistentVolumeClaim; claim != nil && spec.Volumes[i].Name == volumeRepository {
			claim.ReadOnly = true
		}
	}
	return job, nil
}

// withMover has the only container of a pod run a mover, which comes from the agents' image.
func withMover(spec *corev1.PodSpec, image string) {
	spec.InitContainers = []corev1.Container{{
		Name: plugin.InitContainer, Image: image, Command: []string{agentImagePath, "init", "--with", path.Base(plan.OpsPath)},
		Resources: agentResources(), VolumeMounts: []corev1.VolumeMount{{Name: volumeBin, MountPath: plan.BinDir}},
	}}
	spec.Volumes = append(spec.Volumes, scratch(volumeBin, corev1.StorageMediumDefault, "128Mi"))
	spec.Containers[0].Command = []string{plan.OpsPath, "mover"}
	spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: volumeBin, MountPath: plan.BinDir, ReadOnly: true})
}

// MoverAlone returns the Job of a mover that needs nothing of an instance.
func MoverAlone(s Settings, m Mover) (*batchv1.Job, error) {
	labels := map[string]string{platformv1.ManagedByLabel: platformv1.ManagedBy, platformv1.DomainLabel: m.Domain}
	return m.complete(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: labels},
		Spec: onceWithin(m.Deadline, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			Volumes: []corev1.Volume{scratch("tmp", corev1.StorageMediumDefault, "64Mi")},
			Containers: []corev1.Container{{
				Name: MoverContainer, Image: s.AgentImage, Command: []string{opsImagePath, "mover"}, Resources: moverResources(),
				VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
			}},
		}}),
	})
}

// complete gives a Job its plan and the way to its repository.
func (m Mover) complete(job *batchv1.Job) (*batchv1.Job, error) {
	m.Plan.Repository = storeOf(m.Repository)
	text, err := json.Marshal(m.Plan)
	if err != nil {
		return nil, fmt.Errorf("cannot write the plan of a mover: %w", err)
	}
	template := &job.Spec.Template
	job.OwnerReferences = []metav1.OwnerReference{m.Owner}
	for _, meta := range []*metav1.ObjectMeta{&job.ObjectMeta, &template.ObjectMeta} {
		meta.Labels[platformv1.BackupLabel] = string(m.For)
	}
	template.Annotations = map[string]string{platformv1.MoverPlanAnnotation: string(text)}
	spec := &template.Spec
	spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(moverUser), RunAsGroup: new(moverUser), FSGroup: new(moverUser)}
	container := &spec.Containers[0]
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	mount := func(v corev1.Volume, at string) *corev1.VolumeMount {
		spec.Volumes = append(spec.Volumes, v)
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: at, ReadOnly: true})
		return &container.VolumeMounts[len(container.VolumeMounts)-1]
	}
	mount(corev1.Volume{Name: volumeMover, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
		Path:     path.Base(mover.PlanPath),
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + platformv1.MoverPlanAnnotation + "']"},
	}}}}}, path.Dir(mover.PlanPath))
	if s3 := m.Repository.Spec.S3; s3 != nil {
		mount(storeKeys(s3), mover.CredentialsPath)
	}
	if claim := claimOf(m.Repository); claim != "" {
		mount(corev1.Volume{Name: volumeRepository, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: claim,
		}}}, mover.VolumePath).ReadOnly = false
	}
	if encryption := m.Repository.Spec.Encryption; encryption != nil {
		mount(corev1.Volume{Name: volumeStorePass, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: encryption.PassphraseSecretRef.Name, DefaultMode: new(int32(secretMode)),
			Items: []corev1.KeyToPath{{Key: encryption.PassphraseSecretRef.Key, Path: path.Base(mover.KeyPath)}},
		}}}, path.Dir(mover.KeyPath))
	}
	confine(spec)
	return job, nil
}

// storeOf says where a repository is, in the words of a mover.
func storeOf(r *platformv1.BackupRepository) mover.Repository {
	store := mover.Repository{Encrypted: r.Spec.Encryption != nil}
	if s3 := r.Spec.S3; s3 != nil {
		store.Type, store.Prefix, store.Endpoint, store.Bucket = mover.TypeS3, string(s3.Prefix), s3.Endpoint, s3.Bucket
		store.Region, store.Addressing = s3.Region, string(s3.AddressingStyle)
	}
	if claim := r.Spec.PersistentVolumeClaim; claim != nil {
		store.Type, store.Prefix = mover.TypeVolume, string(claim.Prefix)
	}
	if nfs := r.Spec.NFS; nfs != nil {
		store.Type, store.Prefix = mover.TypeVolume, string(nfs.Prefix)
	}
	return store
}

// claimOf is the claim that movers mount; empty for a bucket.
func claimOf(r *platformv1.BackupRepository) string {
	switch {
	case r.Spec.NFS != nil:
		return platformv1.ShareClaimNameFor(r)
	case r.Spec.PersistentVolumeClaim != nil:
		return r.Spec.PersistentVolumeClaim.ClaimName
	}
	return ""
}

// storeKeys has what a mover shows to a store, and what it knows the store by.
func storeKeys(s3 *platformv1.S3Repository) corev1.Volume {
	sources := []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: s3.CredentialsSecretRef.Name},
		Items:                []corev1.KeyToPath{{Key: StoreAccessKey, Path: "accessKey"}, {Key: StoreSecretKey, Path: "secretKey"}},
	}}}
	if ca := s3.CASecretRef; ca != nil {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: ca.Name}, Items: []corev1.KeyToPath{{Key: ca.Key, Path: "ca.crt"}},
		}})
	}
	return corev1.Volume{Name: volumeStoreKeys, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: sources, DefaultMode: new(int32(secretMode)),
	}}}
}

// moverResources are enough for a mover and a tool of the middleware beside it.
func moverResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("96Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}
}

// onceWithin runs a pod once, whatever becomes of it, until its time is over.
func onceWithin(deadline time.Duration, template corev1.PodTemplateSpec) batchv1.JobSpec {
	return batchv1.JobSpec{
		BackoffLimit: new(int32(0)), Parallelism: new(int32(1)), Completions: new(int32(1)),
		PodReplacementPolicy:  new(batchv1.Failed),
		ActiveDeadlineSeconds: new(max(1, int64(deadline/time.Second))),
		Template:              template,
	}
}
