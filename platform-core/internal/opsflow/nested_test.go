// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// foretelling is a dry run of a template whose steps run others.
func foretelling(t *testing.T, text string, others ...string) (*platformv1.Operation, Facts) {
	t.Helper()
	w := worldOf(text, pod(0, primary), pod(1, reader))
	w.op.Spec.DryRun, w.op.Spec.TargetRef = true, w.facts.Reference
	templates := map[string]optemplate.Template{}
	for _, other := range others {
		template, err := optemplate.Parse(other)
		if err != nil {
			t.Fatal(err)
		}
		templates[template.Name] = template
	}
	w.facts.Others = func(name string) (optemplate.Template, *Refusal) {
		if template, known := templates[name]; known {
			return template, nil
		}
		if template, known := Defaults()[name]; known {
			return template, nil
		}
		return optemplate.Template{}, refuse(platformv1.ReasonTemplateNotFound, "there is no template %q", name)
	}
	w.facts.Admit = func(op *platformv1.Operation, template optemplate.Template) *Refusal {
		target, refusal := ParseTarget(op.Spec.TargetRef)
		if refusal != nil {
			return refusal
		}
		return Check(op, target, "", template)
	}
	return w.op, w.facts
}

const maintain = `name: Maintain
parameters: {size: {schema: string, default: "3"}, calm: {schema: string, default: "yes"}}
steps:
  - name: grow
    operation: {templateRef: Grow, parameters: {size: "${parameters.size}"}}
  - name: look
    wait: {apiVersion: v1, kind: ConfigMap, name: found, until: object.ok, outputs: {who: object.who}}
  - name: tell
    operation: {templateRef: HorizontalScale, parameters: {replicas: "${steps.look.outputs.who}"}}
  - name: hurry
    when: parameters.calm != 'yes'
    operation: {templateRef: HorizontalScale, parameters: {replicas: many}}
  - name: each
    forEach: "['1', '2']"
    operation: {templateRef: HorizontalScale, parameters: {replicas: "${each}"}}
  - name: end
    operation: {templateRef: Restart}
`

const grow = `name: Grow
parameters: {size: {schema: string}}
preconditions: [{rule: target.pods > 5, message: "it has just ${target.pods} pods"}]
steps:
  - name: scale
    operation: {templateRef: HorizontalScale, parameters: {replicas: "${parameters.size}"}}
  - name: note
    commits: a note stays
    apply: {apiVersion: v1, kind: ConfigMap, name: "note-${parameters.size}"}
`

