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
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
)

const (
	// MoverContainer is the container of a Job whose termination message is the result.
	MoverContainer = jobContainer
	// opsImagePath is the ops agent's binary in the agents' own image.
	opsImagePath = "/agent-ops"
	// moverUser is who all movers run as, whatever the middleware's image: so each can delete what another one wrote.
	moverUser = int64(mover.User)
	// restoreKept is how long a Job stays that filled a volume, or failed to: whoever asked has taken note of that long
	// before.
	restoreKept = time.Hour

	// resticBinary carries files, and is beside the agents' own binaries in their image.
	resticBinary = "restic"

	volumeMover      = podtemplate.VolumePrefix + "mover"
	volumeStoreKeys  = podtemplate.VolumePrefix + "store-keys"
	volumeStorePass  = podtemplate.VolumePrefix + "store-pass"
	volumeRepository = podtemplate.VolumePrefix + "repository"
	// volumeTarget begins the names of volumes with the credentials of a target.
	volumeTarget = podtemplate.VolumePrefix + "target-"
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
	// Repository that it works on; nil for one that works on a volume alone.
	Repository *platformv1.BackupRepository
	// Deadline until it is ended.
	Deadline time.Duration
	// From is the Backup whose data it puts somewhere; nil where it does not.
	From *platformv1.Backup
}

// MoverBeside returns the Job of a mover that takes the data of an instance: in the image of a container of a set,
// whose pods let it in, with the variables of the method.
func MoverBeside(set *platformv1.WorkloadSet, container string, s Settings, m Mover,
	env []optemplate.JobEnv) (*batchv1.Job, error) {
	job, err := jobLike(set, container, s, Job{Name: m.Name, Env: env, Resources: moverResources(), Deadline: m.Deadline})
	if err != nil {
		return nil, err
	}
	withMover(&job.Spec.Template.Spec, s.AgentImage)
	return m.complete(job, s)
}

// MoverOver returns the Job of a mover that reads the files of a pod, on the node that has its volume: as the user
// whose they are, who may write into the repository, and nothing on the volume.
func MoverOver(set *platformv1.WorkloadSet, container string, s Settings, pod *corev1.Pod,
	m Mover) (*batchv1.Job, error) {
	job, err := jobLike(set, container, s,
		Job{Name: m.Name, Pod: pod.Name, Resources: moverResources(), Deadline: m.Deadline})
	if err != nil {
		return nil, err
	}
	spec := &job.Spec.Template.Spec
	for i := range spec.Volumes {
		if claim := spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			claim.ReadOnly = true
		}
	}
	withMover(spec, s.AgentImage)
	own := spec.SecurityContext.DeepCopy()
	if job, err = m.complete(job, s); err != nil {
		return nil, err
	}
	// A volume of the repository belongs to the group of all movers, whoever mounts it.
	if own.FSGroup != nil {
		own.SupplementalGroups = append(own.SupplementalGroups, *own.FSGroup)
	}
	own.FSGroup = new(moverUser)
	spec.SecurityContext = own
	onNode(spec, pod.Spec.NodeName)
	return job, nil
}

// onNode has a pod run on one node, and nowhere else.
func onNode(spec *corev1.PodSpec, node string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	spec.Affinity.NodeAffinity = &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}
}

// MoverInto returns the Job of a mover that fills the volumes of the first pod of a set as that says: as the user whose
// files they are to be, who may read what is in the repository and nothing else there.
func MoverInto(set *platformv1.WorkloadSet, s Settings, m Mover) (*batchv1.Job, error) {
	restore, ordinals := set.Spec.Restore, set.Spec.Ordinals()
	if restore == nil || len(ordinals) == 0 {
		return nil, fmt.Errorf("nothing is to be restored into %s", set.Name)
	}
	first := platformv1.PodNameFor(set.Name, ordinals[0])
	job, err := moverLike(set, s, Job{Name: m.Name, Pod: first, Deadline: m.Deadline})
	if err != nil {
		return nil, err
	}
	spec := &job.Spec.Template.Spec
	m.Plan.Command, m.Plan.Volume = restore.Command,
		&mover.TargetVolume{Folder: restore.Folder, ID: string(restore.From.UID)}
	own := spec.SecurityContext.DeepCopy()
	if job, err = m.complete(job, s); err != nil {
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
	withLogs(spec, restore)
	return job, nil
}

// MoverThrough returns the Job of a mover that puts the objects of a Backup into the servers of a set, as a client of
// them.
func MoverThrough(set *platformv1.WorkloadSet, s Settings, m Mover) (*batchv1.Job, error) {
	job, err := moverLike(set, s, Job{Name: m.Name, Deadline: m.Deadline})
	if err != nil {
		return nil, err
	}
	m.Plan.Objects = &mover.Objects{}
	job.Spec.TTLSecondsAfterFinished = new(int32(restoreKept / time.Second))
	return m.complete(job, s)
}

// moverLike is a Job like the container of a set that says how it is restored, with a mover of the agents that the set
// has.
func moverLike(set *platformv1.WorkloadSet, s Settings, like Job) (*batchv1.Job, error) {
	pod, err := Pod(set, set.Spec.Ordinals()[0])
	if err != nil {
		return nil, err
	}
	agent := slices.IndexFunc(pod.Spec.InitContainers,
		func(c corev1.Container) bool { return c.Name == podtemplate.InitContainer })
	if agent < 0 {
		return nil, fmt.Errorf("the pods of %s have no container %q", set.Name, podtemplate.InitContainer)
	}
	for _, variable := range set.Spec.Restore.Env {
		env := optemplate.JobEnv{Name: variable.Name, Value: variable.Value}
		if variable.Credential != "" {
			env.Secret = &plan.SecretRef{Credential: variable.Credential, Key: variable.Key}
		}
		like.Env = append(like.Env, env)
	}
	like.Resources = moverResources()
	job, err := jobLike(set, set.Spec.Restore.Container, s, like)
	if err != nil {
		return nil, err
	}
	withMover(&job.Spec.Template.Spec, pod.Spec.InitContainers[agent].Image)
	return job, nil
}

// withMover has the only container of a pod run a mover, which comes from the agents' image.
func withMover(spec *corev1.PodSpec, image string) {
	spec.InitContainers = []corev1.Container{{
		Name: podtemplate.InitContainer, Image: image,
		Command:   []string{agentImagePath, "init", "--with", path.Base(plan.OpsPath)},
		Resources: agentResources(), VolumeMounts: []corev1.VolumeMount{{Name: volumeBin, MountPath: plan.BinDir}},
	}}
	spec.Volumes = append(spec.Volumes, scratch(volumeBin, corev1.StorageMediumDefault, "128Mi"))
	spec.Containers[0].Command = []string{plan.OpsPath, "mover"}
	spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: volumeBin, MountPath: plan.BinDir, ReadOnly: true})
}

