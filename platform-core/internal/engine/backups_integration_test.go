// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// kept makes an instance, as changed, that serves in a namespace with a repository.
func kept(t *testing.T, changes ...func(*platformv1.ApplicationSpec)) (*platformv1.Application, *jobs) {
	t.Helper()
	namespace, played := keeping(t)
	app := application(namespace)
	for _, change := range changes {
		change(&app.Spec)
	}
	create(t, app)
	return app, played
}

// keeping makes a namespace that has no pod that is not restricted, with a repository on a volume.
func keeping(t *testing.T) (namespace string, played *jobs) {
	t.Helper()
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	namespace = env.Namespace(t)
	label := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if err := env.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		client.RawPatch(types.MergePatchType, label)); err != nil {
		t.Fatal(err)
	}
	played = playJobs(t, namespace)
	node(t, namespace)
	create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "disk"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}})
	repository(t, namespace, "store", platformv1.BackupRepositorySpec{
		PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "disk", Prefix: "p"}})
	return namespace, played
}

func repository(t *testing.T, namespace, name string,
	spec platformv1.BackupRepositorySpec) *platformv1.BackupRepository {
	t.Helper()
	r := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	create(t, r)
	return r
}

// repositoryIs waits until the operator says something of a repository.
func repositoryIs(t *testing.T, namespace, name string, ready metav1.ConditionStatus, text string) {
	t.Helper()
	r := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	testkit.WaitFor(t, env.Client, r, "ready: "+string(ready), func() error {
		if len(r.Status.Domains) != 1 || r.Status.Domains[0].Domain != "database" || r.Status.Domains[0].Ready != ready ||
			!strings.Contains(r.Status.Domains[0].Message, text) {
			return fmt.Errorf("it says %+v", r.Status.Domains)
		}
		if sum := r.Status.Summary; sum == nil || sum.Domains != "database" || sum.Ready != ready {
			t.Errorf("the summary is %+v", sum)
		}
		return nil
	})
}

// backupIs waits until a Backup is in a phase.
func backupIs(t *testing.T, namespace, name string, phase platformv1.BackupPhase) *platformv1.Backup {
	t.Helper()
	b := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	testkit.WaitFor(t, env.Client, b, string(phase), func() error {
		if b.Status.Phase != phase {
			return fmt.Errorf("it is %s: %s", b.Status.Phase, b.Status.Message)
		}
		return nil
	})
	if err := testkit.StatusLint(b); err != nil {
		t.Error(err)
	}
	return b
}

// noJobs waits until a namespace has none.
func noJobs(t *testing.T, namespace string) {
	t.Helper()
	testkit.Eventually(t, "the end of all Jobs", func(ctx context.Context) error {
		var list batchv1.JobList
		if err := env.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil || len(list.Items) == 0 {
			return err
		}
		var names []string
		for i := range list.Items {
			names = append(names, fmt.Sprintf("%s, of which it says %+v", list.Items[i].Name, list.Items[i].Status))
		}
		return fmt.Errorf("there are %s", strings.Join(names, "; "))
	})
}

// An Operation backs an instance up; the Backup outlives it, and takes what is kept along when it is deleted.
func TestBackupOfAnInstance(t *testing.T) {
	app, played := kept(t)
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	repositoryIs(t, app.Namespace, "store", metav1.ConditionTrue, "write, read and delete")
	op := operate(t, app, "nightly", "Backup", nil, "repository", "store")
	status := ends(t, op, platformv1.OperationSucceeded)
	if outputs := status.Steps[0].Outputs; outputs["backup"] != "nightly-backup" || outputs["digest"] != "sha256:1" ||
		outputs["source"] != podOf(t, app).Name {
		t.Errorf("outputs are %v", outputs)
	}
	b := backupIs(t, app.Namespace, "nightly-backup", platformv1.BackupCompleted)
	if b.Status.Facts["role"] != "master" || b.Status.Plugin.Digest == "" || b.Status.Version != "7.0" ||
		b.Labels[platformv1.DomainLabel] != "database" {
		t.Errorf("the Backup is %+v", b)
	}
	job := played.verbs(t, mover.VerbBackup)[0]
	template := job.Spec.Template
	if !metav1.IsControlledBy(job, b) || template.Labels[platformv1.ApplicationLabel] != app.Name ||
		template.Spec.Containers[0].Image != podOf(t, app).Spec.Containers[0].Image {
		t.Errorf("the mover is %+v", job)
	}
	text := template.Annotations[platformv1.MoverPlanAnnotation]
	host := podOf(t, app).Name + ".redis-a-redis-headless." + app.Namespace + ".svc."
	if strings.Contains(text, "password") && !strings.Contains(text, "passwordFrom") ||
		!strings.Contains(fmt.Sprint(template.Spec.Containers[0].Env), host) {
		t.Errorf("the mover has the plan %s and the environment %+v", text, template.Spec.Containers[0].Env)
	}
	noJobs(t, app.Namespace)

	theirs := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "by-hand"}, Spec: b.Spec}
	if err := env.Client.Create(t.Context(), theirs); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "template Backup") {
		t.Errorf("a Backup by hand: %v", err)
	}
	if err := env.Client.Delete(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, op)
	refresh(t, b)
	if err := env.Client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, b)
	if removed := played.verbs(t, mover.VerbDelete); len(removed) != 1 ||
		!strings.Contains(removed[0].Spec.Template.Annotations[platformv1.MoverPlanAnnotation], b.Status.Key) {
		t.Errorf("what removed it: %v", removed)
	}
}

