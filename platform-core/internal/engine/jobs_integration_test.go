// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// counting is a template that runs a job.
const counting = `name: Count
parameters: {what: {schema: string, default: "*"}}
steps:
  - name: count
    job:
      component: redis
      command: [redis-cli, -h, "${target.application}", KEYS, "${parameters.what}"]
      env: [{name: REDISCLI_AUTH, secret: {credential: default, key: password}}]
      outputs: {keys: '=~"^[0-9]+$" @allowed("a whole number")'}
    types: {keys: int}
`

// jobs plays the controller of Jobs and the kubelet for their pods in a namespace: what they are asked for decides how
// they end.
type jobs struct {
	mu   sync.Mutex
	seen map[types.UID]*batchv1.Job
	// moves says how a mover with a plan ends: what it says, and how; it runs on when that is nothing. It always ends well
	// when nil.
	moves func(mover.Plan) (mover.Result, platformv1.OperationPhase)
}

// playJobs starts them. A command that ends in "wait" never ends by itself, one that ends in "fail" fails, one that
// ends in "bad" finds the data bad, others count 42 keys.
func playJobs(t *testing.T, namespace string) *jobs {
	t.Helper()
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
	ctx, cancel := context.WithCancel(context.Background())
	live, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	watching, err := live.Watch(ctx, &batchv1.JobList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	j, ended := &jobs{seen: map[types.UID]*batchv1.Job{}}, make(chan struct{})
	go func() {
		defer close(ended)
		// One that is not let go on keeps no other.
		var playing sync.WaitGroup
		defer playing.Wait()
		for e := range watching.ResultChan() {
			job, ok := e.Object.(*batchv1.Job)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			playing.Go(func() {
				if err := j.play(ctx, job); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
					t.Errorf("cannot play Job %s: %v", job.Name, err)
				}
			})
		}
	}()
	t.Cleanup(func() { cancel(); watching.Stop(); <-ended })
	return j
}

func (j *jobs) play(ctx context.Context, job *batchv1.Job) error {
	if job.DeletionTimestamp != nil {
		return env.Client.Patch(ctx, job, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	}
	j.mu.Lock()
	known := j.seen[job.UID] != nil
	j.seen[job.UID] = job.DeepCopy()
	j.mu.Unlock()
	if known {
		return nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name + "-" + string(job.UID)[:5],
		Labels: maps.Clone(job.Spec.Template.Labels)}, Spec: job.Spec.Template.Spec}
	pod.Labels[batchv1.JobNameLabel] = job.Name
	pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	if err := env.Client.Create(ctx, pod); err != nil {
		return err
	}
	words := pod.Spec.Containers[0].Command
	switch words[len(words)-1] {
	case "wait":
		return nil
	case "mover":
		return j.move(ctx, job, pod)
	case "fail":
		return end(ctx, job, pod, 1, "NOAUTH Authentication\nrequired.")
	case "bad":
		return end(ctx, job, pod, plan.ExitDataBad, "key 7 cannot be read")
	}
	return end(ctx, job, pod, 0, "keys=42\n")
}

// gate is what movers wait at until a test lets them go on, or has ended.
func gate(t *testing.T) (wait func(), open func()) {
	let := make(chan struct{})
	open = sync.OnceFunc(func() { close(let) })
	t.Cleanup(open)
	return func() { <-let }, open
}

// neverBackedUp are moves of which a backup does not end, and all else does at once.
func neverBackedUp(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
	if p.Verb == mover.VerbBackup {
		return mover.Result{}, ""
	}
	return mover.Result{}, platformv1.OperationSucceeded
}

