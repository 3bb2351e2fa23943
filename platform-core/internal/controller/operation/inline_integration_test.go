// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// inline creates an Operation with a template of its own.
func (f *fixture) inline(name, template string, change func(*platformv1.Operation)) *platformv1.Operation {
	f.t.Helper()
	return f.operation(name, "", func(op *platformv1.Operation) {
		op.Spec.TemplateRef, op.Spec.TargetRef, op.Spec.Template = "", platformv1.TargetReference{}, template
		delete(op.Labels, platformv1.ApplicationLabel)
		if change != nil {
			change(op)
		}
	})
}

const copyTemplate = `
name: Copy
parameters:
  to: {schema: '=~"^[a-z]+$"'}
steps:
  - name: read
    wait: {apiVersion: v1, kind: ConfigMap, name: source, until: 'has(object.data)', outputs: {text: object.data.text}}
  - name: write
    apply: {apiVersion: v1, kind: ConfigMap, name: '${parameters.to}',
      content: {data: {text: '${steps.read.outputs.text}'}}}
`

// The controller ends between two steps, and the next one goes on.
func TestInlineOperationActsWithTheRightsOfItsAccount(t *testing.T) {
	f := newFixture(t, 0)
	able := f.account()
	stop := f.controller(nil)
	op := f.inline("copy", copyTemplate, func(op *platformv1.Operation) {
		able(op)
		op.Spec.Parameters = platformv1.Parameters{"to": "copy"}
	})
	f.waitPhase(op, platformv1.OperationRunning)
	stop()
	source := f.configMap("source")
	source.Data = map[string]string{"text": "hello"}
	f.create(source)
	f.controller(nil)
	f.waitPhase(op, platformv1.OperationSucceeded)
	written := f.configMap("copy")
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(written), written); err != nil ||
		written.Data["text"] != "hello" {
		t.Errorf("the copy has %q: %v", written.Data["text"], err)
	}

	secret := f.inline("secret", strings.ReplaceAll(copyTemplate, "ConfigMap", "Secret"), func(op *platformv1.Operation) {
		able(op)
		op.Spec.Parameters = platformv1.Parameters{"to": "copy"}
	})
	f.waitPhase(secret, platformv1.OperationFailed)
	if !strings.Contains(secret.Status.Error, "secrets \"source\" is forbidden") {
		t.Errorf("the error is %q", secret.Status.Error)
	}
}

func TestInvalidInlineTemplateFailsWithItsPath(t *testing.T) {
	f := newFixture(t, 0)
	f.controller(nil)
	op := f.inline("broken", "name: Broken\nsteps:\n  - {name: a, needs: [b], wait: {apiVersion: v1, kind: ConfigMap, "+
		"name: a, until: 'true'}}\n", nil)
	f.waitPhase(op, platformv1.OperationFailed)
	want := `line 3: steps[0].needs[0] names the step "b", which is not there`
	if !strings.Contains(op.Status.Error, want) {
		t.Errorf("the error is %q, want one with %q", op.Status.Error, want)
	}
	op = f.inline("unaccounted", strings.Replace(copyTemplate, `'=~"^[a-z]+$"'`, `'=~"^[a-z]+$"', default: copy`, 1), nil)
	f.waitPhase(op, platformv1.OperationFailed)
	if !strings.Contains(op.Status.Error, "set serviceAccountName") {
		t.Errorf("the error is %q", op.Status.Error)
	}
}

func TestOperationHasOneTemplate(t *testing.T) {
	f := newFixture(t, 0)
	target := platformv1.TargetReference{APIVersion: "database.zeroinfra.github.com/v1", Kind: "Redis", Name: "a"}
	for title, c := range map[string]struct {
		spec platformv1.OperationSpec
		want string
	}{
		"both": {platformv1.OperationSpec{TemplateRef: "Restart", Template: copyTemplate, TargetRef: target},
			"set one of templateRef and template"},
		"none": {platformv1.OperationSpec{TargetRef: target}, "set one of templateRef and template"},
		"target of inline": {platformv1.OperationSpec{Template: copyTemplate, TargetRef: target},
			"targetRef is required with templateRef, and is not allowed with template"},
		"no target": {platformv1.OperationSpec{TemplateRef: "Restart"}, "targetRef is required with templateRef"},
		"another's template": {platformv1.OperationSpec{Template: copyTemplate, ServiceAccountName: "able"},
			"needs spec.author"},
	} {
		t.Run(title, func(t *testing.T) {
			op := &platformv1.Operation{Spec: c.spec}
			op.Namespace, op.GenerateName = f.namespace, "refused-"
			err := f.person("ada").Create(t.Context(), op)
			if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
	op := f.inline("fixed", copyTemplate, nil)
	op.Spec.Template += "# changed\n"
	if err := env.Client.Update(t.Context(), op); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "immutable") {
		t.Errorf("another template is taken: %v", err)
	}
}
