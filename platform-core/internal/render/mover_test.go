// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

func bucket() *platformv1.BackupRepository {
	return &platformv1.BackupRepository{Spec: platformv1.BackupRepositorySpec{
		S3: &platformv1.S3Repository{Endpoint: "https://s3.example.com", Bucket: "backups", Prefix: "a/b", Region: "eu-1",
			AddressingStyle:      platformv1.AddressingVirtualHost,
			CredentialsSecretRef: platformv1.SecretReference{Name: "keys"},
			CASecretRef:          &platformv1.AuthorityReference{Name: "ca", Key: "ca.pem"}},
		Encryption: &platformv1.BackupEncryption{
			PassphraseSecretRef: platformv1.PassphraseReference{Name: "words", Key: "passphrase"}},
	}}
}

// mounted is where each volume of the only container is, by name.
func mounted(job *batchv1.Job) map[string]corev1.VolumeMount {
	mounts := map[string]corev1.VolumeMount{}
	for _, mount := range job.Spec.Template.Spec.Containers[0].VolumeMounts {
		mounts[mount.MountPath] = mount
	}
	return mounts
}

func planOfMover(t *testing.T, job *batchv1.Job) mover.Plan {
	t.Helper()
	var p mover.Plan
	if err := json.Unmarshal([]byte(job.Spec.Template.Annotations[platformv1.MoverPlanAnnotation]), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// A mover beside an instance has its image and is let in, has passwords by reference alone, and runs as itself.
func TestMoverBeside(t *testing.T) {
	spec, _ := render(t, redis(t), settings, application(func(*platformv1.Application) {}))
	set := spec.DeepCopy()
	set.Name, set.Namespace, set.Labels = "cache-redis-main", "shop", map[string]string{platformv1.DomainLabel: "database"}
	job, err := MoverBeside(set, "redis", settings,
		Mover{Namespace: "shop", Name: "mover-1", Domain: "database", For: "uid", Repository: bucket(), Deadline: time.Minute,
			Plan: mover.Plan{Verb: mover.VerbBackup, Command: []string{"redis-cli"},
				Backup: &mover.Backup{Key: "shop/cache/x"}}},
		[]optemplate.JobEnv{{Name: "REDISCLI_AUTH", Secret: &plan.SecretRef{Credential: "default", Key: "password"}}})
	if err != nil {
		t.Fatal(err)
	}
	pod, container := job.Spec.Template.Spec, job.Spec.Template.Spec.Containers[0]
	if *job.Spec.BackoffLimit != 0 || *job.Spec.ActiveDeadlineSeconds != 60 ||
		!slices.Equal(container.Command, []string{plan.OpsPath, "mover"}) ||
		pod.InitContainers[0].Image != settings.AgentImage {
		t.Errorf("the job is %+v", job.Spec)
	}
	labels := job.Spec.Template.Labels
	if labels[platformv1.ApplicationLabel] != "cache" || labels[platformv1.BackupLabel] != "uid" ||
		labels[platformv1.ComponentLabel] != "" {
		t.Errorf("the labels are %v", labels)
	}
	if *pod.SecurityContext.RunAsUser != moverUser || *pod.SecurityContext.FSGroup != moverUser ||
		!*pod.SecurityContext.RunAsNonRoot || *pod.AutomountServiceAccountToken ||
		!*container.SecurityContext.ReadOnlyRootFilesystem ||
		*pod.InitContainers[0].SecurityContext.AllowPrivilegeEscalation {
		t.Errorf("the pod is not confined: %+v", pod)
	}
	p := planOfMover(t, job)
	if want := (mover.Repository{Type: mover.TypeS3, Prefix: "a/b", Endpoint: "https://s3.example.com", Bucket: "backups",
		Region: "eu-1", Addressing: "VirtualHost", Encrypted: true}); p.Repository != want || p.Backup.Key != "shop/cache/x" {
		t.Errorf("the plan is %+v", p)
	}
	mounts := mounted(job)
	for _, path := range []string{"/zeroinfra/mover", mover.CredentialsPath, "/zeroinfra/repository/key", plan.BinDir} {
		if !mounts[path].ReadOnly {
			t.Errorf("what is at %s is %+v", path, mounts[path])
		}
	}
	text, err := json.Marshal(job)
	if err != nil || strings.Contains(string(text), "hostPath") {
		t.Errorf("the job is %s: %v", text, err)
	}
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == volumeStoreKeys })
	sources := pod.Volumes[i].Projected.Sources
	if len(sources) != 2 || sources[0].Secret.Name != "keys" ||
		sources[1].Secret.Items[0] != (corev1.KeyToPath{Key: "ca.pem", Path: "ca.crt"}) {
		t.Errorf("the keys are %+v", sources)
	}
}

