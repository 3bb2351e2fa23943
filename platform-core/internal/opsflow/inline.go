// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// InlineDomain is the domain whose operator runs Operations that bring their template along, unless their label says
// another one.
const InlineDomain = "batch"

// IsInline says whether an Operation brings its template along and acts on no instance.
func IsInline(op *platformv1.Operation) bool { return op.Spec.Template != "" }

// CheckInline refuses what a spec asks for and its inline template does not offer. What an inline template does it does
// with the rights of an account that its author may use.
func CheckInline(op *platformv1.Operation, template optemplate.Template) *Refusal {
	if refusal := checkCommon(op.Spec, template); refusal != nil {
		return refusal
	}
	for i := range template.Steps {
		step := &template.Steps[i]
		if actsAs(step) && op.Spec.ServiceAccountName == "" {
			return refuse(platformv1.ReasonInvalidSpec, "step %q of the inline template needs rights in the namespace: set "+
				"serviceAccountName to a ServiceAccount that has them", step.Name)
		}
	}
	return nil
}

// actsAs says whether a step of an inline template is taken with the rights of an account.
func actsAs(step *optemplate.Step) bool {
	if step.Operation != nil {
		template := step.Operation.Inline()
		return template != nil && slices.ContainsFunc(template.Steps, func(s optemplate.Step) bool { return actsAs(&s) })
	}
	return step.Approval == nil && (step.HTTP == nil || step.HTTP.ReadsObjects())
}

// InlineTemplate reads the template that an Operation brings along.
func InlineTemplate(spec platformv1.OperationSpec) (optemplate.Template, *Refusal) {
	template, err := optemplate.ParseInline(spec.Template)
	if err != nil {
		return optemplate.Template{}, refuse(platformv1.ReasonInvalidSpec, "template is not valid: %v", err)
	}
	return template, nil
}

// Subject names what an Operation does, for events and messages.
func Subject(op *platformv1.Operation) string {
	if IsInline(op) {
		return fmt.Sprintf("Operation %q", op.Name)
	}
	return fmt.Sprintf("%s of %s %q", op.Spec.TemplateRef, op.Spec.TargetRef.Kind, op.Spec.TargetRef.Name)
}
