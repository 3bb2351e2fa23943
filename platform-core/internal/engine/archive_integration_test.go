// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// archives is the version of the plugin redis whose servers archive.
const archives = "3.6.0"

// archiving makes a namespace with a repository on a volume of one node, and installs a plugin that archives and
// restores by what was archived.
func archiving(t *testing.T) (namespace string, played *jobs) {
	t.Helper()
	derived(t, archives, "", func(parts map[string]map[string]string) {
		replaced(t, parts, "components", "components.yaml", "\n    backups:\n", `
    archive:
      parameters: {volume: log.volume, folder: log.folder, bucket: log.bucket, endpoint: log.endpoint}
      credentials: {accessKey: account, secretKey: key}
    backups:
`)
		withoutRestore(t, parts)
		replaced(t, parts, "components", "components.yaml", "        facts:\n", `        restore:
          folder: /data
          command: [sh, -c, "cat >dump.rdb"]
          target:
            parameters:
              log.bucket: {schema: string, description: where the log is}
            credentials: [{name: key}]
        facts:
`)
		replaced(t, parts, "components", "components.yaml", "\ncredentials:\n", "\ncredentials:\n  - {name: account, "+
			"username: log, supplied: true}\n  - {name: key, username: log, supplied: true}\n")
		replaced(t, parts, "components", "components.yaml", "\n    credentials: [default, sentinel]\n",
			"\n    credentials: [default, sentinel, account, key]\n")
		parts["params"]["redis.cue"] += `
#Parameters: {
	"log.volume"?:   string
	"log.folder"?:   =~"^[a-z0-9/_-]{1,100}$" @allowed("a folder of at most 100 small letters")
	"log.bucket"?:   string
	"log.endpoint"?: string
}
`
	})
	return keeping(t)
}

// archived makes an instance that archives in a repository.
func archived(t *testing.T, namespace, name, in string,
	changes ...func(*platformv1.ApplicationSpec)) *platformv1.Application {
	t.Helper()
	app := application(namespace)
	app.Name, app.Spec.PluginVersion = name, archives
	app.Spec.Archive = &platformv1.Archive{RepositoryRef: platformv1.RepositoryReference{Name: in}}
	for _, change := range changes {
		change(&app.Spec)
	}
	create(t, app)
	return app
}

// found waits until an instance says whether its repository is there.
func found(t *testing.T, app *platformv1.Application, status metav1.ConditionStatus, reason, says string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, platformv1.ArchiveFoundCondition+" "+reason, func() error {
		c := meta.FindStatusCondition(app.Status.Conditions, platformv1.ArchiveFoundCondition)
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Errorf("it says %+v", app.Status.Conditions)
		}
		return nil
	})
}

// archiveOf is the claim that a pod keeps its archive on; empty for none.
func archiveOf(pod *corev1.Pod) string {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == render.ArchiveVolume })
	if i < 0 {
		return ""
	}
	return pod.Spec.Volumes[i].PersistentVolumeClaim.ClaimName
}

// An instance waits for its repository, archives on its volume, goes on without it, and has another pod only where it
// archives elsewhere.
func TestArchiveInARepository(t *testing.T) {
	namespace, _ := archiving(t)
	run(t, -1)
	app := archived(t, namespace, "redis-a", "late")
	held(t, app, platformv1.ReasonRepositoryNotFound, `there is no BackupRepository "late" in namespace "`+namespace+`"`)
	found(t, app, metav1.ConditionFalse, platformv1.ReasonRepositoryNotFound, "create it there")
	late := repository(t, namespace, "late",
		platformv1.BackupRepositorySpec{PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "disk", Prefix: "p"}})
	testkit.WaitForReady(t, env.Client, app)
	folder := "p/_archive/" + namespace + "/redis-a"
	found(t, app, metav1.ConditionTrue, platformv1.ReasonArchiveFound, folder)
	pod := podOf(t, app)
	if archiveOf(pod) != "disk" || pod.Labels[platformv1.ArchiveLabel] != "late" ||
		*pod.Spec.SecurityContext.FSGroup != mover.User {
		t.Errorf("the pod is %+v", pod.Spec)
	}
	if text := planText(t, app); !strings.Contains(text, folder) || !strings.Contains(text, plan.ArchiveDir) {
		t.Errorf("its plan is %s", text)
	}
	if err := env.Client.Delete(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	found(t, app, metav1.ConditionFalse, platformv1.ReasonRepositoryNotFound,
		"the pods archive as they did, in the folder "+folder)
	testkit.WaitForReady(t, env.Client, app)
	repository(t, namespace, "late", late.Spec)
	found(t, app, metav1.ConditionTrue, platformv1.ReasonArchiveFound, folder)
	if now := podOf(t, app); now.UID != pod.UID {
		t.Error("a repository that was gone for a while cost a pod")
	}
	refresh(t, app)
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Archive = nil })
	testkit.WaitForReady(t, env.Client, app)
	if now := podOf(t, app); now.UID == pod.UID || archiveOf(now) != "" ||
		meta.FindStatusCondition(app.Status.Conditions, platformv1.ArchiveFoundCondition) != nil {
		t.Errorf("without an archive the pod has %q, and the instance says %+v", archiveOf(now), app.Status.Conditions)
	}
}