// What cannot be is said at once, with what to do, and nothing is touched.
func TestBackupIsRefused(t *testing.T) {
	app, played := kept(t)
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	repository(t, app.Namespace, "cloud", platformv1.BackupRepositorySpec{S3: &platformv1.S3Repository{
		Endpoint: "https://s3.example.com", Bucket: "backups",
		CredentialsSecretRef: platformv1.SecretReference{Name: "keys"}}})
	repositoryIs(t, app.Namespace, "cloud", metav1.ConditionFalse, `Secret "keys", which is not there`)
	for name, tc := range map[string]struct {
		parameters []string
		error      string
	}{
		"no-repository": {[]string{"repository", "nowhere"}, `there is no BackupRepository "nowhere"`},
		"no-method":     {[]string{"repository", "store", "method", "dump"}, `no backup method "dump"; it has: "rdb"`},
		"no-secret":     {[]string{"repository", "cloud"}, `Secret "keys", which is not there`},
	} {
		if failed := ends(t, operate(t, app, name, "Backup", nil, tc.parameters...),
			platformv1.OperationFailed); !strings.Contains(failed.Error, tc.error) {
			t.Errorf("%s: it says %q, want %q in it", name, failed.Error, tc.error)
		}
	}
	if made := played.verbs(t, mover.VerbBackup); len(made) != 0 {
		t.Errorf("there were movers: %v", made)
	}
	// A Secret that comes has the repository checked.
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "keys"},
		StringData: map[string]string{"accessKey": "a", "secretKey": "s"}})
	repositoryIs(t, app.Namespace, "cloud", metav1.ConditionTrue, "")
}

// What the mover says is what the Operation says, and what it may have left is removed.
func TestBackupThatFails(t *testing.T) {
	app, played := kept(t)
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if p.Verb == mover.VerbBackup {
			return mover.Result{Reason: mover.ReasonRefused, Message: "the store does not take these keys"},
				platformv1.OperationFailed
		}
		return mover.Result{}, platformv1.OperationSucceeded
	}
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	failed := ends(t, operate(t, app, "badly", "Backup", nil, "repository", "store"), platformv1.OperationFailed)
	if !strings.Contains(failed.Error, "the store does not take these keys") {
		t.Errorf("it says %q", failed.Error)
	}
	b := backupIs(t, app.Namespace, "badly-backup", platformv1.BackupFailed)
	testkit.WaitFor(t, env.Client, b, "swept", func() error {
		if b.Status.Leftovers != platformv1.LeftoversNone {
			return fmt.Errorf("leftovers: %s", b.Status.Leftovers)
		}
		return nil
	})
	if removed := played.verbs(t, mover.VerbDelete); len(removed) != 1 {
		t.Errorf("what removed it: %v", removed)
	}
}

// One that is cancelled ends its mover, and leaves a Backup that says so and nothing else.
func TestBackupIsCancelled(t *testing.T) {
	app, played := kept(t)
	played.moves = neverBackedUp
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	op := operate(t, app, "long", "Backup", nil, "repository", "store")
	backupIs(t, app.Namespace, "long-backup", platformv1.BackupRunning)
	played.cancelled(t, op, mover.VerbBackup)
	b := backupIs(t, app.Namespace, "long-backup", platformv1.BackupFailed)
	if !strings.Contains(b.Status.Message, "cancelled") {
		t.Errorf("it says %q", b.Status.Message)
	}
	noJobs(t, app.Namespace)
}

