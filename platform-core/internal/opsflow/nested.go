// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// maxForetold is how many Operations that steps would run a dry run describes: a list of a list of a list would not fit
// into its record.
const maxForetold = 100

// Runs says whether an Operation runs a template like that, itself or, as far as a dry run asks, by one of its steps.
// How deep that goes is bounded: a plugin whose templates run each other in a circle is refused, and those of the
// engine run no others.
func (f Facts) Runs(is func(optemplate.Template) bool) bool { return f.runs(f.Template, is) }

func (f Facts) runs(template optemplate.Template, is func(optemplate.Template) bool) bool {
	return is(template) || f.Others != nil && slices.ContainsFunc(template.Steps, func(step optemplate.Step) bool {
		if step.Operation == nil {
			return false
		}
		other, refusal := f.Others(step.Operation.TemplateRef)
		return refusal == nil && f.runs(other, is)
	})
}

// foretold is an Operation that a step would run, as far as that is known before.
type foretold struct {
	// words say what is run.
	words string
	// run of it; nil for one that cannot be described.
	run *run
}

// foretell returns the Operations that a step would run, one for each item of its forEach; why says why one of them
// would be refused.
func (r *run) foretell(t *optemplate.Step) (all []foretold, why string) {
	words := "runs Operation " + t.Operation.TemplateRef
	if inline := t.Operation.Inline(); inline != nil {
		words = "runs an Operation of the inline template " + inline.Name
	}
	if r.facts.Others == nil {
		return []foretold{{words: words}}, ""
	}
	items := []item{{}}
	if t.ForEach != "" {
		values, err := r.facts.Template.Texts(t.Name, t.ForEach, r.variables(t, nil))
		if err != nil {
			return []foretold{{words: words +
				" for each item of a list that is known only once the steps before it have ended"}}, ""
		}
		if why := checkItems(t, values, maxItems); why != "" {
			return nil, why
		}
		items = nil
		for i := range values {
			items = append(items, item{value: &values[i], number: i + 1})
		}
	}
	for _, one := range items {
		if *r.foretold++; *r.foretold > maxForetold {
			return append(all, foretold{words: fmt.Sprintf("and so on: a dry run describes %d Operations that steps run at most",
				maxForetold)}), ""
		}
		next, why := r.foretellItem(t, words, one)
		if why != "" {
			return nil, why
		}
		all = append(all, next)
	}
	return all, ""
}

func (r *run) foretellItem(t *optemplate.Step, words string, one item) (foretold, string) {
	path := r.path + t.Name
	if one.value != nil {
		words, path = words+" for "+*one.value, fmt.Sprintf("%s[%s]", path, *one.value)
	}
	spec, v := r.childSpec(t, one)
	if !v.done() {
		return foretold{words: words + " with parameters that are known only once the steps before it have ended"}, ""
	}
	child := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.op.Namespace, Name: platformv1.DerivedName(platformv1.MaxLabelValue, r.op.Name, t.Name),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(r.op, platformv1.GroupVersion.WithKind("Operation"))},
	}, Spec: spec}
	template, refusal := r.facts.Others(spec.TemplateRef)
	if refusal == nil {
		refusal = r.facts.Admit(child, template)
	}
	if refusal != nil {
		return foretold{}, fmt.Sprintf("Operation %s, which step %q runs, would be refused: %s", spec.TemplateRef, t.Name,
			refusal.Message)
	}
	facts := r.facts
	facts.Template, facts.Parameters = template, ParametersInForce(spec, template)
	next := &run{op: child, facts: facts, status: &child.Status, path: path + "/", foretold: r.foretold}
	for _, name := range template.Order() {
		child.Status.Steps = append(child.Status.Steps, platformv1.StepStatus{Name: name, Phase: platformv1.OperationPending})
	}
	return foretold{words: words + inWords(spec.Parameters), run: next}, ""
}

// inWords are parameters as they are given, in order.
func inWords(parameters platformv1.Parameters) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		words = append(words, fmt.Sprintf("%s %q", name, string(parameters[name])))
	}
	if len(words) == 0 {
		return ""
	}
	return " with " + strings.Join(words, ", ")
}

// describeNested notes what a step runs, and below it what that would do; before goes in front of its first line.
func (r *run) describeNested(t *optemplate.Step, before string) (why string) {
	all, why := r.foretell(t)
	if why != "" {
		return why
	}
	for _, one := range all {
		r.note(t, before+one.words)
		if one.run == nil {
			continue
		}
		if refusal := Preconditions(one.run.facts); refusal != nil {
			// The steps before it may bring about what is missing.
			r.note(t, "as things are now it would not begin: "+refusal.Message)
		}
		if step, why := one.run.describeAll(); why != "" {
			return fmt.Sprintf("step %q of Operation %s, which step %q runs: %s", step, t.Operation.TemplateRef, t.Name, why)
		}
		r.status.Plan = append(r.status.Plan, one.run.status.Plan...)
		r.status.Changes = append(r.status.Changes, one.run.status.Changes...)
	}
	return ""
}
