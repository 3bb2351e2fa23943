// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// TemplatePlan is the template that says what another spec of the target would bring about, or one of a target that is
// not there yet.
const TemplatePlan = "Plan"

// PlansNew says whether an Operation may ask what would come of a target that is not there yet.
func PlansNew(op *platformv1.Operation, target Target) bool {
	return op.Spec.TemplateRef == TemplatePlan && op.Spec.DryRun && target.Application != ""
}

// plans says whether a step is for a dry run only: it says what another spec would bring about.
func plans(step optemplate.Step) bool {
	return step.Engine != nil && step.Engine.Do == optemplate.EnginePlan
}

// checkTargetSpec refuses a spec of the target for a template that takes none, and the other way round.
func checkTargetSpec(spec platformv1.OperationSpec, template optemplate.Template) *Refusal {
	makes := slices.ContainsFunc(template.Steps, func(step optemplate.Step) bool {
		return step.Engine != nil && step.Engine.Do == optemplate.EngineCreate
	})
	takes := makes || slices.ContainsFunc(template.Steps, plans)
	switch {
	case takes && spec.TargetSpec == "":
		return refuse(platformv1.ReasonInvalidSpec, "template %q needs targetSpec: the whole spec that the target would have",
			template.Name)
	case !takes && spec.TargetSpec != "":
		return refuse(platformv1.ReasonInvalidSpec, "template %q takes no targetSpec: leave it out", template.Name)
	case takes && !makes && !spec.DryRun:
		return refuse(platformv1.ReasonInvalidSpec,
			"template %q only says what would be done: set dryRun to true; to have it done, apply the object", template.Name)
	case takes:
		if _, err := ParseSpec(spec.TargetSpec); err != nil {
			return refuse(platformv1.ReasonInvalidSpec, "%v", err)
		}
	}
	return nil
}

// ParseSpec reads a targetSpec from YAML or JSON. Whole numbers stay so.
func ParseSpec(text string) (map[string]any, error) {
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("targetSpec cannot be read: %w", err)
	}
	var spec map[string]any
	if err := json.Unmarshal(data, &spec); err != nil || spec == nil {
		return nil, fmt.Errorf("targetSpec is no object: write what would be below spec")
	}
	return spec, nil
}

// planned is the spec that the outermost object would have. It belongs to that object alone: what stands below is
// declared there.
func (r *run) planned() (map[string]any, string) {
	if why := r.facts.declares(); why != "" {
		return nil, why
	}
	spec, err := ParseSpec(r.op.Spec.TargetSpec)
	if err != nil {
		return nil, err.Error()
	}
	return spec, ""
}

// declares says why the target is not the outermost object; empty when it is.
func (f Facts) declares() string {
	if f.Declared.Object == f.Target {
		return ""
	}
	return fmt.Sprintf("%s is made from %s, which declares what it is to be: plan another spec of that", f.Target,
		f.Declared.Object)
}
