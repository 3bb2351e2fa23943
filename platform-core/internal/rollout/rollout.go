// SPDX-License-Identifier: Apache-2.0

// Package rollout decides what a WorkloadSet needs next. It is pure: facts in,
// steps with reasons out, no client and no clock.
//
// Rules, in order of weight:
//   - Missing pods are made, all at once; pods beyond the wanted number go, the highest ordinal first, one at a time.
//   - A pod that has ended for good (Failed, Succeeded) is replaced.
//   - A pod of an old revision is replaced, one at a time: broken ones first, then those that take no
//     writes, the writer last; never while a pod that is already up to date is not yet ready.
//   - A process with an old configuration is restarted in place, in the same order and with the same caution;
//     a broken one at once, since new configuration may be what mends it.
package rollout

import (
	"fmt"
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Facts are what is known of a set.
type Facts struct {
	// Name of the WorkloadSet.
	Name string
	// Replicas wanted.
	Replicas int32
	// Revision that pods should have.
	Revision string
	// ConfigDigest that processes should run with.
	ConfigDigest string
	// Roles that the plugin declares.
	Roles []platformv1.SetRole
	// Pods that are there, in any order.
	Pods []Pod
}

// Pod is what is known of one pod.
type Pod struct {
	Name    string
	Ordinal int32
	// Life of the pod.
	Life Life
	// Revision that it was made from.
	Revision string
	// Ready is the pod's Ready condition.
	Ready Readiness
	// Role label that it has.
	Role string
	// Report of its status agent.
	Report report.Report
}

// Life is where a pod stands between its making and its end.
type Life string

// Lives of a pod.
const (
	Alive       Life = "Alive"
	Terminating Life = "Terminating"
	Ended       Life = "Ended"
)

// Readiness of a pod.
type Readiness string

// Values of Readiness.
const (
	Ready    Readiness = "Ready"
	NotReady Readiness = "NotReady"
)

// Action is what a step does.
type Action string

// Actions.
const (
	// CreatePod makes the pod with the ordinal, its volumes and certificate first.
	CreatePod Action = "CreatePod"
	// DeletePod deletes the pod; it is made again when its ordinal is wanted.
	DeletePod Action = "DeletePod"
	// PushPlan restarts the process in place with the current plan.
	PushPlan Action = "PushPlan"
	// SetRole sets the role label of the pod to Step.Role; empty removes it.
	SetRole Action = "SetRole"
)

// Step is one thing to do, and why.
type Step struct {
	Action  Action
	Ordinal int32
	Pod     string
	Role    string
	Reason  string
}

// String returns the step as prose.
func (s Step) String() string {
	if s.Action == SetRole {
		return fmt.Sprintf("%s %s %q: %s", s.Action, s.Pod, s.Role, s.Reason)
	}
	return fmt.Sprintf("%s %s: %s", s.Action, s.Pod, s.Reason)
}

// Plan returns the steps to take now. None means that the set is settled or
// that something has to happen first (Pending tells which).
func Plan(f Facts) []Step {
	steps := planRoles(f)
	steps = append(steps, planMissing(f)...)
	if step, ok := planExcess(f); ok {
		return append(steps, step)
	}
	if ended := planEnded(f); len(ended) > 0 {
		return append(steps, ended...)
	}
	if step, ok := planOutdated(f); ok {
		return append(steps, step)
	}
	if step, ok := planConfiguration(f); ok {
		return append(steps, step)
	}
	return steps
}

// Settled says whether a pod is all that is wanted: alive, ready, healthy, of the
// current revision and running with the current configuration.
func (f Facts) Settled(p Pod) Readiness {
	if p.Life == Alive && p.Ready == Ready && p.Report.Health == report.Healthy &&
		p.Revision == f.Revision && p.Report.ConfigDigest == f.ConfigDigest && p.Role == f.wantedRole(p) {
		return Ready
	}
	return NotReady
}

func (f Facts) wanted(p Pod) bool { return p.Ordinal < f.Replicas }

func (f Facts) writes(p Pod) bool {
	return slices.ContainsFunc(f.Roles, func(r platformv1.SetRole) bool {
		return r.Name == p.Role && r.Access == platformv1.RoleReadWrite
	})
}

// wantedRole is the reported role, when the plugin declares it. While a pod
// does not answer it keeps its label: it is out of every Service by not being ready.
func (f Facts) wantedRole(p Pod) string {
	if p.Report.Health != report.Healthy {
		return p.Role
	}
	declared := slices.ContainsFunc(f.Roles, func(r platformv1.SetRole) bool { return r.Name == p.Report.Role })
	if !declared {
		return ""
	}
	return p.Report.Role
}

// planRoles takes labels away before it gives any, so that two pods never have a writer's label.
func planRoles(f Facts) []Step {
	var take, give []Step
	for _, p := range f.Pods {
		want := f.wantedRole(p)
		if p.Life != Alive || want == p.Role {
			continue
		}
		step := Step{Action: SetRole, Ordinal: p.Ordinal, Pod: p.Name, Role: want, Reason: fmt.Sprintf("it reports role %q", p.Report.Role)}
		if f.writes(Pod{Role: want}) {
			give = append(give, step)
		} else {
			take = append(take, step)
		}
	}
	if len(take) > 0 && slices.ContainsFunc(take, func(s Step) bool { return f.writes(f.podOf(s.Ordinal)) }) {
		// A writer's label comes in a later turn, when the old one is seen to be gone.
		return take
	}
	return append(take, give...)
}

func (f Facts) podOf(ordinal int32) Pod {
	i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Ordinal == ordinal })
	return f.Pods[i]
}