// A dry run describes what its steps run, with the parameters that it would have, however deep that is.
func TestADryRunDescribesWhatItsStepsRun(t *testing.T) {
	op, facts := foretelling(t, maintain, grow)
	change := func(name string) platformv1.PlannedChange {
		return platformv1.PlannedChange{Kind: "Pod", Name: name, Action: platformv1.PlannedCreate}
	}
	facts.Forecast = map[string]Forecast{}
	edits := EditsOf(op, facts)
	for path, edit := range edits {
		facts.Forecast[path] = Forecast{Fields: []string{"x"},
			Changes: []platformv1.PlannedChange{change(fmt.Sprintf("of-%v", edit.Fields[0].Value))}}
	}
	d := Start(op, "redis-a", facts, nil)
	want := []string{
		`grow: runs Operation Grow with size "3"`,
		`grow: as things are now it would not begin: Grow of Redis "a" cannot begin: it has just 2 pods`,
		`grow/scale: runs Operation HorizontalScale with replicas "3"`,
		"grow/scale/scale: sets components[redis].replicas to 3",
		"grow/scale/scale: Create Pod of-3",
		"grow/note: apply ConfigMap note-3",
		"grow/note: from here on there is no way back: a note stays",
		"look: waits until object.ok of ConfigMap found",
		"tell: runs Operation HorizontalScale with parameters that are known only once the steps before it have ended",
		"hurry: nothing, since its condition does not hold",
		`each: runs Operation HorizontalScale for 1 with replicas "1"`,
		"each[1]/scale: sets components[redis].replicas to 1",
		"each[1]/scale: Create Pod of-1",
		`each: runs Operation HorizontalScale for 2 with replicas "2"`,
		"each[2]/scale: sets components[redis].replicas to 2",
		"each[2]/scale: Create Pod of-2",
		"end: runs Operation Restart",
		"end/restart: calls Restart in redis-a-main-1, then redis-a-main-0",
	}
	if d.Status.Phase != platformv1.OperationSucceeded || !slices.Equal(d.Status.Plan, want) {
		t.Errorf("it is %s, %q, and the plan is\n%s", d.Status.Phase, d.Status.Error, strings.Join(d.Status.Plan, "\n"))
	}
	changes := []platformv1.PlannedChange{change("of-3"), change("of-1"), change("of-2")}
	if !slices.Equal(d.Status.Changes, changes) {
		t.Errorf("changes are %v", d.Status.Changes)
	}
	if len(d.Status.Steps) != 6 || d.Effect != nil {
		t.Errorf("it has steps %+v and effect %+v", d.Status.Steps, d.Effect)
	}
	// For a maintenance window only what the Operation itself edits counts: what it runs is asked by itself.
	facts.Others = nil
	if edits := EditsOf(op, facts); len(edits) != 0 {
		t.Errorf("without a dry run it edits %v", edits)
	}
}

// What would be refused once its step is there is refused by the dry run.
func TestADryRunRefusesWhatItsStepsWould(t *testing.T) {
	for name, tc := range map[string]struct{ text, other, says string }{
		"parameter": {"name: Top\nsteps:\n  - {name: a, operation: {templateRef: HorizontalScale, parameters: {replicas: " +
			"few}}}\n", grow,
			`Operation HorizontalScale, which step "a" runs, would be refused: parameter "replicas"`},
		"absent": {"name: Top\nsteps:\n  - {name: a, operation: {templateRef: Absent}}\n", grow,
			`would be refused: there is no template "Absent"`},
		"deeper": {"name: Top\nsteps:\n  - {name: a, operation: {templateRef: Grow, parameters: {size: few}}}\n", grow,
			`step "scale" of Operation Grow, which step "a" runs: Operation HorizontalScale, which step "scale" runs, would ` +
				`be refused: parameter "replicas"`},
		"twice": {"name: Top\nsteps:\n  - {name: a, forEach: \"['x', 'x']\", operation: {templateRef: Restart}}\n", grow,
			`step "a" would go through "x" twice`},
	} {
		op, facts := foretelling(t, tc.text, tc.other)
		d := Start(op, "redis-a", facts, nil)
		if d.Status.Phase != platformv1.OperationFailed || !strings.Contains(d.Status.Error, tc.says) {
			t.Errorf("%s: it is %s and says %q, want %q", name, d.Status.Phase, d.Status.Error, tc.says)
		}
	}
}

// What a dry run describes is bounded.
func TestADryRunDescribesOnlySoMuch(t *testing.T) {
	const many = "forEach: \"['0','1','2','3','4','5','6','7','8','9']\""
	op, facts := foretelling(t, "name: Top\nsteps:\n  - {name: a, "+many+", operation: {templateRef: Middle}}\n",
		"name: Middle\nsteps:\n  - {name: b, "+many+", operation: {templateRef: Restart}}\n")
	d := Start(op, "redis-a", facts, nil)
	if last := d.Status.Plan[len(d.Status.Plan)-1]; d.Status.Phase != platformv1.OperationSucceeded ||
		last != "a[9]/b: and so on: a dry run describes 100 Operations that steps run at most" {
		t.Errorf("it is %s, and the last of %d lines is %q", d.Status.Phase, len(d.Status.Plan), last)
	}
}
