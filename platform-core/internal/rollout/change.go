// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// planChange changes the next pod that is not as wanted, when the set can spare it.
func planChange(f Facts) (Step, bool) {
	var needs []Step
	var outdated []Pod
	steady, present := !f.leaving(), int32(0)
	for _, p := range f.Pods {
		if !f.Wanted(p) {
			continue
		}
		present++
		if step, ok := f.needNow(p); ok {
			needs, outdated = append(needs, step), append(outdated, p)
			continue
		}
		if !Serves(p) || p.Resources == Underway {
			steady = false
		}
	}
	if len(outdated) == 0 {
		return Step{}, false
	}
	first := f.order(outdated)[0]
	if !halfway(first) && !f.Founding && (!steady || present < f.Replicas) {
		return Step{}, false
	}
	i := slices.IndexFunc(needs, func(s Step) bool { return s.Ordinal == first.Ordinal })
	return needs[i], true
}

// planTogether restarts all processes that have another configuration, where they are to start together; also in pods
// that are to be replaced, since those that replace them would wait for the others. Where an agent is too old for that,
// the pod goes with them.
func planTogether(f Facts) []Step {
	if f.RestartStrategy != platformv1.RestartAllAtOnce {
		return nil
	}
	var steps []Step
	for _, p := range f.Pods {
		if !f.Wanted(p) || p.Life != Alive || p.Restart == Underway {
			continue
		}
		if step, ok := f.needConfiguration(p); ok && step.Action != ReloadPlan && !f.waits(p, step) {
			steps = append(steps, step)
		}
	}
	slices.SortFunc(steps, func(a, b Step) int { return int(a.Ordinal - b.Ordinal) })
	return steps
}

// begun says whether processes that start together have begun to.
func (f Facts) begun() bool {
	return f.RestartStrategy == platformv1.RestartAllAtOnce && slices.ContainsFunc(f.Pods, func(p Pod) bool {
		return f.Wanted(p) && p.Report.ConfigDigest == f.ConfigDigest
	})
}

// Awaited returns the pod that the set waits for: one that is out or in the midst of a change before one whose
// change has not begun.
func (f Facts) Awaited() (Pod, bool) {
	var unsettled []Pod
	for _, p := range f.Pods {
		if f.Settled(p) == Ready {
			continue
		}
		if p.Life != Alive || halfway(p) || p.Resources == Underway {
			return p, true
		}
		unsettled = append(unsettled, p)
	}
	if len(unsettled) == 0 {
		return Pod{}, false
	}
	return unsettled[0], true
}

// Held returns the steps that wait for a maintenance window, in order of ordinal.
func (f Facts) Held() []Step {
	var held []Step
	for _, p := range f.Pods {
		if step, ok := f.need(p); ok && f.Wanted(p) && f.waits(p, step) {
			held = append(held, step)
		}
	}
	return held
}

// Disturbs says whether one of the steps takes a pod out that serves and comes back, or has a primary hand over for
// that.
func (f Facts) Disturbs(steps []Step) bool {
	if f.Mode == Stopped {
		return false
	}
	return slices.ContainsFunc(steps, func(s Step) bool {
		if !s.Action.Outage() {
			return s.Action == SwitchOver
		}
		p := f.podOf(s.Ordinal)
		return p.Life == Alive && f.Wanted(p) && !halfway(p)
	})
}

// waits says whether a step has to wait for a window: it takes a pod out that serves.
func (f Facts) waits(p Pod, step Step) bool {
	return f.Window == Closed && step.Action.Outage() && !halfway(p) &&
		(step.Action != PushPlan && p.Agent != Replace || !f.begun())
}

// needNow is what a pod needs and can have now. While the rest waits for a window, it gets what it can take over as it
// runs: nothing that may be meant for another template, image or size than it has.
func (f Facts) needNow(p Pod) (Step, bool) {
	step, ok := f.need(p)
	if !ok || !f.waits(p, step) {
		return step, ok
	}
	if p.Revision != f.Revision || p.Images == Outdated || p.Resources == Replace || p.Resources == Underway {
		return Step{}, false
	}
	configuration, configured := f.needConfiguration(p)
	if p.Resources == Outdated && !(configured && p.Tightens) {
		return stepFor(ResizePod, p, "its resources changed"), true
	}
	return configuration, configured && !f.waits(p, configuration)
}

// need returns the step that brings a pod to what is wanted, the strongest first: what another pod
// brings along needs no step of its own.
func (f Facts) need(p Pod) (Step, bool) {
	configuration, configured := f.needConfiguration(p)
	switch {
	case p.Life != Alive:
		return Step{}, false
	case p.Revision != f.Revision:
		return stepFor(DeletePod, p, "its template changed"), true
	case p.Resources == Replace:
		return stepFor(DeletePod, p, "its resources cannot change in place: %s", p.Note), true
	case p.Volumes == Replace:
		return stepFor(DeletePod, p, "its volume grows at a restart only: %s", p.Note), true
	case p.Images == Outdated:
		return stepFor(UpdateImage, p, "its image changed"), true
	case p.Restart == Underway:
		// Its containers are about to restart, so that there is nobody to talk to.
		return Step{}, false
	case configured && (configuration.Action != ReloadPlan || p.Resources == Outdated && p.Tightens):
		return configuration, true
	case p.Resources == Underway:
		// What is to be reloaded may be for resources that it does not have yet.
		return Step{}, false
	case p.Resources == Outdated:
		return stepFor(ResizePod, p, "its resources changed"), true
	}
	return configuration, configured
}

// needConfiguration reloads what runs and can take it over so; everything else is restarted, in another pod where the
// agent would leave something out.
func (f Facts) needConfiguration(p Pod) (Step, bool) {
	switch {
	case p.Report.ConfigDigest == "" || p.Report.ConfigDigest == f.ConfigDigest:
		return Step{}, false
	case p.Agent == Replace:
		return stepFor(DeletePod, p, "its agent is too old for its configuration"), true
	case broken(p) || f.RestartDigest == "" || p.Report.RestartDigest != f.RestartDigest:
		return stepFor(PushPlan, p, "its configuration changed"), true
	case p.Reload == Replace:
		return stepFor(PushPlan, p, "a reload cannot take its configuration over"), true
	}
	return stepFor(ReloadPlan, p, "its configuration changed"), true
}

// halfway says whether a pod is out already, or in the midst of a change: another change
// of it costs the set nothing more.
func halfway(p Pod) bool { return broken(p) || p.Restart == Underway }

// order puts pods that are out first, then those that take no writes, the primary
// last; within each, the highest ordinal first.
func (f Facts) order(pods []Pod) []Pod {
	rank := func(p Pod) int {
		rank := 0
		if !halfway(p) {
			rank = 2
		}
		if f.isPrimary(p) {
			rank++
		}
		return rank
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
