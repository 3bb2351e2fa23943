// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Templates of the engine alone: their target is absent when one begins or when it ends, so that no plugin has a say.
const (
	TemplateCreate = "Create"
	TemplateDelete = "Delete"
)

// Outputs of the steps of those templates.
const (
	// OutputUID is the UID of the object that was made or deleted.
	OutputUID = "uid"
	// OutputApplication is the UID of the Application that goes with it.
	OutputApplication = "application"
)

// MakesOrRemoves says whether a template makes or deletes its target.
func MakesOrRemoves(templateRef string) bool {
	return templateRef == TemplateCreate || templateRef == TemplateDelete
}

// Self is the outermost object that declares the target, as it is now.
type Self struct {
	// UID of it, and its generation.
	UID        types.UID
	Generation int64
	// Maker is the UID of the Operation that made it; empty for none.
	Maker types.UID
	// Going says that it is being deleted.
	Going Presence
	// Application is the UID of the Application that it is or compiles to; empty while there is none.
	Application types.UID
	// Keeps says what becomes of the volumes.
	Keeps platformv1.DeletionPolicy
}

// Life is the making or the deletion of the outermost object, with the rights of the account that the Operation names.
type Life struct {
	// UID of the object to delete; empty to make one.
	UID types.UID
	// Spec of the one to make.
	Spec map[string]any
}

// CheckLife refuses what an Operation that makes or deletes its target cannot do. self is what is there; nil for
// nothing.
func CheckLife(op *platformv1.Operation, target Target, self *Self) *Refusal {
	makes := op.Spec.TemplateRef == TemplateCreate
	template := Defaults()[op.Spec.TemplateRef]
	switch {
	case target.Kind != TargetApplication && target.Kind != TargetTyped:
		return refuse(platformv1.ReasonInvalidSpec,
			"template %q is for an Application or a typed object, and %s is made by one of these", template.Name, target)
	case op.Spec.ServiceAccountName == "":
		return refuse(platformv1.ReasonInvalidSpec, "template %q does nothing that its author may not do: name an account "+
			"of this namespace that may %s a %s in serviceAccountName, and yourself in author",
			template.Name, strings.ToLower(template.Name), target.ObjectKind)
	case makes && self != nil && self.Maker != op.UID:
		return refuse(platformv1.ReasonAlreadyExists, "there is a %s already: change it, or delete it first", target)
	case makes && op.Spec.RetryOf != "":
		return refuse(platformv1.ReasonInvalidSpec,
			"template %q cannot be tried again by retryOf: create the Operation without it", template.Name)
	case !makes && self == nil:
		return refuse(platformv1.ReasonTargetNotFound, "there is no %s in this namespace: check kind and name of the target",
			target)
	}
	return nil
}

// createStep makes the target and waits until it is Ready.
type createStep struct{}

func (createStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if step.Phase == platformv1.OperationPending {
		step.Outputs = nil
		r.begin(step)
	}
	uid, made := step.Outputs[OutputUID]
	self := r.facts.Self
	switch {
	case !made && self != nil && self.Maker != r.op.UID:
		return verdict{failed: fmt.Sprintf("there is a %s already that this Operation did not make", r.facts.Target),
			final: yes}
	case !made:
		spec, err := ParseSpec(r.op.Spec.TargetSpec)
		if err != nil {
			return verdict{failed: err.Error(), final: yes}
		}
		answer, v := r.answer(&Effect{Key: r.key(step, ""), Life: &Life{Spec: spec}}, "the making of "+r.facts.Target)
		if answer == nil {
			return v
		}
		step.Outputs = maps.Clone(answer.Outputs)
		return verdict{waiting: r.facts.Target + " to be taken up", retry: closePoll}
	case self == nil || string(self.UID) != uid:
		return verdict{failed: fmt.Sprintf("%s is gone: somebody deleted it", r.facts.Target), final: yes}
	}
	v := r.settled(step.Outputs[OutputGeneration])
	// Nothing wakes an Operation whose Application was not there when it began.
	v.retry = min(v.retry, closePoll)
	return v
}

// deleteStep deletes the target and waits until all that came of it is gone.
type deleteStep struct{}

func (deleteStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	self := r.facts.Self
	if step.Phase == platformv1.OperationPending {
		r.begin(step)
		if step.Outputs == nil && self != nil {
			step.Outputs = map[string]string{OutputUID: string(self.UID), OutputApplication: string(self.Application)}
		}
	}
	waiting := fmt.Sprintf("%s to be gone", r.facts.Target)
	if self != nil && string(self.UID) == step.Outputs[OutputUID] {
		if self.Going == PodGoing {
			return verdict{waiting: waiting, retry: closePoll}
		}
		answer, v := r.answer(&Effect{Key: r.key(step, ""), Life: &Life{UID: self.UID}}, "the deletion of "+r.facts.Target)
		if answer == nil {
			return v
		}
		return verdict{waiting: waiting, retry: closePoll}
	}
	if len(r.facts.Remains) > 0 {
		return verdict{waiting: strings.Join(slices.Sorted(slices.Values(r.facts.Remains)), ", ") + " to be gone",
			retry: closePoll}
	}
	return verdict{}
}

// describeLife says what a step would make or delete.
func (r *run) describeLife(t *optemplate.Step) (lines []string, why string) {
	if t.Engine.Do == optemplate.EngineDelete {
		volumes, policy := "volumes are kept", platformv1.DeletionPolicy("")
		switch {
		case r.facts.Self != nil:
			policy = r.facts.Self.Keeps
		case r.facts.Application != nil:
			policy = r.facts.Application.Spec.DeletionPolicy
		}
		switch policy {
		case platformv1.DeletionPolicyDelete:
			volumes = "volumes are deleted"
		case platformv1.DeletionPolicySnapshot:
			volumes = "volumes are deleted once there is a VolumeSnapshot of each"
		}
		return []string{fmt.Sprintf("deletes %s and all that is made from it; %s", r.facts.Target, volumes)}, ""
	}
	forecast := r.facts.Forecast[r.path+t.Name]
	lines = append(lines, "makes "+r.facts.Target)
	for _, change := range forecast.Changes {
		lines = append(lines, change.String())
	}
	r.status.Changes = append(r.status.Changes, forecast.Changes...)
	return lines, ""
}

// livesOn says whether a step makes or deletes the target itself.
func livesOn(step optemplate.Step) bool {
	return step.Engine != nil && (step.Engine.Do == optemplate.EngineCreate || step.Engine.Do == optemplate.EngineDelete)
}