// A mover that reads files is where they are, is who they are of, and writes nothing there.
func TestMoverOver(t *testing.T) {
	spec, _ := render(t, redis(t), settings, application(func(*platformv1.Application) {}))
	set := spec.DeepCopy()
	set.Name, set.Namespace, set.Labels = "cache-redis-main", "shop", map[string]string{platformv1.DomainLabel: "database"}
	m := Mover{Namespace: "shop", Name: "backup-1", Domain: "database", For: "uid", Deadline: time.Minute,
		Plan: mover.Plan{Verb: mover.VerbBackup, Files: &mover.Files{Folder: "/data"},
			Backup: &mover.Backup{Key: "shop/cache/x"}},
		Repository: &platformv1.BackupRepository{
			Spec: platformv1.BackupRepositorySpec{
				PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "disk", Prefix: "p"}}}}
	job, err := MoverOver(set, "redis", settings,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "cache-redis-main-0"}, Spec: corev1.PodSpec{NodeName: "node-2"}}, m)
	if err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec
	user := pod.SecurityContext
	if *user.RunAsUser != 999 || *user.FSGroup != moverUser || !slices.Equal(user.SupplementalGroups, []int64{999}) ||
		!*user.RunAsNonRoot || user.SeccompProfile == nil {
		t.Errorf("it runs as %+v", user)
	}
	for _, volume := range pod.Volumes {
		if claim := volume.PersistentVolumeClaim; claim != nil && (volume.Name == volumeRepository) == claim.ReadOnly {
			t.Errorf("volume %s is %+v", volume.Name, claim)
		}
	}
	if mounts := mounted(job); mounts["/data"].Name == "" || mounts[mover.VolumePath].Name == "" {
		t.Errorf("the mounts are %+v", mounts)
	}
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || terms[0].MatchFields[0].Values[0] != "node-2" || pod.Hostname != "mover-uid" ||
		!slices.Contains(pod.InitContainers[0].Command, "restic") {
		t.Errorf("the pod is %+v", pod)
	}
	if _, err := MoverOver(set, "redis", settings, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "another-0"}},
		m); err == nil {
		t.Error("a pod of another set has a mover")
	}
}

// A mover into a volume writes as the middleware does, and may read what is in the repository.
func TestMoverInto(t *testing.T) {
	spec, _ := render(t, redis(t), settings, application(func(*platformv1.Application) {}))
	set := spec.DeepCopy()
	set.Name, set.Namespace, set.Labels = "cache-redis-main", "shop", map[string]string{platformv1.DomainLabel: "database"}
	m := Mover{Namespace: "shop", Name: "restore-1", Domain: "database", For: "uid", Deadline: time.Minute,
		Plan: mover.Plan{Verb: mover.VerbRestore, Backup: &mover.Backup{Key: "shop/cache/x"}},
		Repository: &platformv1.BackupRepository{
			Spec: platformv1.BackupRepositorySpec{
				PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "disk", Prefix: "p"}}}}
	if _, err := MoverInto(set, settings, m); err == nil {
		t.Error("a set that begins with nothing has a mover")
	}
	set.Spec.Restore = &platformv1.SetRestore{
		From: platformv1.ComponentRestore{Backup: "x", UID: "backup-uid", Method: "rdb"}, Container: "redis", Folder: "/data",
		Command: []string{"load"}, Env: []platformv1.RestoreVariable{{Name: "A", Value: "b"}}}
	job, err := MoverInto(set, settings, m)
	if err != nil {
		t.Fatal(err)
	}
	pod, container := job.Spec.Template.Spec, job.Spec.Template.Spec.Containers[0]
	user := pod.SecurityContext
	if *user.RunAsUser != 999 || *user.FSGroup != 999 || !slices.Equal(user.SupplementalGroups, []int64{moverUser}) ||
		!*user.RunAsNonRoot || user.SeccompProfile == nil {
		t.Errorf("it runs as %+v", user)
	}
	mounts := mounted(job)
	if mounts["/data"].ReadOnly || mounts["/data"].Name == "" || mounts[mover.VolumePath].Name == "" ||
		*job.Spec.TTLSecondsAfterFinished != 3600 {
		t.Errorf("the mounts are %+v", mounts)
	}
	for _, volume := range pod.Volumes {
		claim := volume.PersistentVolumeClaim
		if claim != nil && (volume.Name == volumeRepository) != claim.ReadOnly || claim != nil && !claim.ReadOnly &&
			claim.ClaimName != "data-cache-redis-main-0" {
			t.Errorf("volume %s is %+v", volume.Name, claim)
		}
	}
	if p := planOfMover(t, job); *p.Volume != (mover.TargetVolume{Folder: "/data", ID: "backup-uid"}) ||
		!slices.Equal(p.Command, []string{"load"}) || pod.InitContainers[0].Image != settings.AgentImage ||
		!slices.Contains(container.Env, corev1.EnvVar{Name: "A", Value: "b"}) {
		t.Errorf("the plan is %+v, the pod %+v", p, pod)
	}
}