// planText is the plan of the only set of an instance.
func planText(t *testing.T, app *platformv1.Application) string {
	t.Helper()
	set := setOf(app)
	refresh(t, set)
	return string(set.Spec.Plan.Raw)
}

// What cannot be is said with what to do, and what runs is left as it is.
func TestArchiveIsRefused(t *testing.T) {
	namespace, _ := archiving(t)
	run(t, -1)
	secret := platformv1.BackupEncryption{
		PassphraseSecretRef: platformv1.PassphraseReference{Name: "secret", Key: "passphrase"}}
	repository(t, namespace, "encrypted",
		platformv1.BackupRepositorySpec{PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "disk"},
			Encryption: &secret})
	repository(t, namespace, "deep", platformv1.BackupRepositorySpec{
		PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "disk",
			Prefix: platformv1.RepositoryPrefix(strings.Repeat("a", 90))}})
	parameters := func(p platformv1.Parameters) func(*platformv1.ApplicationSpec) {
		return func(s *platformv1.ApplicationSpec) {
			s.Components = []platformv1.ApplicationComponent{{Name: "redis", Parameters: p}}
		}
	}
	for name, tc := range map[string]struct {
		in, reason, says string
		change           func(*platformv1.ApplicationSpec)
	}{
		"encrypted": {"encrypted", platformv1.ReasonArchiveRefused, "name one without encryption", nil},
		"deep":      {"deep", platformv1.ReasonArchiveRefused, `parameter "log.folder" has value`, nil},
		"replicas": {"store", platformv1.ReasonArchiveRefused, "it is to have 3 pods, which run on several",
			func(s *platformv1.ApplicationSpec) { s.Topology = "replication" }},
		"twice": {"store", platformv1.ReasonInvalidSpec,
			`parameter "log.bucket" says where the archive is, and archive.repositoryRef does so, too`,
			parameters(platformv1.Parameters{"log.bucket": "x"})},
		"by-hand": {"store", platformv1.ReasonInvalidParameters,
			`parameter "log.volume" cannot be set: it is set by the engine`,
			parameters(platformv1.Parameters{"log.volume": "/x"})},
		"former": {"store", platformv1.ReasonInvalidSpec, "keeps no archive in a BackupRepository",
			func(s *platformv1.ApplicationSpec) { s.PluginVersion = "1.0.0" }},
	} {
		app := archived(t, namespace, name, tc.in, func(s *platformv1.ApplicationSpec) {
			if tc.change != nil {
				tc.change(s)
			}
		})
		held(t, app, tc.reason, tc.says)
	}
	runs := archived(t, namespace, "redis-a", "store")
	testkit.WaitForReady(t, env.Client, runs)
	pod := podOf(t, runs)
	change(t, runs, func(s *platformv1.ApplicationSpec) { s.Archive.RepositoryRef.Name = "encrypted" })
	found(t, runs, metav1.ConditionFalse, platformv1.ReasonArchiveRefused, "name one without encryption")
	if now := podOf(t, runs); now.UID != pod.UID {
		t.Error("a repository that is refused cost a pod")
	}
}

// A share stays as long as a pod has its volume, whoever deletes its repository.
func TestArchiveOnNFS(t *testing.T) {
	namespace, _ := archiving(t)
	run(t, -1)
	r := repository(t, namespace, "share",
		platformv1.BackupRepositorySpec{NFS: &platformv1.NFSRepository{Server: "nfs.example.com", Path: "/export"}})
	app := archived(t, namespace, "redis-a", "share")
	testkit.WaitForReady(t, env.Client, app)
	if claim := archiveOf(podOf(t, app)); claim != "share-nfs" {
		t.Errorf("its pods archive on %q", claim)
	}
	if err := env.Client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	repositoryIs(t, namespace, "share", metav1.ConditionFalse, "the pods of Application redis-a have its volume")
	found(t, app, metav1.ConditionFalse, platformv1.ReasonRepositoryNotFound, "is being deleted")
	refresh(t, app)
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Archive = nil })
	testkit.WaitForReady(t, env.Client, app)
	testkit.WaitGone(t, env.Client, r)
}