// move plays a mover.
func (j *jobs) move(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) error {
	var plan mover.Plan
	if err := json.Unmarshal([]byte(job.Spec.Template.Annotations[platformv1.MoverPlanAnnotation]), &plan); err != nil {
		return err
	}
	result, phase := mover.Result{}, platformv1.OperationSucceeded
	if plan.Verb == mover.VerbBackup {
		result = mover.Result{Digest: "sha256:1", Size: 10, RawSize: 30, Facts: map[string]string{"role": "master"}}
	}
	if j.moves != nil {
		result, phase = j.moves(plan)
	}
	text, err := json.Marshal(result)
	switch {
	case err != nil || phase == "":
		return err
	case phase == platformv1.OperationFailed:
		return end(ctx, job, pod, 1, string(text))
	}
	return end(ctx, job, pod, 0, string(text))
}

// cancelled cancels an Operation once a mover works for it.
func (j *jobs) cancelled(t *testing.T, op *platformv1.Operation, verb mover.Verb) {
	t.Helper()
	testkit.Eventually(t, "a mover", func(context.Context) error {
		if len(j.verbs(t, verb)) == 0 {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	if err := env.Client.Patch(t.Context(), op,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		t.Fatal(err)
	}
	ends(t, op, platformv1.OperationCancelled)
}

// verbs are the Jobs of movers that there were for a verb, in no order.
func (j *jobs) verbs(t *testing.T, verb mover.Verb) (jobs []*batchv1.Job) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, job := range j.seen {
		var plan mover.Plan
		if json.Unmarshal([]byte(job.Spec.Template.Annotations[platformv1.MoverPlanAnnotation]), &plan) == nil &&
			plan.Verb == verb {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// end has pod and Job end as a cluster does.
func end(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, code int32, message string) error {
	phase, condition := corev1.PodSucceeded, batchv1.JobComplete
	if code != 0 {
		phase, condition = corev1.PodFailed, batchv1.JobFailed
	}
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: metav1.Now()}}}}
	if err := env.Client.Status().Update(ctx, pod); err != nil {
		return err
	}
	return env.EndJob(ctx, job, condition)
}

// only is the one Job that there ever was.
func (j *jobs) only(t *testing.T) *batchv1.Job {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.seen) != 1 {
		t.Fatalf("there were %d Jobs", len(j.seen))
	}
	for _, job := range j.seen {
		return job
	}
	return nil
}

// counted makes an instance, in a namespace that has no pod that is not restricted, whose plugin has the template.
func counted(t *testing.T, version string) (*platformv1.Application, *jobs) {
	t.Helper()
	derived(t, version, "", func(parts map[string]map[string]string) { parts["operations"]["Count.yaml"] = counting })
	namespace := env.Namespace(t)
	label := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if err := env.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		client.RawPatch(types.MergePatchType, label)); err != nil {
		t.Fatal(err)
	}
	played := playJobs(t, namespace)
	app := application(namespace)
	app.Spec.PluginVersion = version
	create(t, app)
	return app, played
}

// gone waits until a Job is.
func gone(t *testing.T, namespace, name string) {
	t.Helper()
	testkit.Eventually(t, "the end of Job "+name, func(ctx context.Context) error {
		job := &batchv1.Job{}
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v, deleted %v", err, job.DeletionTimestamp)
		}
		return nil
	})
}

// A job runs in a pod of its own, once and confined, and what it says is the output of its step.
func TestJobOfAnOperation(t *testing.T) {
	app, played := counted(t, "1.7.0")
	run(t, -1)
	node(t, app.Namespace)
	testkit.WaitForReady(t, env.Client, app)
	dry := ends(t, operate(t, app, "dry", "Count", func(s *platformv1.OperationSpec) { s.DryRun = true }),
		platformv1.OperationSucceeded)
	if want := "count: runs in a pod of its own: redis-cli -h redis-a KEYS *"; len(dry.Plan) != 1 || dry.Plan[0] != want {
		t.Errorf("the plan is %q, want %q", dry.Plan, want)
	}
	op := operate(t, app, "well", "Count", nil)
	status := ends(t, op, platformv1.OperationSucceeded)
	step := status.Steps[0]
	if step.Outputs["keys"] != "42" || step.Outputs["job"] != "well-count" ||
		step.OutputTypes["keys"] != platformv1.OutputInt || len(step.OutputTypes) != 1 {
		t.Errorf("outputs are %v, of types %v", step.Outputs, step.OutputTypes)
	}
	job := played.only(t)
	pod := job.Spec.Template.Spec
	if !metav1.IsControlledBy(job, op) || job.Spec.Template.Labels[platformv1.ApplicationLabel] != app.Name ||
		*pod.AutomountServiceAccountToken {
		t.Errorf("the job is %+v", job)
	}
	if from := pod.Containers[0].Env[0].ValueFrom; from == nil || from.SecretKeyRef.Name != "redis-a-default" ||
		pod.Containers[0].Image != podOf(t, app).Spec.Containers[0].Image {
		t.Errorf("the container is %+v", pod.Containers[0])
	}
	gone(t, app.Namespace, "well-count")
}

