// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// stepKind is one type of step.
type stepKind interface {
	// advance takes the step as far as the facts allow and records in it what it decides.
	advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict
}

// registration is one entry of the table of step kinds.
type registration struct {
	is   func(*optemplate.Step) bool
	kind stepKind
}

// registered are all types of steps, the particular verbs of the engine before the general one.
func registered() []registration {
	verb := func(verb optemplate.EngineVerb) func(*optemplate.Step) bool {
		return func(s *optemplate.Step) bool { return does(*s, verb) }
	}
	return []registration{
		{func(s *optemplate.Step) bool { return s.Agent != nil }, agentStep{}},
		{verb(optemplate.EngineSwitchover), switchoverStep{}},
		{verb(optemplate.EngineRotate), rotateStep{}},
		{verb(optemplate.EngineCreate), createStep{}},
		{verb(optemplate.EngineDelete), deleteStep{}},
		{verb(optemplate.EngineFailover), failoverStep{}},
		{verb(optemplate.EngineRebuild), rebuildStep{}},
		{verb(optemplate.EngineApply), applyStep{}},
		{verb(optemplate.EngineBackup), backupStep{}},
		{verb(optemplate.EngineDrill), drillStep{}},
		{func(s *optemplate.Step) bool { return onData(*s) }, dataStep{}},
		{func(s *optemplate.Step) bool { return s.Engine != nil }, engineStep{}},
		{func(s *optemplate.Step) bool { return s.Approval != nil }, approvalStep{}},
		{func(s *optemplate.Step) bool { return s.Wait != nil }, itemsStep{waitItem}},
		{func(s *optemplate.Step) bool { return s.Operation != nil }, itemsStep{childItem}},
		{func(s *optemplate.Step) bool { return s.Job != nil }, itemsStep{jobItem}},
		{func(s *optemplate.Step) bool { return s.Task() != nil }, itemsStep{jobItem}},
		{func(s *optemplate.Step) bool { return s.HTTP != nil }, itemsStep{httpItem}},
		{writesObject, itemsStep{objectItem}},
	}
}

// writesObject says whether a step applies, patches or deletes an object.
func writesObject(s *optemplate.Step) bool {
	return s.Apply != nil || s.Patch != nil || s.Delete != nil
}

// kindOf returns the type of a step; nil when this operator does not know it.
func kindOf(step *optemplate.Step) stepKind {
	for _, one := range registered() {
		if one.is(step) {
			return one.kind
		}
	}
	return nil
}