// The keys of a bucket are copied for the pods, and waited for.
func TestArchiveInABucket(t *testing.T) {
	namespace, _ := archiving(t)
	run(t, -1)
	repository(t, namespace, "bucket", platformv1.BackupRepositorySpec{
		S3: &platformv1.S3Repository{Endpoint: "https://s3.example.com", Bucket: "logs",
			CredentialsSecretRef: platformv1.SecretReference{Name: "bucket-keys"}}})
	app := archived(t, namespace, "redis-a", "bucket")
	held(t, app, platformv1.ReasonSecretNotFound, `Secret "bucket-keys"`)
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bucket-keys"},
		StringData: map[string]string{platformv1.StoreAccessKey: "me", platformv1.StoreSecretKey: "mine"}})
	testkit.WaitForReady(t, env.Client, app)
	for credential, key := range map[string]string{"account": "me", "key": "mine"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: platformv1.CredentialNameFor(app.Name, credential)}}
		if refresh(t, secret); string(secret.Data["password"]) != key {
			t.Errorf("credential %s is %q", credential, secret.Data["password"])
		}
	}
	if text := planText(t, app); !strings.Contains(text, "https://s3.example.com") || archiveOf(podOf(t, app)) != "" {
		t.Errorf("its plan is %s", text)
	}
}

// fillerOf is the pod of the mover that filled the volume of an instance.
func fillerOf(t *testing.T, played *jobs, app *platformv1.Application) corev1.PodSpec {
	t.Helper()
	for _, job := range played.verbs(t, mover.VerbRestore) {
		if slices.ContainsFunc(job.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "data-"+app.Name+"-redis-main-0"
		}) {
			return job.Spec.Template.Spec
		}
	}
	t.Fatalf("no mover filled the volume of %s", app.Name)
	return corev1.PodSpec{}
}

// A mover finds the logs on the volume of the repository that the target names.
func TestRestoreByAnArchive(t *testing.T) {
	namespace, played := archiving(t)
	t.Cleanup(func() { played.moves = nil })
	run(t, -1)
	app := archived(t, namespace, "redis-a", "store")
	testkit.WaitForReady(t, env.Client, app)
	ends(t, operate(t, app, "nightly", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	backup := backupIs(t, namespace, "nightly-backup", platformv1.BackupCompleted)
	create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}})
	repository(t, namespace, "other", platformv1.BackupRepositorySpec{
		PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "other"}})
	at := time.Now().Add(time.Second).UTC().Format(time.RFC3339)
	for in, folder := range map[string]string{"store": "p/_archive/", "other": "_archive/"} {
		again := application(namespace)
		again.Name, again.Spec.PluginVersion = "from-"+in, archives
		again.Spec.RestoreFrom = &platformv1.RestoreFrom{Backup: backup.Name,
			Target: &platformv1.RestoreTarget{Time: at, RepositoryRef: &platformv1.RepositoryReference{Name: in}}}
		create(t, again)
		begun(t, again, backup)
		pod := fillerOf(t, played, again)
		env, claim := pod.Containers[0].Env, map[string]string{"store": "disk", "other": "other"}[in]
		if !slices.ContainsFunc(env, func(e corev1.EnvVar) bool {
			return e.Name == mover.TargetEnv && strings.Contains(e.Value, folder+namespace+"/redis-a") &&
				strings.Contains(e.Value, plan.ArchiveDir)
		}) {
			t.Errorf("the mover is told %+v", env)
		}
		mount := pod.Containers[0].VolumeMounts[slices.IndexFunc(pod.Containers[0].VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.MountPath == plan.ArchiveDir })]
		if !mount.ReadOnly || !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Name == mount.Name && v.PersistentVolumeClaim.ClaimName == claim && v.PersistentVolumeClaim.ReadOnly
		}) {
			t.Errorf("the mover mounts %+v of %+v", mount, pod.Volumes)
		}
	}
	for name, target := range map[string]*platformv1.RestoreTarget{
		"twice": {RepositoryRef: &platformv1.RepositoryReference{Name: "store"},
			Parameters: map[string]platformv1.ParameterValue{"log.bucket": "x"}},
		"nowhere": {},
	} {
		target.Time = at
		bad := application(namespace)
		bad.Name, bad.Spec.PluginVersion, bad.Spec.RestoreFrom = name, archives,
			&platformv1.RestoreFrom{Backup: backup.Name, Target: target}
		create(t, bad)
		held(t, bad, platformv1.ReasonRestoreRefused, `parameter "log.bucket"`)
	}
	waits := application(namespace)
	waits.Name, waits.Spec.PluginVersion = "waits", archives
	waits.Spec.RestoreFrom = &platformv1.RestoreFrom{Backup: backup.Name,
		Target: &platformv1.RestoreTarget{Time: at, RepositoryRef: &platformv1.RepositoryReference{Name: "none"}}}
	create(t, waits)
	held(t, waits, platformv1.ReasonRepositoryNotFound, "restoreFrom.target.repositoryRef")
	// In place the log would lead on from nothing.
	op := operate(t, app, "in-place", "Restore", nil, "backup", backup.Name)
	ends(t, op, platformv1.OperationFailed)
	if refresh(t, op); !strings.Contains(op.Status.Error, `keeps its log in an archive (BackupRepository "store")`) {
		t.Errorf("the Operation says %s", op.Status.Error)
	}
}