// A mover that puts objects into servers is a client of these, and has no volume of them.
func TestMoverThrough(t *testing.T) {
	spec, _ := render(t, redis(t), settings, application(func(*platformv1.Application) {}))
	set := spec.DeepCopy()
	set.Name, set.Namespace, set.Labels = "cache-redis-main", "shop", map[string]string{platformv1.DomainLabel: "database"}
	set.Spec.Restore = &platformv1.SetRestore{
		From: platformv1.ComponentRestore{Backup: "x", UID: "backup-uid", Method: "objects"}, Container: "redis",
		Destination: platformv1.RestoreToServers,
		Env: []platformv1.RestoreVariable{{Name: mover.ObjectsEndpoint, Value: "http://x"},
			{Name: mover.ObjectsSecretKey, Credential: "default", Key: "password"}}}
	job, err := MoverThrough(set, settings,
		Mover{Namespace: "shop", Name: "restore-1", Domain: "database", For: "uid", Deadline: time.Minute,
			Repository: bucket(),
			Plan:       mover.Plan{Verb: mover.VerbRestore, Backup: &mover.Backup{Key: "shop/cache/x"}}})
	if err != nil {
		t.Fatal(err)
	}
	pod, p := job.Spec.Template.Spec, planOfMover(t, job)
	for _, volume := range pod.Volumes {
		if volume.PersistentVolumeClaim != nil {
			t.Errorf("it has the volume %s", volume.Name)
		}
	}
	env := pod.Containers[0].Env
	if p.Objects == nil || len(p.Command) > 0 || p.Volume != nil || len(env) < 2 || env[0].Value != "http://x" ||
		env[1].ValueFrom.SecretKeyRef.Key != "password" || *pod.SecurityContext.RunAsUser != moverUser {
		t.Errorf("the plan is %+v, the environment %+v", p, env)
	}
}

// A mover that goes on to a point in time is told of it, and has the keys of the place with the logs.
func TestMoverToAPointInTime(t *testing.T) {
	spec, _ := render(t, redis(t), settings, application(func(*platformv1.Application) {}))
	set := spec.DeepCopy()
	set.Name, set.Namespace, set.Labels = "cache-redis-main", "shop", map[string]string{platformv1.DomainLabel: "database"}
	target := &platformv1.RestoreTarget{Time: "2026-02-03T12:00:00.5+01:00",
		Parameters: map[string]platformv1.ParameterValue{"bucket": "log"},
		Credentials: []platformv1.Credential{{Name: "log", PasswordFrom: platformv1.SecretKeyReference{Name: "keys"}},
			{Name: "ca", PasswordFrom: platformv1.SecretKeyReference{Name: "keys", Key: "ca.crt"}}}}
	set.Spec.Restore = &platformv1.SetRestore{
		From: platformv1.ComponentRestore{Backup: "x", UID: "backup-uid", Method: "rdb", Target: target}, Container: "redis",
		Folder: "/data", Command: []string{"load"}}
	from := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x"},
		Spec:   platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: "cache"}},
		Status: platformv1.BackupStatus{Facts: map[string]string{"timeline": "3"}}}
	m := Mover{Namespace: "shop", Name: "restore-1", Domain: "database", For: "uid", Deadline: time.Minute,
		Plan: mover.Plan{Verb: mover.VerbRestore, Backup: &mover.Backup{Key: "shop/cache/x"}}, From: from,
		Repository: &platformv1.BackupRepository{
			Spec: platformv1.BackupRepositorySpec{PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "disk"}}}}
	if _, err := MoverInto(set, settings, m); err == nil {
		t.Error("nobody knows when the Backup was whole, and there is a mover")
	}
	from.Status.CompletionTime = new(metav1.Date(2026, 2, 3, 5, 0, 0, 0, time.UTC))
	job, err := MoverInto(set, settings, m)
	if err != nil {
		t.Fatal(err)
	}
	container := job.Spec.Template.Spec.Containers[0]
	i := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == mover.TargetEnv })
	const want = `{"time":"2026-02-03T11:00:00.5Z","since":"2026-02-03T05:00:00Z","place":"shop/cache",` +
		`"parameters":{"bucket":"log"},"facts":{"timeline":"3"}}`
	if i < 0 || container.Env[i].Value != want {
		t.Errorf("its environment is %+v, want %s", container.Env, want)
	}
	mounts := mounted(job)
	for credential, key := range map[string]string{"log": "password", "ca": "ca.crt"} {
		mount := mounts[plan.SecretsDir+"/"+credential]
		j := slices.IndexFunc(job.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if j < 0 || !mount.ReadOnly {
			t.Fatalf("what is mounted is %+v", mounts)
		}
		if source := job.Spec.Template.Spec.Volumes[j].Secret; source.SecretName != "keys" ||
			source.Items[0] != (corev1.KeyToPath{Key: key, Path: "password"}) {
			t.Errorf("the key %s is %+v", credential, source)
		}
	}
}

