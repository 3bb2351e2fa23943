// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// disruptive are the verbs of the engine that restart or replace pods, or have another one become the primary.
var disruptive = []optemplate.EngineVerb{optemplate.EngineResize, optemplate.EngineUpgrade, optemplate.EngineDowngrade,
	optemplate.EngineUpgradePlugin, optemplate.EngineRotate, optemplate.EngineSwitchover, optemplate.EngineFailover,
	optemplate.EngineRebuild}

// Disrupts says whether a template restarts processes or replaces pods that serve. Starting and stopping an instance is
// what one asks for with that very time in mind, and disturbs nobody else; neither do more pods or more storage, nor
// what a plugin's action does by itself. others are the templates that its steps can run.
func Disrupts(template optemplate.Template, others func(name string) (optemplate.Template, *Refusal)) bool {
	return slices.ContainsFunc(template.Steps, func(step optemplate.Step) bool {
		switch {
		case step.Agent != nil:
			return step.Agent.Call != "" && step.Agent.Call != optemplate.AgentReload
		case step.Engine != nil:
			return slices.Contains(disruptive, step.Engine.Do)
		case step.Operation != nil:
			nested, refusal := others(step.Operation.TemplateRef)
			return refusal != nil || Disrupts(nested, others)
		}
		return false
	})
}

// DisruptsByName is Disrupts for the template that a templateRef names, of a bundle that may be nil. One that is not
// known counts as one that does.
func DisruptsByName(templateRef string, bundle *plugin.Bundle) bool {
	if bundle == nil {
		return true
	}
	find := func(name string) (optemplate.Template, *Refusal) {
		return FindTemplate(platformv1.OperationSpec{TemplateRef: name}, bundle)
	}
	template, refusal := find(templateRef)
	return refusal != nil || Disrupts(template, find)
}

// TriggerOf says who caused an Operation: the engine says so in a label, and nobody else can set that.
func TriggerOf(op *platformv1.Operation) platformv1.OperationTrigger {
	if trigger := op.Labels[platformv1.TriggerLabel]; trigger != "" {
		return platformv1.OperationTrigger(trigger)
	}
	return platformv1.TriggerUser
}
