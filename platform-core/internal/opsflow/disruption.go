// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// Disrupts says whether a template restarts processes or replaces pods that serve. Starting and stopping an instance is what one asks
// for with that very time in mind, and disturbs nobody else.
func Disrupts(template plugin.OperationTemplate) bool {
	return slices.ContainsFunc(template.Steps, func(step plugin.OperationStep) bool {
		return step.Agent != nil && step.Agent.Call != plugin.AgentReload
	})
}

// DisruptsByName is Disrupts for the template that a templateRef names, of a bundle that may be nil. One that is not known counts as one that
// does.
func DisruptsByName(templateRef string, bundle *plugin.Bundle) bool {
	if bundle == nil {
		return true
	}
	template, refusal := FindTemplate(platformv1.OperationSpec{TemplateRef: templateRef}, bundle)
	return refusal != nil || Disrupts(template)
}

// TriggerOf says who caused an Operation: the engine says so in a label, and nobody else can set that.
func TriggerOf(op *platformv1.Operation) platformv1.OperationTrigger {
	if trigger := op.Labels[platformv1.TriggerLabel]; trigger != "" {
		return platformv1.OperationTrigger(trigger)
	}
	return platformv1.TriggerUser
}