// MoverAlone returns the Job of a mover that needs nothing of an instance.
func MoverAlone(s Settings, m Mover) (*batchv1.Job, error) {
	labels := map[string]string{platformv1.ManagedByLabel: platformv1.ManagedBy, platformv1.DomainLabel: m.Domain}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: labels},
		Spec: onceWithin(m.Deadline, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
				Volumes: []corev1.Volume{scratch("tmp", corev1.StorageMediumDefault, "64Mi")},
				Containers: []corev1.Container{{
					Name: MoverContainer, Image: s.AgentImage, Command: []string{opsImagePath, "mover"}, Resources: moverResources(),
					VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
				}},
			}}),
	}
	return m.complete(job, s)
}

// complete gives a Job its plan, the way to its repository, and what the settings give every pod.
func (m Mover) complete(job *batchv1.Job, s Settings) (*batchv1.Job, error) {
	if m.Repository != nil {
		m.Plan.Repository = storeOf(m.Repository)
	}
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
	for i := range spec.InitContainers {
		if m.Plan.Files != nil {
			spec.InitContainers[i].Command = append(spec.InitContainers[i].Command, "--with", resticBinary)
		}
	}
	if m.Plan.Files != nil && m.Plan.Verb != mover.VerbRestore {
		// restic knows by the name of its host that a lock is of a pod that was there before: those that write for one Backup
		// follow each other.
		spec.Hostname = "mover-" + string(m.For)
	}
	spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(moverUser), RunAsGroup: new(moverUser),
		FSGroup: new(moverUser)}
	container := &spec.Containers[0]
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	mount := func(v corev1.Volume, at string) *corev1.VolumeMount {
		spec.Volumes = append(spec.Volumes, v)
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: v.Name, MountPath: at, ReadOnly: true})
		return &container.VolumeMounts[len(container.VolumeMounts)-1]
	}
	mount(corev1.Volume{Name: volumeMover,
		VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path: path.Base(mover.PlanPath),
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" +
				platformv1.MoverPlanAnnotation + "']"},
		}}}}}, path.Dir(mover.PlanPath))
	if m.Repository != nil {
		m.reach(spec, mount)
	}
	confine(spec)
	s.Pods.completeJob(template)
	return job, nil
}

// reach mounts what leads to the repository.
func (m Mover) reach(spec *corev1.PodSpec, mount func(v corev1.Volume, at string) *corev1.VolumeMount) {
	if s3 := m.Repository.Spec.S3; s3 != nil {
		mount(storeKeys(s3), mover.CredentialsPath)
	}
	if claim := m.Repository.ClaimName(); claim != "" {
		mount(claimed(volumeRepository, claim), mover.VolumePath).ReadOnly = false
		preferNear(spec, m.Repository.Name)
	}
	if encryption := m.Repository.Spec.Encryption; encryption != nil {
		mount(corev1.Volume{Name: volumeStorePass, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: encryption.PassphraseSecretRef.Name, DefaultMode: new(int32(secretMode)),
			Items: []corev1.KeyToPath{{Key: encryption.PassphraseSecretRef.Key, Path: path.Base(mover.KeyPath)}},
		}}}, path.Dir(mover.KeyPath))
	}
}

// storeOf says where a repository is, in the words of a mover.
func storeOf(r *platformv1.BackupRepository) mover.Repository {
	store := mover.Repository{Type: mover.TypeVolume, Prefix: string(r.Spec.Prefix()), Encrypted: r.Spec.Encryption != nil}
	if s3 := r.Spec.S3; s3 != nil {
		store.Type, store.Endpoint, store.Bucket = mover.TypeS3, s3.Endpoint, s3.Bucket
		store.Region, store.Addressing = s3.Region, string(s3.AddressingStyle)
	}
	return store
}

// storeKeys has what a mover shows to a store, and what it knows the store by.
func storeKeys(s3 *platformv1.S3Repository) corev1.Volume {
	sources := []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: s3.CredentialsSecretRef.Name},
		Items: []corev1.KeyToPath{{Key: platformv1.StoreAccessKey, Path: "accessKey"},
			{Key: platformv1.StoreSecretKey, Path: "secretKey"}},
	}}}
	if ca := s3.CASecretRef; ca != nil {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: ca.Name},
			Items:                []corev1.KeyToPath{{Key: ca.Key, Path: "ca.crt"}},
		}})
	}
	return corev1.Volume{Name: volumeStoreKeys, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: sources, DefaultMode: new(int32(secretMode)),
	}}}
}

// moverResources are enough for a mover and a tool of the middleware beside it.
func moverResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"),
			corev1.ResourceMemory: resource.MustParse("96Mi")},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
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