// A mover alone has the agents' own image, and writes to a volume.
func TestMoverAlone(t *testing.T) {
	repository := &platformv1.BackupRepository{
		Spec: platformv1.BackupRepositorySpec{
			PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "disk", Prefix: "p"}}}
	job, err := MoverAlone(settings, Mover{Namespace: "shop", Name: "check-1", Domain: "database", For: "uid",
		Repository: repository, Deadline: time.Minute, Plan: mover.Plan{Verb: mover.VerbCheck}})
	if err != nil {
		t.Fatal(err)
	}
	container := job.Spec.Template.Spec.Containers[0]
	if container.Image != settings.AgentImage || container.Command[0] != "/agent-ops" ||
		len(job.Spec.Template.Spec.InitContainers) != 0 || job.Labels[platformv1.DomainLabel] != "database" {
		t.Errorf("the pod is %+v", job.Spec.Template)
	}
	if mount, ok := mounted(job)[mover.VolumePath]; !ok || mount.ReadOnly {
		t.Errorf("the volume is mounted as %+v", mount)
	}
	if p := planOfMover(t, job); p.Verb != mover.VerbCheck ||
		p.Repository != (mover.Repository{Type: mover.TypeVolume, Prefix: "p"}) {
		t.Errorf("the plan is %+v", p)
	}
}

// A repository on NFS is a claim for a mover, bound to the one volume of that server.
func TestShare(t *testing.T) {
	r := &platformv1.BackupRepository{Spec: platformv1.BackupRepositorySpec{
		NFS: &platformv1.NFSRepository{Server: "nfs.example.com", Path: "/export", Prefix: "p"}}}
	r.Namespace, r.Name, r.UID = "shop", "share", "uid"
	job, err := MoverAlone(settings, Mover{Namespace: "shop", Name: "check-1", Domain: "database", For: "uid",
		Repository: r, Deadline: time.Minute, Plan: mover.Plan{Verb: mover.VerbCheck}})
	if err != nil {
		t.Fatal(err)
	}
	volumes := job.Spec.Template.Spec.Volumes
	if i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == volumeRepository }); i < 0 ||
		volumes[i].PersistentVolumeClaim.ClaimName != "share-nfs" {
		t.Errorf("the volumes are %+v", volumes)
	}
	if p := planOfMover(t, job); p.Repository != (mover.Repository{Type: mover.TypeVolume, Prefix: "p"}) {
		t.Errorf("the plan is %+v", p)
	}
	volume, claim := Share(r, metav1.OwnerReference{Name: "share"})
	if volume.Spec.NFS.Path != "/export" || volume.Spec.ClaimRef.Name != claim.Name ||
		volume.Spec.ClaimRef.Namespace != "shop" || volume.Spec.StorageClassName != "" ||
		volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("the volume is %+v", volume.Spec)
	}
	if claim.Spec.VolumeName != volume.Name || *claim.Spec.StorageClassName != "" || len(claim.OwnerReferences) != 1 {
		t.Errorf("the claim is %+v", claim)
	}
}
