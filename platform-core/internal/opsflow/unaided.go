// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Unaided returns the template of a run that is in the midst of giving pods other volumes; nil for every other one.
// Such a run does not end when the plugin of its target is gone: it would leave pods that nobody is led to, and its
// steps that put all back are the engine's and need no plugin.
func Unaided(op *platformv1.Operation) *optemplate.Template {
	name := op.Spec.TemplateRef[strings.LastIndex(op.Spec.TemplateRef, "/")+1:]
	template, known := Defaults()[name]
	// A plugin may have one of its own by that name, which has other steps.
	if !known || !Running(op) || !ChangesData(template) ||
		!slices.EqualFunc(template.Order(), op.Status.Steps, func(name string, step platformv1.StepStatus) bool {
			return name == step.Name
		}) {
		return nil
	}
	return &template
}

// unaided is the verdict of a step that waits for the plugin of the target; done when that is there, or the step needs
// none. What is between the volumes goes on: its pods have ended, and clients wait for them.
func (r *run) unaided(t *optemplate.Step, step *platformv1.StepStatus) verdict {
	switch {
	case r.facts.NoPlugin == nil,
		does(*t, optemplate.EngineSwapData) && step.Phase == platformv1.OperationRunning,
		does(*t, optemplate.EngineOpenData):
		return verdict{}
	}
	waiting := "the plugin of " + r.facts.Target + ": " + r.facts.NoPlugin.Message
	if !r.passed() {
		waiting = fmt.Sprintf("%s; or cancel Operation %q, which puts all back as it was", waiting, r.op.Name)
	}
	return verdict{step: t.Name, waiting: waiting, reason: r.facts.NoPlugin.Reason, retry: declaredPoll}
}
