// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

const handingOn = `
name: HandOn
artifacts: {repository: store}
steps:
  - name: make
    script: {image: 'example/tool:1', source: make}
    artifacts: [{name: report, path: /out/report.csv}]
  - name: use
    container: {image: 'example/tool:1'}
    inputs: [{from: make.report, path: /in/report.csv}]
`

// artifactFixture has the image of movers.
func artifactFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, 0)
	f.settings = settings.New(render.Settings{AgentImage: "agents:1"})
	return f
}

// store makes a BackupRepository, and returns what says how it is.
func (f *fixture) store(change func(*platformv1.BackupRepositorySpec)) (says func(metav1.ConditionStatus, string)) {
	f.t.Helper()
	r := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "store"},
		Spec: platformv1.BackupRepositorySpec{S3: &platformv1.S3Repository{Endpoint: "https://s3.example.com",
			Bucket: "files", CredentialsSecretRef: platformv1.SecretReference{Name: "keys"}}}}
	if change != nil {
		change(&r.Spec)
	}
	f.create(r)
	return func(ready metav1.ConditionStatus, message string) {
		f.t.Helper()
		r.Status.Domains = []platformv1.RepositoryState{
			{Domain: testDomain, Ready: ready, Reason: "Played", Message: message}}
		if err := env.Client.Status().Update(f.t.Context(), r); err != nil {
			f.t.Fatal(err)
		}
	}
}

// says waits for what an Operation is waiting for.
func (f *fixture) says(op *platformv1.Operation, reason, message string) {
	f.t.Helper()
	testkit.WaitFor(f.t, env.Client, op, reason+": "+message, func() error {
		if c := conditions.Get(op, platformv1.ReadyCondition); c == nil || c.Reason != reason ||
			!strings.Contains(c.Message, message) {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
}

// played waits for a Job of a step, and has its pod end with what its containers say.
func (f *fixture) played(name string, condition batchv1.JobConditionType, said map[string]string) *batchv1.Job {
	f.t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	testkit.WaitFor(f.t, env.Client, job, "it is there", func() error { return nil })
	pod := &corev1.Pod{ObjectMeta: job.Spec.Template.ObjectMeta, Spec: job.Spec.Template.Spec}
	pod.Namespace, pod.Name = f.namespace, name
	pod.Labels[batchv1.JobNameLabel] = name
	owner := metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))
	pod.OwnerReferences = []metav1.OwnerReference{*owner}
	f.create(pod)
	ended := func(list []corev1.Container) (statuses []corev1.ContainerStatus) {
		for _, container := range list {
			message, has := said[container.Name]
			if !has {
				continue
			}
			message, failed := strings.CutPrefix(message, "!")
			code := int32(0)
			if failed {
				code = 1
			}
			statuses = append(statuses, corev1.ContainerStatus{Name: container.Name, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: metav1.Now()}}})
		}
		return statuses
	}
	pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = ended(pod.Spec.InitContainers),
		ended(pod.Spec.Containers)
	if err := env.Client.Status().Update(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
	if err := env.EndJob(f.t.Context(), job, condition); err != nil {
		f.t.Fatal(err)
	}
	return job
}

// told is a result of a mover as its container says it.
func told(t *testing.T, result mover.Result) string {
	t.Helper()
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// gone waits until an Operation is there no more.
func (f *fixture) gone(op *platformv1.Operation) {
	f.t.Helper()
	testkit.Eventually(f.t, "the Operation is gone", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(op), op); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %+v, %w", op.ObjectMeta, err)
		}
		return nil
	})
}