// What a job that fails said last is in the message, and it stays to be looked at.
func TestJobThatFails(t *testing.T) {
	app, played := counted(t, "1.7.1")
	run(t, -1)
	node(t, app.Namespace)
	testkit.WaitForReady(t, env.Client, app)
	grant(t, app.Namespace, "able", "get")
	failed := ends(t, operate(t, app, "badly", "Count", func(s *platformv1.OperationSpec) {
		s.ServiceAccountName, s.Author = "able", author
	}, "what", "fail"), platformv1.OperationFailed)
	if want := "job badly-count failed: exit code 1: NOAUTH Authentication required."; failed.Error != want {
		t.Errorf("it says %q, want %q", failed.Error, want)
	}
	job := played.only(t)
	refresh(t, job)
	if pod := job.Spec.Template.Spec; pod.ServiceAccountName != "able" || !*pod.AutomountServiceAccountToken {
		t.Errorf("the pod has the account %q", pod.ServiceAccountName)
	}
	// What is there under its name is nobody else's to use.
	theirs := job.DeepCopy()
	theirs.ObjectMeta = metav1.ObjectMeta{Namespace: app.Namespace, Name: "taken-count"}
	theirs.Spec.Selector, theirs.Spec.Template.Labels, theirs.Status = nil, nil, batchv1.JobStatus{}
	theirs.Spec.Template.Spec.Containers[0].Command = []string{"wait"}
	create(t, theirs)
	taken := ends(t, operate(t, app, "taken", "Count", nil), platformv1.OperationFailed)
	if want := `there is a Job "taken-count" that is not of this Operation: delete it`; taken.Error != want {
		t.Errorf("it says %q, want %q", taken.Error, want)
	}
}

// A job of an Operation that is cancelled is ended before that is.
func TestJobIsCancelled(t *testing.T) {
	app, _ := counted(t, "1.7.2")
	run(t, -1)
	node(t, app.Namespace)
	testkit.WaitForReady(t, env.Client, app)
	op := operate(t, app, "long", "Count", nil, "what", "wait")
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "long-count"}}
	testkit.WaitFor(t, env.Client, job, "is there", nil)
	ends(t, op, platformv1.OperationRunning)
	if err := env.Client.Patch(t.Context(), op,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		t.Fatal(err)
	}
	ends(t, op, platformv1.OperationCancelled)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); !apierrors.IsNotFound(err) {
		t.Errorf("the job is still there: %v", err)
	}
}

// Whatever crashes, a job is run once.
func TestJobSurvivesTheEngine(t *testing.T) {
	app, played := counted(t, "1.7.3")
	_, _, stop := run(t, -1)
	node(t, app.Namespace)
	testkit.WaitForReady(t, env.Client, app)
	stop()
	op := operate(t, app, "once", "Count", nil)
	crashing{times: 60, writes: 4}.until(t, op)
	if op.Status.Phase != platformv1.OperationSucceeded || op.Status.Steps[0].Attempts != 1 ||
		!strings.HasPrefix(played.only(t).Name, "once-count") {
		t.Errorf("it is %+v", op.Status)
	}
}
