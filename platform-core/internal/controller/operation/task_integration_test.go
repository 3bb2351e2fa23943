// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// worker makes an account that may make Jobs and read Secrets, and returns what has an Operation act as it.
func (f *fixture) worker() func(*platformv1.Operation) {
	f.t.Helper()
	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: "worker"}
	f.create(&corev1.ServiceAccount{ObjectMeta: meta})
	f.create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
	}})
	f.create(&rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.namespace, Name: meta.Name}}})
	return func(op *platformv1.Operation) { op.Spec.ServiceAccountName, op.Spec.Author = meta.Name, "ada" }
}

// jobs that Operations of the namespace have made.
func (f *fixture) jobs() []batchv1.Job {
	f.t.Helper()
	var list batchv1.JobList
	if err := env.Client.List(f.t.Context(), &list, client.InNamespace(f.namespace)); err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}

// finish waits for the only Job that has not ended, and ends it.
func (f *fixture) finish(condition batchv1.JobConditionType) *batchv1.Job {
	f.t.Helper()
	var found *batchv1.Job
	testkit.Eventually(f.t, "a Job that runs", func(context.Context) error {
		found = nil
		for _, job := range f.jobs() {
			if len(job.Status.Conditions) == 0 {
				found = &job
			}
		}
		if found == nil {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	if err := env.EndJob(f.t.Context(), found, condition); err != nil {
		f.t.Fatal(err)
	}
	return found
}

const twice = `
name: Twice
steps:
  - name: sum
    retry: {limit: 1, backoff: 1s}
    container: {image: 'example/tool:1', args: [sum], env: [{name: P, secret: {name: s, key: k}}]}
  - name: tell
    script: {image: 'example/tool:1', source: 'echo "$A"'}
`

// A failed attempt has another Job, the controller ends while a Job runs, and no Job is made twice.
func TestTasksRunAsJobsOfTheAccount(t *testing.T) {
	f := newFixture(t, 0)
	worker := f.worker()
	stop := f.controller(nil)
	op := f.inline("twice", twice, worker)
	first := f.finish(batchv1.JobFailed)
	if first.Name != "twice-sum" || first.Labels[platformv1.OperationLabel] != "twice" ||
		first.Labels[platformv1.StepLabel] != "sum" {
		t.Errorf("the Job is %q with labels %v", first.Name, first.Labels)
	}
	second := f.finish(batchv1.JobComplete)
	stop()
	f.controller(nil)
	third := f.finish(batchv1.JobComplete)
	f.waitPhase(op, platformv1.OperationSucceeded)
	if second.Name != "twice-sum-try2" || third.Name != "twice-tell" {
		t.Errorf("the Jobs are %q and %q", second.Name, third.Name)
	}
	if n := len(f.jobs()); n != 3 {
		t.Errorf("%d Jobs are there: those of a record stay with it", n)
	}

	denied := f.inline("denied", twice, func(op *platformv1.Operation) {
		worker(op)
		op.Spec.ServiceAccountName = "agents"
	})
	f.waitPhase(denied, platformv1.OperationFailed)
	if !strings.Contains(denied.Status.Error, `cannot be made: jobs.batch is forbidden`) {
		t.Errorf("the error is %q", denied.Status.Error)
	}
}

const many = `
name: Many
steps:
  - {name: all, forEach: '["a", "b", "c"]', parallelism: 2, container: {image: 'example/tool:1'}}
  - {name: one, needs: [], container: {image: 'example/tool:1'}}
`

// What is on record of a step may lack a Job that was made: its turn was lost as the Operation was changed. A cancelled
// Operation ends when that is gone as well.
func TestACancelledOperationLeavesNoJobOfAnItemRunning(t *testing.T) {
	f := newFixture(t, 0)
	f.controller(nil)
	op := f.inline("many", many, f.worker())
	testkit.Eventually(t, "Jobs of two items and of the other step", func(context.Context) error {
		if n := len(f.jobs()); n != 3 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	unrecorded := f.jobs()[0].DeepCopy()
	unrecorded.ObjectMeta = metav1.ObjectMeta{Namespace: f.namespace, Name: "many-all-3",
		OwnerReferences: []metav1.OwnerReference{controlledBy(op)}, Labels: map[string]string{
			platformv1.OperationLabel: "many", platformv1.StepLabel: "all"}}
	unrecorded.Spec.Selector, unrecorded.Spec.Template.Labels = nil, nil
	f.create(unrecorded)
	f.patch(op, `{"spec":{"cancel":true}}`)
	testkit.Eventually(t, "the end of all Jobs", func(ctx context.Context) error {
		for _, job := range f.jobs() {
			if job.DeletionTimestamp.IsZero() {
				return fmt.Errorf("Job %q runs", job.Name)
			}
			// Nobody here takes away its pods.
			before := job.DeepCopy()
			job.Finalizers = nil
			if err := env.Client.Patch(ctx, &job, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return nil
	})
	f.waitPhase(op, platformv1.OperationCancelled)
}

const calling = `
name: Calling
steps:
  - name: ask
    retry: {limit: 2, backoff: 1s}
    http:
      method: POST
      url: http://service.shop/things
      headers: [{name: Authorization, prefix: 'Bearer ', secret: {name: login, key: token}}]
      body: '{"of": "${parameters.of}"}'
      check: response.json.state == "ok"
      outputs: {id: response.json.id, echo: response.body}
  - name: show
    http: {url: 'http://service.shop/${steps.ask.outputs.id}'}
parameters:
  of: {schema: string, default: me}
`

func TestCallsAreRepeatedAndTellNoSecret(t *testing.T) {
	var mu sync.Mutex
	var keys, asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		keys, asked = append(keys, r.Header.Get("Idempotency-Key")), append(asked, r.Method+" "+r.URL.Path+" "+string(body))
		if len(keys) == 1 {
			http.Error(w, "busy "+r.Header.Get("Authorization"), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintf(w, `{"state": "ok", "id": "7", "login": %q}`, r.Header.Get("Authorization"))
	}))
	t.Cleanup(server.Close)
	f := newFixture(t, 0)
	f.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "login"},
		StringData: map[string]string{"token": "hush-hush"}})
	f.controller(nil)
	op := f.inline("calling", calling, f.worker())
	f.waitPhase(op, platformv1.OperationSucceeded)
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 3 || asked[1] != `POST /things {"of": "me"}` || asked[2] != "GET /7 " || keys[0] != keys[1] ||
		keys[0] == keys[2] {
		t.Errorf("the calls are %q with keys %q", asked, keys)
	}
	if text := fmt.Sprintf("%+v", op); strings.Contains(text, "hush") ||
		!strings.Contains(op.Status.Steps[0].Outputs["echo"], "Bearer ***") {
		t.Errorf("the record is %s", text)
	}
}

func TestSecretOfAHeaderThatEndsWithANewlineIsRefused(t *testing.T) {
	f := newFixture(t, 0)
	f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "login"},
		StringData: map[string]string{"token": "hush-hush\n"}})
	f.controller(nil)
	op := f.inline("newline", strings.Replace(calling, "limit: 2", "limit: 0", 1), f.worker())
	f.waitPhase(op, platformv1.OperationFailed)
	want := `the header "Authorization" cannot be set: the value under the key "token" of Secret "login" ends with a ` +
		`newline, and is refused`
	if !strings.Contains(op.Status.Error, want) || strings.Contains(fmt.Sprintf("%+v", op), "hush") {
		t.Errorf("the error is %q, want one with %q, and no secret on record", op.Status.Error, want)
	}
}

func TestCallsToTheNodeAreRefused(t *testing.T) {
	f := newFixture(t, 0)
	f.controller(nil)
	for name, url := range map[string]string{"loopback": "http://127.0.0.1:1/",
		"metadata": "http://169.254.169.254/latest", "all": "http://[::]:1/"} {
		op := f.inline(name, "name: Call\nsteps:\n  - {name: ask, http: {url: '"+url+"'}}\n", nil)
		f.waitPhase(op, platformv1.OperationFailed)
		if !strings.Contains(op.Status.Error, errNodeAddress.Error()) {
			t.Errorf("%s: the error is %q", name, op.Status.Error)
		}
	}
}
