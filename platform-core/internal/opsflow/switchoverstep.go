// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// closePoll is after how long something is read again of which no watch tells: how far a handover is, or an object that
// comes or goes.
const closePoll = time.Second

// switchoverStep asks a set to have its primary hand over, and waits until another pod writes. The controller of
// WorkloadSets does it.
type switchoverStep struct{}

// Outputs of a switchover.
const (
	outputFrom = "from"
	outputTo   = "to"
	// outputSet is the set that is asked, for as long as it is.
	outputSet = "asked"
	// outputRefused is the time, in RFC 3339, since when a set says that its primary does not hand over.
	outputRefused = "refused"
)

// What a set that was asked to have its primary hand over answers, as outputs of the effect.
const (
	// OutputProgress says how far it is.
	OutputProgress = "progress"
	// OutputRefusal says why it does not, although its primary works; it does all the same when that changes.
	OutputRefusal = "refusal"
)

// handoverPatience is how long a set may say that its primary does not hand over: a pod that catches up, or follows
// again, takes over all the same.
const handoverPatience = 10 * time.Second

func (s switchoverStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if step.Phase == platformv1.OperationPending {
		if v := s.begin(r, t, step); !v.done() {
			return v
		}
	}
	from, to := step.Outputs[outputFrom], step.Outputs[outputTo]
	set := platformv1.WorkloadSetNameOf(from)
	primary := r.facts.primaryOf(set)
	if primary != nil && primary.Name != from {
		if v := withdraw(r, step); !v.done() {
			return v
		}
		delete(step.Outputs, outputRefused)
		step.Outputs[outputTo] = primary.Name
		if to != "" && primary.Name != to {
			return failedf("pod %s took over from %s, and %s was to", primary.Name, from, to)
		}
		return verdict{}
	}
	return handedOver(r, step, &Effect{Key: r.key(step, ""), Handover: &Handover{Set: set, From: from, To: to}})
}

// handedOver asks a set to have its primary hand over, and waits for that. Where it will not, the request is taken
// back: nobody counts on it any more when a pod comes later that could take over.
func handedOver(r *run, step *platformv1.StepStatus, effect *Effect) verdict {
	waiting := fmt.Sprintf("another pod to take over from %s", effect.Handover.From)
	if to := effect.Handover.To; to != "" {
		waiting = fmt.Sprintf("pod %s to take over from %s", to, effect.Handover.From)
	}
	answer, v := r.answer(effect, waiting)
	switch {
	case answer == nil:
		return v
	case answer.Problem != "":
		// The set has said for good that it does not.
		return verdict{failed: answer.Problem}
	}
	if progress := answer.Outputs[OutputProgress]; progress != "" {
		waiting += ": " + progress
	}
	refusal := answer.Outputs[OutputRefusal]
	if refusal == "" {
		delete(step.Outputs, outputRefused)
		return verdict{waiting: waiting, retry: closePoll}
	}
	left := r.since(step, outputRefused).Add(handoverPatience).Sub(r.facts.Now)
	if left > 0 {
		return verdict{waiting: waiting, retry: min(left, closePoll)}
	}
	if v := withdraw(r, step); !v.done() {
		return v
	}
	// Another attempt has time of its own.
	delete(step.Outputs, outputRefused)
	return verdict{failed: refusal}
}

// since is the time that an output of a step names; it names the present from now on where it names none.
func (r *run) since(step *platformv1.StepStatus, output string) time.Time {
	since, err := time.Parse(time.RFC3339, step.Outputs[output])
	if err != nil {
		since = r.facts.Now
		setOutput(step, output, since.UTC().Format(time.RFC3339))
	}
	return since
}

// withdraw takes the request back, so that nothing hands over again when the pod writes another time. It is done once.
func withdraw(r *run, step *platformv1.StepStatus) verdict {
	set := step.Outputs[outputSet]
	if set == "" {
		return verdict{}
	}
	answer, v := r.answer(&Effect{Key: r.key(step, "withdraw"), Handover: &Handover{Set: set}},
		"the request to be taken back")
	if answer == nil && v.failed == "" {
		return v
	}
	// A set that is gone has no request.
	delete(step.Outputs, outputSet)
	return verdict{}
}

// begin records who is to hand over.
func (s switchoverStep) begin(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	values, why := r.values(t)
	if why != "" {
		return verdict{failed: why}
	}
	component, err := r.facts.componentOrAny(values["component"])
	if err != nil {
		return verdict{failed: err.Error()}
	}
	primaries := r.facts.primaries(component)
	switch len(primaries) {
	case 0:
		return failedf("%s has no primary, so that there is nothing to hand over", r.facts.Target)
	case 1:
	default:
		return failedf("%d pods of %s are primaries: name a Component or WorkloadSet as the target", len(primaries),
			r.facts.Target)
	}
	from, to := primaries[0], values["to"]
	if v := r.facts.checkCandidate(from, to); !v.done() {
		return v
	}
	r.begin(step)
	step.Outputs = map[string]string{outputFrom: from, outputTo: to, outputSet: platformv1.WorkloadSetNameOf(from)}
	return verdict{}
}

// primaries are the pods of a component that take writes; of all where it is empty. Those that are about to be replaced
// have no label any more, and are on record.
func (f Facts) primaries(component string) []string {
	var names []string
	for _, pod := range f.Pods {
		if pod.Access == platformv1.RoleReadWrite && (component == "" || pod.Component == component) {
			names = append(names, pod.Name)
		}
	}
	if len(names) > 0 {
		return names
	}
	for _, set := range slices.Sorted(maps.Keys(f.Writing)) {
		if w := f.Writing[set]; (component == "" || w.Component == component) && w.Record != nil && w.Record.Member != nil {
			names = append(names, w.Record.Member.Name)
		}
	}
	return names
}

// componentOrAny is the component that is meant; empty where none is named and the target is no part of one.
func (f Facts) componentOrAny(named string) (string, error) {
	if named == "" && f.Component == "" {
		return "", nil
	}
	return f.componentFor(named)
}

// checkCandidate says what is wrong with the pod that is to take over from another one; nothing where any may.
func (f Facts) checkCandidate(from, to string) verdict {
	switch next := f.pod(to); {
	case to == "":
		return verdict{}
	case to == from:
		return failedf("pod %s is the primary already", to)
	case next == nil || platformv1.WorkloadSetNameOf(to) != platformv1.WorkloadSetNameOf(from):
		return failedf("pod %q cannot take over: it is no pod of %s", to, platformv1.WorkloadSetNameOf(from))
	}
	return verdict{}
}

// Asked are the sets that an Operation asked for another primary, and has not taken that back.
func Asked(op *platformv1.Operation) []string {
	var sets []string
	for _, step := range op.Status.Steps {
		if set := step.Outputs[outputSet]; set != "" {
			sets = append(sets, set)
		}
	}
	return sets
}

// primaryOf is the pod of a set that takes writes; nil while there is none, or more than one.
func (f Facts) primaryOf(set string) *Pod {
	var primary *Pod
	for i := range f.Pods {
		pod := &f.Pods[i]
		if pod.Access != platformv1.RoleReadWrite || platformv1.WorkloadSetNameOf(pod.Name) != set {
			continue
		}
		if primary != nil {
			return nil
		}
		primary = pod
	}
	return primary
}
