// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// asksFor is an Operation as somebody writes it into a file.
func asksFor(app *platformv1.Application, template, more string) string {
	return fmt.Sprintf("apiVersion: %[1]s\nkind: Operation\nmetadata: {generateName: open-}\nspec:\n  templateRef: "+
		"%[2]s\n  targetRef: {apiVersion: %[1]s, kind: Application, name: %[3]s}\n%[4]s",
		platformv1.GroupVersion, template, app.Name, more)
}

// A dry run says what the steps of an Operation run, down to the pods, and how long all of it may take; and touches
// nothing.
func TestADryRunDescribesNestedOperations(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := tiers(t, namespace)
	check := untouched(t, app)
	c := cluster{t, env.Kubeconfig(t), namespace}
	out, errs, code := c.zictl(asksFor(app, "Open", "  parameters: {replicas: 2}\n"))
	if code != 1 || errs != "" {
		t.Errorf("it ends with %d: %s", code, errs)
	}
	c.golden("nested", out)
	out, errs, code = c.zictl(asksFor(app, "Open", "  timeout: 1h\n  parameters: {replicas: 3}\n"), "-o", "json")
	if code != 1 || errs != "" {
		t.Errorf("it ends with %d: %s", code, errs)
	}
	c.golden("nested.json", out)
	// What the engine would refuse once that step is there, and what nobody would take.
	for says, more := range map[string]string{
		"replicas":              "  parameters: {replicas: 9}\n",
		`unknown field "until"`: "  until: tomorrow\n",
	} {
		if out, errs, code = c.zictl(asksFor(app, "Open", more)); code != 2 || !strings.Contains(errs, says) || out != "" {
			t.Errorf("it ends with %d and says %q, want %q: %s", code, errs, says, out)
		}
	}
	check()
}

// How long a run may take its template says where its spec does not.
func TestATemplateSaysHowLongItMayTake(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := tiers(t, namespace)
	op := operate(t, app, "open", "Open", func(s *platformv1.OperationSpec) { s.Author = author }, "replicas", "2")
	status := ends(t, op, platformv1.OperationAwaitingApproval)
	if op.Spec.Timeout != nil || status.Timeout == nil || status.Timeout.Duration != 20*time.Minute {
		t.Errorf("it asks for %v and has %v", op.Spec.Timeout, status.Timeout)
	}
	approve(t, op, "somebody")
	ends(t, op, platformv1.OperationSucceeded)
	child := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "open-scale"}}
	refresh(t, child)
	if child.Spec.Timeout == nil || child.Spec.Timeout.Duration != 20*time.Minute || child.Status.Timeout == nil ||
		child.Status.Timeout.Duration != 20*time.Minute {
		t.Errorf("what it runs is asked for %v and has %v", child.Spec.Timeout, child.Status.Timeout)
	}
	if status := ends(t, operate(t, app, "stop", "Stop", nil), platformv1.OperationSucceeded); status.Timeout == nil ||
		status.Timeout.Duration != 10*time.Minute {
		t.Errorf("by default it has %v", status.Timeout)
	}
}