// A step waits for the repository, its artifact is the input of the next one, and all go with the Operation: the
// controller ends between the steps, and while they are removed.
func TestArtifactsGoFromStepToStepAndWithTheOperation(t *testing.T) {
	f := artifactFixture(t)
	worker := f.worker()
	stop := f.controller(nil)
	op := f.inline("files", handingOn, worker)
	f.says(op, platformv1.ReasonRepositoryNotFound, `there is no BackupRepository "store" in this namespace`)
	says := f.store(nil)
	f.says(op, platformv1.ReasonRepositoryNotReady, `BackupRepository "store" is not ready: it has yet to be checked`)
	says(metav1.ConditionFalse, "the bucket is away")
	f.says(op, platformv1.ReasonRepositoryNotReady, "the bucket is away")
	if len(f.jobs()) > 0 || len(op.Finalizers) != 1 {
		t.Errorf("there are %d Jobs, and the finalizers %v", len(f.jobs()), op.Finalizers)
	}
	says(metav1.ConditionTrue, "")
	sum := strings.Repeat("a", 64)
	f.played("files-make", batchv1.JobComplete, map[string]string{render.TaskContainer: "",
		render.KeepContainer: told(t, mover.Result{Location: "https://s3.example.com/files/x",
			Artifacts: []mover.KeptArtifact{{Name: "report", SHA256: sum, Size: 7}}})})
	stop()
	stop = f.controller(nil)
	job := f.played("files-use", batchv1.JobComplete, map[string]string{render.FetchContainer: "{}",
		render.TaskContainer: ""})
	if plan := job.Spec.Template.Annotations[platformv1.FetchPlanAnnotation]; !strings.Contains(plan, sum) ||
		!strings.Contains(plan, "_artifacts/"+f.namespace+"/"+string(op.UID)) {
		t.Errorf("the plan is %s", plan)
	}
	f.waitPhase(op, platformv1.OperationSucceeded)
	if got := op.Status.Steps[0].Artifacts; len(got) != 1 || got[0] != (platformv1.StepArtifact{Name: "report",
		Digest: "sha256:" + sum, Size: 7, Location: "https://s3.example.com/files/x/" + sum}) {
		t.Errorf("the record is %+v", got)
	}
	if err := env.Client.Delete(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	f.await(discardName(op))
	stop()
	f.controller(nil)
	removes := f.played(discardName(op), batchv1.JobComplete, map[string]string{render.MoverContainer: "{}"})
	if plan := removes.Spec.Template.Annotations[platformv1.MoverPlanAnnotation]; !strings.Contains(plan,
		string(mover.VerbDiscard)) || !strings.Contains(plan, string(op.UID)) {
		t.Errorf("the plan is %s", plan)
	}
	f.gone(op)
}

// await waits for a Job.
func (f *fixture) await(name string) {
	f.t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	testkit.WaitFor(f.t, env.Client, job, "it is there", func() error { return nil })
}

// What a mover says is why the attempt failed, and no exit code of the task.
func TestArtifactThatIsNotAsRecordedFailsTheAttempt(t *testing.T) {
	f := artifactFixture(t)
	f.store(nil)(metav1.ConditionTrue, "")
	f.controller(nil)
	op := f.inline("files", handingOn, f.worker())
	f.played("files-make", batchv1.JobComplete, map[string]string{render.TaskContainer: "",
		render.KeepContainer: told(t, mover.Result{Location: "x",
			Artifacts: []mover.KeptArtifact{{Name: "report", SHA256: strings.Repeat("a", 64)}}})})
	f.played("files-use", batchv1.JobFailed, map[string]string{render.FetchContainer: "!" + told(t,
		mover.Result{Reason: mover.ReasonArtifactDamaged, Message: `artifact "make.report": it is not there any more`})})
	f.waitPhase(op, platformv1.OperationFailed)
	if !strings.Contains(op.Status.Error, `job files-use failed: artifact "make.report": it is not there any more`) {
		t.Errorf("the error is %q", op.Status.Error)
	}

	other := f.inline("missing", handingOn, func(o *platformv1.Operation) {
		o.Spec.ServiceAccountName, o.Spec.Author = "worker", "ada"
	})
	f.played("missing-make", batchv1.JobFailed, map[string]string{render.TaskContainer: "", render.KeepContainer: "!" +
		told(t, mover.Result{Reason: mover.ReasonArtifactRefused, Message: `artifact "report": there is no file /out`})})
	f.waitPhase(other, platformv1.OperationFailed)
	if !strings.Contains(other.Status.Error, `job missing-make failed: artifact "report": there is no file /out`) {
		t.Errorf("the error is %q", other.Status.Error)
	}
}

// A repository that is gone, and one of which another Operation has the files, let an Operation go; one that runs ends
// before.
func TestDeletedOperationLeavesWhatOthersHave(t *testing.T) {
	f := artifactFixture(t)
	f.store(nil)(metav1.ConditionTrue, "")
	f.controller(nil)
	op := f.inline("files", handingOn, f.worker())
	f.played("files-make", batchv1.JobFailed, map[string]string{render.TaskContainer: "!no"})
	f.waitPhase(op, platformv1.OperationFailed)
	again := f.inline("again", handingOn, func(o *platformv1.Operation) {
		o.Spec.ServiceAccountName, o.Spec.Author, o.Spec.RetryOf = "worker", "ada", op.Name
	})
	f.await("again-make")
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(again), again); err != nil ||
		again.Status.Artifacts == nil || *again.Status.Artifacts != *op.Status.Artifacts {
		t.Errorf("the retry has %+v: %v", again.Status.Artifacts, err)
	}
	if err := env.Client.Delete(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	f.gone(op)
	r := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "store"}}
	if err := env.Client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	f.waitPhase(again, platformv1.OperationFailed)
	testkit.Eventually(t, "the Job of the run is being deleted", func(ctx context.Context) error {
		job := &batchv1.Job{}
		err := env.Client.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: "again-make"}, job)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil || job.DeletionTimestamp.IsZero() {
			return fmt.Errorf("it is there: %w", err)
		}
		// No controller of Jobs runs here.
		job.Finalizers = nil
		return env.Client.Update(ctx, job)
	})
	f.gone(again)
}

func TestRepositoryThatKeepsNoArtifactsFailsTheStep(t *testing.T) {
	for title, c := range map[string]struct {
		change func(*platformv1.BackupRepositorySpec)
		want   string
	}{
		"volume": {func(s *platformv1.BackupRepositorySpec) {
			s.S3, s.PersistentVolumeClaim = nil, &platformv1.VolumeRepository{ClaimName: "c"}
		}, `BackupRepository "store" is on a volume, and artifacts are kept in a bucket`},
		"encrypted": {func(s *platformv1.BackupRepositorySpec) {
			s.Encryption = &platformv1.BackupEncryption{PassphraseSecretRef: platformv1.PassphraseReference{Name: "p"}}
		}, `BackupRepository "store" is encrypted, and artifacts are not`},
	} {
		t.Run(title, func(t *testing.T) {
			f := artifactFixture(t)
			f.store(c.change)(metav1.ConditionTrue, "")
			f.controller(nil)
			op := f.inline("files", handingOn, f.worker())
			f.waitPhase(op, platformv1.OperationFailed)
			if !strings.Contains(op.Status.Error, c.want) {
				t.Errorf("the error is %q", op.Status.Error)
			}
		})
	}
}