func planMissing(f Facts) []Step {
	var steps []Step
	for ordinal := range f.Replicas {
		if slices.ContainsFunc(f.Pods, func(p Pod) bool { return p.Ordinal == ordinal }) {
			continue
		}
		steps = append(steps, Step{Action: CreatePod, Ordinal: ordinal, Pod: platformv1.PodNameFor(f.Name, ordinal), Reason: "it is wanted and not there"})
	}
	return steps
}

func planExcess(f Facts) (Step, bool) {
	var highest *Pod
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.wanted(*p) {
			continue
		}
		if p.Life == Terminating {
			return Step{}, false // one at a time
		}
		if highest == nil || p.Ordinal > highest.Ordinal {
			highest = p
		}
	}
	if highest == nil {
		return Step{}, false
	}
	return Step{Action: DeletePod, Ordinal: highest.Ordinal, Pod: highest.Name,
		Reason: fmt.Sprintf("only %d pods are wanted", f.Replicas)}, true
}

func planEnded(f Facts) []Step {
	var steps []Step
	for _, p := range f.Pods {
		if p.Life == Ended && f.wanted(p) {
			steps = append(steps, Step{Action: DeletePod, Ordinal: p.Ordinal, Pod: p.Name, Reason: "it has ended and does not start again by itself"})
		}
	}
	return steps
}

// order puts broken pods first, then those that take no writes, the writer
// last; within each, the highest ordinal first.
func (f Facts) order(pods []Pod) []Pod {
	rank := func(p Pod) int {
		switch {
		case broken(p):
			return 0
		case !f.writes(p):
			return 1
		}
		return 2
	}
	sorted := slices.Clone(pods)
	slices.SortFunc(sorted, func(a, b Pod) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return int(b.Ordinal - a.Ordinal)
	})
	return sorted
}

func broken(p Pod) bool { return p.Ready != Ready || p.Report.Health != report.Healthy }

// candidate returns the pod to change next among those that match, or none while
// the set cannot spare one: a pod is missing or going, or one that was already changed is not ready.
func (f Facts) candidate(stale func(Pod) bool) (Pod, bool) {
	var outdated []Pod
	present := int32(0)
	steady := true
	for _, p := range f.Pods {
		if !f.wanted(p) {
			continue
		}
		present++
		switch {
		case p.Life != Alive:
			steady = false
		case stale(p):
			outdated = append(outdated, p)
		case broken(p):
			steady = false
		}
	}
	if len(outdated) == 0 {
		return Pod{}, false
	}
	first := f.order(outdated)[0]
	if broken(first) {
		return first, true
	}
	return first, steady && present == f.Replicas
}

func planOutdated(f Facts) (Step, bool) {
	p, ok := f.candidate(func(p Pod) bool { return p.Revision != f.Revision })
	if !ok {
		return Step{}, false
	}
	return Step{Action: DeletePod, Ordinal: p.Ordinal, Pod: p.Name, Reason: "its template changed"}, true
}

func planConfiguration(f Facts) (Step, bool) {
	p, ok := f.candidate(func(p Pod) bool {
		return p.Report.ConfigDigest != "" && p.Report.ConfigDigest != f.ConfigDigest
	})
	if !ok {
		return Step{}, false
	}
	return Step{Action: PushPlan, Ordinal: p.Ordinal, Pod: p.Name, Reason: "its configuration changed"}, true
}
