// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

const batchGroup = "batch.zeroinfra.github.com"

// batchObject is a Workflow or a CronJob.
func batchObject(t *testing.T, kind, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return testkit.Object(t, schema.GroupVersionKind{Group: batchGroup, Version: "v1", Kind: kind}, namespace, name,
		map[string]any{}, spec)
}

// inlineOperation brings its template along. It is of no domain when that is empty.
func inlineOperation(namespace, name, domain, template string) *platformv1.Operation {
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: platformv1.OperationSpec{Template: template}}
	if domain != "" {
		op.Labels = map[string]string{platformv1.DomainLabel: domain}
	}
	return op
}

// Inline templates. asks is good.
const (
	asks    = "name: A\nsteps:\n  - {name: a, approval: {message: go on}}\n"
	unknown = "name: A\nsteps:\n  - {name: a, needs: [b], approval: {message: go on}}\n"
	// unknownSays is what is wrong with unknown.
	unknownSays = `template is not valid: line 3: steps[0].needs[0] names the step "b", which is not there`
)

// judgesRuns waits until the API server asks the batch operator.
func (r *release) judgesRuns(namespace string) {
	r.Helper()
	testkit.Eventually(r, "a bad Operation is refused", func(ctx context.Context) error {
		err := env.Client.Create(ctx, inlineOperation(namespace, "probe", "batch", unknown), client.DryRunAll)
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}

// TestBadRunsAreRefused proves that what cannot run is refused in the answer of the API server, with the place in the
// object and the sentence of its condition.
func TestBadRunsAreRefused(t *testing.T) {
	r := installChart(t, batchChart)
	r.start()
	namespace := env.Namespace(t)
	r.judgesRuns(namespace)
	u := newUser(t)
	const call = "http: {url: 'http://x'}"
	const daily, utc = "schedules: ['@daily']\n", "timeZone: UTC\n"
	workflow := func(spec string) client.Object { return batchObject(t, "Workflow", namespace, "bad", spec) }
	cronJob := func(spec string) client.Object { return batchObject(t, "CronJob", namespace, "bad", spec) }
	operation := func(domain, template string) client.Object {
		return inlineOperation(namespace, "bad", domain, template)
	}
	many := &strings.Builder{}
	many.WriteString("name: A\nsteps:\n")
	for i := range 101 {
		fmt.Fprintf(many, "  - {name: s%d, needs: [], %s}\n", i, call)
	}
	for title, c := range map[string]struct {
		object client.Object
		by     string
		says   string
	}{
		"a cycle of tasks": {workflow("tasks: [{name: a, dependsOn: [{name: b}], " + call +
			"}, {name: b, dependsOn: [{name: a}], " + call + "}]"), "kinds",
			"spec.tasks: tasks depend on each other in a cycle: a depends on b depends on a"},
		"an output that is not there": {workflow("tasks: [{name: a, " + call + "}, {name: b, dependsOn: [{name: a}], " +
			"http: {url: 'http://x/${tasks.a.outputs.none}'}}]"), "kinds",
			`spec.tasks[b].http.url placeholder "${tasks.a.outputs.none}": undefined field 'none'`},
		"a default of another type": {workflow("parameters: [{name: p, type: int, default: many}]\ntasks: [{name: a, " +
			call + "}]"), "kinds", `spec.parameters[p].default is "many": it must be of type int`},
		"no argument": {workflow("parameters: [{name: p}]\ntasks: [{name: a, " + call + "}]"), "kinds",
			`spec.arguments: parameter "p" has no default and needs an argument`},
		"a zone": {cronJob(daily + "timeZone: Europe/Berln\ntask: {" + call + "}"), "kinds",
			`time zone "Europe/Berln" does not exist`},
		"30 February": {cronJob("schedules: ['0 0 30 2 *']\n" + utc + "task: {" + call + "}"), "kinds",
			"names a day that never comes"},
		"a task": {cronJob(daily + utc + "task: {http: {url: 'ftp://x'}}"), "kinds",
			"spec.task.http.url must begin with http:// or https://"},
		"a step that is not there": {operation("batch", unknown), "operations", unknownSays},
		"of no domain":             {operation("", unknown), "unclaimed-operations", unknownSays},
		"a cycle of steps": {operation("", "name: A\nsteps:\n  - {name: a, needs: [b], "+call+"}\n  - {name: b, "+
			"needs: [a], "+call+"}\n"), "unclaimed-operations", "line 3: steps[0].needs waits for itself"},
		"an output of another type": {operation("", "name: A\nsteps:\n  - {name: a, http: {url: 'http://x', outputs: "+
			"{n: response.status}}}\n  - {name: b, when: 'steps.a.outputs.n == \"200\"', "+call+"}\n"),
			"unclaimed-operations", "line 4: steps[1].when is not a valid expression"},
		"too many steps": {operation("", many.String()), "unclaimed-operations",
			"steps has 101 steps: at most 100 are allowed"},
		"no account": {operation("", "name: A\nsteps:\n  - {name: a, delete: {apiVersion: v1, kind: Pod, name: a}}\n"),
			"unclaimed-operations", "set serviceAccountName to a ServiceAccount that has them"},
	} {
		t.Run(title, func(t *testing.T) {
			err := u.Create(t.Context(), c.object)
			t.Log(err)
			refused(t, err, `"`+c.by+`.`+batchGroup+`"`, c.says)
		})
	}
	for _, object := range []client.Object{
		batchObject(t, "Workflow", namespace, "good", "tasks: [{name: a, "+call+"}]"),
		batchObject(t, "CronJob", namespace, "good", daily+utc+"task: {"+call+"}"),
		inlineOperation(namespace, "good", "", asks), inlineOperation(namespace, "elsewhere", "database", unknown),
	} {
		if err := u.Create(t.Context(), object); err != nil {
			t.Errorf("%T %q: %v", object, object.GetName(), err)
		}
	}
	r.nothingDenied()
}

// TestBadOperationThatIsStoredIsNotHeldUp proves that an Operation which was stored while nobody could judge it fails
// with the same sentence, and that the webhook keeps nobody from changing and deleting it.
func TestBadOperationThatIsStoredIsNotHeldUp(t *testing.T) {
	r := installChart(t, batchChart)
	r.start()
	namespace := env.Namespace(t)
	r.judgesRuns(namespace)
	u := newUser(t)
	r.stop()
	op := inlineOperation(namespace, "bad", "batch", unknown)
	if err := u.Create(t.Context(), op); err != nil {
		t.Fatalf("nobody is there to refuse it: %v", err)
	}
	r.start()
	r.judgesRuns(namespace)
	testkit.WaitFor(t, env.Client, op, "has failed", func() error {
		if op.Status.Phase != platformv1.OperationFailed {
			return errors.New("it has not")
		}
		return nil
	})
	if op.Status.Error != unknownSays {
		t.Errorf("the error is %q, want %q", op.Status.Error, unknownSays)
	}
	u.warnings()
	for _, body := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"finalizers":["example.com/a"]}}`,
		`{"spec":{"cancel":true}}`} {
		if err := merge(t, u, op, body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	if heard := u.warnings(); len(heard) > 0 {
		t.Errorf("a change is nobody's business: %q", heard)
	}
	if err := u.Delete(t.Context(), op); err != nil {
		t.Errorf("it cannot be deleted: %v", err)
	}
	if err := merge(t, u, op, `{"metadata":{"finalizers":null}}`); err != nil {
		t.Errorf("its finalizer cannot be taken: %v", err)
	}
	testkit.WaitGone(t, env.Client, op)
	r.nothingDenied()
}