// One that is deleted before it is whole leaves nothing, also where what is whole would stay.
func TestHalfABackupIsRemoved(t *testing.T) {
	app, played := kept(t)
	played.moves = neverBackedUp
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	op := operate(t, app, "half", "Backup", nil, "repository", "store", "deletionPolicy", "Retain")
	b := backupIs(t, app.Namespace, "half-backup", platformv1.BackupRunning)
	if b.Spec.DeletionPolicy != platformv1.BackupRetain {
		t.Errorf("its deletionPolicy is %s", b.Spec.DeletionPolicy)
	}
	if err := env.Client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, b)
	if removed := played.verbs(t, mover.VerbDelete); len(removed) != 1 ||
		!strings.Contains(removed[0].Spec.Template.Annotations[platformv1.MoverPlanAnnotation], b.Status.Key) {
		t.Errorf("what removed it: %v", removed)
	}
	ends(t, op, platformv1.OperationFailed)
}

// At most as many run as the repository says, in the order in which they were made.
func TestBackupsTakeTurns(t *testing.T) {
	app, played := kept(t)
	stop, open := gate(t)
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if p.Verb == mover.VerbBackup {
			stop()
		}
		return mover.Result{Digest: "sha256:1"}, platformv1.OperationSucceeded
	}
	r := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "store"}}
	if err := env.Client.Patch(t.Context(), r,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"maxConcurrentBackups":1}}`))); err != nil {
		t.Fatal(err)
	}
	other := application(app.Namespace)
	other.Name = "redis-b"
	create(t, other)
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	testkit.WaitForReady(t, env.Client, other)
	repositoryIs(t, app.Namespace, "store", metav1.ConditionTrue, "")
	first := operate(t, app, "first", "Backup", nil, "repository", "store")
	backupIs(t, app.Namespace, "first-backup", platformv1.BackupRunning)
	second := operate(t, other, "second", "Backup", nil, "repository", "store")
	waits := backupIs(t, app.Namespace, "second-backup", platformv1.BackupPending)
	if !strings.Contains(waits.Status.Message, "its turn") {
		t.Errorf("it says %q", waits.Status.Message)
	}
	open()
	ends(t, first, platformv1.OperationSucceeded)
	ends(t, second, platformv1.OperationSucceeded)
}

// Whatever crashes, one mover takes the data.
func TestBackupSurvivesTheEngine(t *testing.T) {
	app, played := kept(t)
	_, _, stop := run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	repositoryIs(t, app.Namespace, "store", metav1.ConditionTrue, "")
	stop()
	op := operate(t, app, "once", "Backup", nil, "repository", "store")
	crashing{times: 60, writes: 5}.until(t, op)
	if op.Status.Phase != platformv1.OperationSucceeded || op.Status.Steps[0].Attempts != 1 ||
		len(played.verbs(t, mover.VerbBackup)) != 1 {
		t.Errorf("it is %+v, with %d movers", op.Status, len(played.verbs(t, mover.VerbBackup)))
	}
}

// A share is a volume and a claim that go with their repository.
func TestRepositoryOnNFS(t *testing.T) {
	app, played := kept(t)
	run(t, -1)
	r := repository(t, app.Namespace, "share",
		platformv1.BackupRepositorySpec{NFS: &platformv1.NFSRepository{Server: "nfs.example.com", Path: "/export",
			Prefix: "p"}})
	repositoryIs(t, app.Namespace, "share", metav1.ConditionTrue, "")
	volume, claim := &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: platformv1.ShareNameFor(r)}, volume); err != nil ||
		volume.Spec.NFS.Server != "nfs.example.com" || volume.Spec.ClaimRef.Namespace != app.Namespace {
		t.Errorf("the volume is %+v: %v", volume.Spec, err)
	}
	err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: app.Namespace, Name: "share-nfs"}, claim)
	if err != nil || claim.Spec.VolumeName != volume.Name || !metav1.IsControlledBy(claim, r) {
		t.Errorf("the claim is %+v: %v", claim, err)
	}
	mounted := false
	for _, job := range played.verbs(t, mover.VerbCheck) {
		for _, v := range job.Spec.Template.Spec.Volumes {
			mounted = mounted || v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "share-nfs"
		}
	}
	if !mounted {
		t.Error("the check mounts another claim")
	}
	if err := env.Client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, r)
	testkit.Eventually(t, "the end of the volume", func(ctx context.Context) error {
		err := env.Client.Get(ctx, client.ObjectKeyFromObject(volume), volume)
		if apierrors.IsNotFound(err) || err == nil && volume.DeletionTimestamp != nil {
			return nil
		}
		return fmt.Errorf("it is there: %v", err)
	})
}
