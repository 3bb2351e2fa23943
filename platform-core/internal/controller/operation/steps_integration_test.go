// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// has the fixture's plugin bring one more template.
func (f *fixture) has(text string) {
	template := parsed(text)
	bundle := testBundle()
	bundle.Operations[template.Name] = template
	f.index = plugin.NewIndex()
	f.index.Set("redis", "1.0.0", bundle, nil)
}

// account makes one that may do all to ConfigMaps, and returns what has an Operation act as it.
func (f *fixture) account() func(*platformv1.Operation) {
	f.t.Helper()
	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: "able"}
	f.create(&corev1.ServiceAccount{ObjectMeta: meta})
	f.create(&rbacv1.Role{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"get", "create", "patch", "delete"}}}})
	f.create(&rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.namespace, Name: meta.Name}}})
	return func(op *platformv1.Operation) { op.Spec.ServiceAccountName, op.Spec.Author = meta.Name, "ada" }
}

func (f *fixture) configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
}

// All that a step can have an agent do to the process, and an object for each of a list, done by real agents and a real
// API server.
func TestStepsDoWhatTheySay(t *testing.T) {
	f := newFixture(t, 2)
	f.has(`name: Exercise
steps:
  - name: note
    forEach: "['one', 'two']"
    apply: {apiVersion: v1, kind: ConfigMap, name: "note-${each}",
      content: {data: {of: "${each}", healthy: "${string(target.healthy)}"}}}
  - name: stop
    agent: {call: Stop}
  - name: stopped
    wait: {apiVersion: v1, kind: ConfigMap, name: go-on, until: "true"}
  - name: start
    agent: {call: Start}
  - name: signal
    agent: {call: Signal, signal: SIGHUP, pods: Writers}
  - name: signalled
    wait: {apiVersion: v1, kind: ConfigMap, name: end, until: "true"}
  - name: forget
    forEach: "['one', 'two', 'three']"
    delete: {apiVersion: v1, kind: ConfigMap, name: "note-${each}"}
`)
	f.controller(nil)
	op := f.operation("exercise", "Exercise", f.account())
	f.waits(op, "stopped")
	for _, name := range []string{"one", "two"} {
		note := f.configMap("note-" + name)
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(note), note); err != nil || note.Data["of"] != name {
			t.Errorf("note %s says %v: %v", name, note.Data, err)
		}
	}
	for ordinal := range 2 {
		if said := factsOf(&platformv1.WorkloadSet{}, 0, "", f.pod(ordinal)).Report; said.Health != report.Stopped ||
			f.status(ordinal).GetPid() != 0 {
			t.Errorf("pod %d reports %q, and its process is %d", ordinal, said.Health, f.status(ordinal).GetPid())
		}
	}
	f.create(f.configMap("go-on"))
	f.waits(op, "signalled")
	// The process does not take the signal, and is started anew; that of the other pod has got none.
	testkit.Eventually(t, "the process to have got the signal", func(context.Context) error {
		if starts := f.status(0).GetStarts(); starts != 3 {
			return fmt.Errorf("it was started %d times", starts)
		}
		return nil
	})
	f.wantStarts(1, 2)
	f.create(f.configMap("end"))
	f.waitPhase(op, platformv1.OperationSucceeded)
	for _, name := range []string{"one", "two"} {
		note := f.configMap("note-" + name)
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(note), note); !apierrors.IsNotFound(err) {
			t.Errorf("note %s is there still: %v", name, err)
		}
	}
	for _, step := range op.Status.Steps {
		if step.Attempts != 1 || step.Phase != platformv1.OperationSucceeded {
			t.Errorf("step %s is %s in attempt %d", step.Name, step.Phase, step.Attempts)
		}
	}
	if forget := op.Status.Steps[len(op.Status.Steps)-1]; len(forget.Targets) != 3 || len(forget.Outputs) > 0 {
		t.Errorf("the last step is %+v", forget)
	}
}

// waits waits until an Operation is at a step.
func (f *fixture) waits(op *platformv1.Operation, step string) {
	f.t.Helper()
	testkit.WaitFor(f.t, env.Client, op, "at step "+step, func() error {
		if at := int(op.Status.CurrentStep); at >= len(op.Status.Steps) || op.Status.Steps[at].Name != step ||
			op.Status.Steps[at].Phase != platformv1.OperationRunning {
			return fmt.Errorf("it is %s: %s, %+v", op.Status.Phase, op.Status.Error, op.Status.Steps)
		}
		return nil
	})
}

// deleting has a controller die at its first deletion of a ConfigMap, before or after the API server has it.
type deleting struct {
	http.RoundTripper
	before bool
	once   *sync.Once
	died   chan struct{}
}

func (d deleting) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodDelete || !strings.Contains(request.URL.Path, "/configmaps/") {
		return d.RoundTripper.RoundTrip(request)
	}
	if !d.before {
		answer, err := d.RoundTripper.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		if err := answer.Body.Close(); err != nil {
			return nil, err
		}
	}
	d.once.Do(func() { close(d.died) })
	// A process that was killed writes nothing more.
	<-request.Context().Done()
	return nil, request.Context().Err()
}

// A step deletes the object that it began with: not one that somebody makes under its name while no controller runs.
func TestADeleteStepDeletesNothingThatWasMadeSince(t *testing.T) {
	for name, before := range map[string]bool{"dies before": true, "dies after": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 1)
			f.has("name: Clear\nsteps:\n  - {name: clear, delete: {apiVersion: v1, kind: ConfigMap, name: note}}\n")
			first := f.configMap("note")
			f.create(first)
			died := make(chan struct{})
			whole := f.config
			f.config = rest.CopyConfig(whole)
			once := &sync.Once{}
			f.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return deleting{next, before, once, died} })
			stop := f.controller(nil)
			op := f.operation("clear", "Clear", f.account())
			select {
			case <-died:
			case <-time.After(testkit.Patience):
				t.Fatal("nothing was deleted")
			}
			stop()
			if err := env.Client.Delete(t.Context(), f.configMap("note")); client.IgnoreNotFound(err) != nil ||
				apierrors.IsNotFound(err) == before {
				t.Fatalf("the first one: %v", err)
			}
			second := f.configMap("note")
			f.create(second)
			f.config = whole
			f.controller(nil)
			f.waitPhase(op, platformv1.OperationSucceeded)
			left := f.configMap("note")
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(left), left); err != nil || left.UID != second.UID {
				t.Errorf("what was made since is gone: %v", err)
			}
		})
	}
}
