// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// stepKind is one type of step.
type stepKind interface {
	// advance takes the step as far as the facts allow and records in it what it decides.
	advance(r *run, t *plugin.OperationStep, step *platformv1.StepStatus) verdict
}

// registration is one entry of the table of step kinds.
type registration struct {
	is   func(*plugin.OperationStep) bool
	kind stepKind
}

// registered are all types of steps, the particular verbs of the engine before the general one.
func registered() []registration {
	verb := func(verb plugin.EngineVerb) func(*plugin.OperationStep) bool {
		return func(s *plugin.OperationStep) bool { return does(*s, verb) }
	}
	return []registration{
		{func(s *plugin.OperationStep) bool { return s.Agent != nil }, agentStep{}},
		{verb(plugin.EngineSwitchover), switchoverStep{}},
		{verb(plugin.EngineRotate), rotateStep{}},
		{verb(plugin.EngineCreate), createStep{}},
		{verb(plugin.EngineDelete), deleteStep{}},
		{verb(plugin.EngineFailover), failoverStep{}},
		{verb(plugin.EngineRebuild), rebuildStep{}},
		{verb(plugin.EngineApply), applyStep{}},
		{verb(plugin.EngineBackup), backupStep{}},
		{verb(plugin.EngineDrill), drillStep{}},
		{func(s *plugin.OperationStep) bool { return onData(*s) }, dataStep{}},
		{func(s *plugin.OperationStep) bool { return s.Engine != nil }, engineStep{}},
		{func(s *plugin.OperationStep) bool { return s.Approval != nil }, approvalStep{}},
		{func(s *plugin.OperationStep) bool { return s.Wait != nil }, itemsStep{waitItem}},
		{func(s *plugin.OperationStep) bool { return s.Operation != nil }, itemsStep{childItem}},
		{func(s *plugin.OperationStep) bool { return s.Job != nil }, itemsStep{jobItem}},
		{func(s *plugin.OperationStep) bool { return s.Task() != nil }, itemsStep{jobItem}},
		{func(s *plugin.OperationStep) bool { return s.HTTP != nil }, itemsStep{httpItem}},
		{writesObject, itemsStep{objectItem}},
	}
}

// writesObject says whether a step applies, patches or deletes an object.
func writesObject(s *plugin.OperationStep) bool {
	return s.Apply != nil || s.Patch != nil || s.Delete != nil
}

// kindOf returns the type of a step; nil when this operator does not know it.
func kindOf(step *plugin.OperationStep) stepKind {
	for _, one := range registered() {
		if one.is(step) {
			return one.kind
		}
	}
	return nil
}
