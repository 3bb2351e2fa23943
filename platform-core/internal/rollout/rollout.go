// SPDX-License-Identifier: Apache-2.0

// Package rollout plans the next steps of a WorkloadSet. It is pure: it takes [Facts] and returns steps with reasons,
// without a client and without a clock.
//
// Rules, in order of weight:
//   - A suspended set is not changed. The pods of a stopped set are deleted, the primary last.
//   - The primary label is removed from one pod before another one gets it.
//   - Missing pods are created, all at once, or in order, each when its predecessors are ready. Excess pods are deleted
//     one at a time while all wanted pods are ready; a broken one at once. Excluded ordinals go first, then the
//     highest, a primary last.
//   - A pod that was evicted from an unreachable node is force-deleted if another one may run beside it, because it has
//     no data and no identity (interchangeable). Any other pod stays until the node is back, or proved to be down.
//   - A pod that has ended (Failed, Succeeded) is replaced.
//   - Where the members elect a primary and report it, the pod with the majority of reports gets the primary label,
//     once that election is recorded (Elect).
//   - Other changes are made one pod at a time: broken pods first, then replicas, the primary last; never while an
//     updated pod is not ready. A broken pod is changed at once, since the change may repair it. So is a pod that
//     others wait for until the first primary is named.
//   - Where the engine is the authority, only the named primary has the primary label, and no other pod is changed
//     during a failover or switchover. An unwanted primary stays, healthy or broken, while no wanted pod can take over.
//   - Where the middleware supports switchover, a healthy primary hands over before it is disrupted, if another pod can
//     take over, or soon can. If the handover fails, the set stalls until the user acts.
//   - A requested switchover precedes all other changes, if there is a candidate.
//   - Where all processes have to start with the same configuration, they are restarted together (RestartAllAtOnce):
//     none would be ready while others have another configuration. A restart that has begun is not interrupted by the
//     end of a maintenance window.
//   - A change is the least disruptive one: a reload, new resources, a restart of the process, a restart of the
//     containers with another image, or a new pod. What a process derives from its memory limit never exceeds the
//     limit: a pod that shrinks gets its configuration first, one that grows gets it after the resize.
//   - Outside of the maintenance windows no serving pod is restarted or replaced. Repairs, scaling, stop and start go
//     on, and so does a change that has begun.
package rollout

import (
	"fmt"
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Facts are the observed state of a set.
type Facts struct {
	// Name of the WorkloadSet.
	Name string
	// Mode that is asked for.
	Mode Mode
	// Replicas wanted.
	Replicas int32
	// Excluded ordinals, which no wanted pod has.
	Excluded []int32
	// Policy by which missing pods are made; empty is Parallel.
	Policy platformv1.PodManagementPolicy
	// RestartStrategy says whether processes are restarted one by one; empty is RestartRolling.
	RestartStrategy platformv1.RestartStrategy
	// Authority over who writes. With AuthorityEngine there is one primary at most.
	Authority string
	// Revision that pods should have.
	Revision string
	// ConfigDigest that processes should run with.
	ConfigDigest string
	// RestartDigest is the part of it that only a restart can change.
	RestartDigest string
	// Window of maintenance, in which pods that serve may be disturbed.
	Window Window
	// Roles that the plugin declares.
	Roles []platformv1.SetRole
	// Interchangeable says that a pod keeps nothing on a volume and has no role: two of one name do no harm.
	Interchangeable bool
	// Switchover says whether the primary can hand over to a candidate before it is disrupted.
	Switchover Switchover
	// Handover is the latest attempt.
	Handover Handover
	// Candidates says whether to wait for serving pods to become candidates.
	Candidates CandidateWait
	// Request to hand over, for its own sake.
	Request Request
	// Named is the pod that may write, where the engine decides it or follows an election: no other one gets the label of
	// a role that takes writes, and with an empty name none does. Nil where the pods' reports decide.
	Named *string
	// Promoting says that the pod was named a moment ago: while it is well and has yet to get the primary label, others
	// wait for theirs.
	Promoting bool
	// Unlabelled is the pod that is to have no label but the primary label, which it is about to get; empty for none.
	Unlabelled string
	// Founding says that the engine has yet to name the first primary: pods wait for that, and one that was made when
	// somebody else decided has to be changed before it is named.
	Founding bool
	// Busy says why no pod that could do its work may be taken out now, as while the primary changes; empty when nothing
	// is in the way.
	Busy string
	// Pods that are there, in any order.
	Pods []Pod
}

// Authorities over who writes.
const (
	// AuthorityEngine: the engine decides.
	AuthorityEngine = "engine"
	// AuthorityMiddleware: the members elect, and the engine follows.
	AuthorityMiddleware = "middleware"
)

// Mode says whether a set is to run.
type Mode string

// Modes of a set; the zero value is a set that runs.
const (
	Running   Mode = ""
	Stopped   Mode = "Stopped"
	Suspended Mode = "Suspended"
)

// Window says whether pods that serve may be disturbed by a change of the spec.
type Window string

// Values of Window; the zero value is a set that has no windows, or one that is open.
const (
	Open   Window = ""
	Closed Window = "Closed"
)

// Pod is what is known of one pod.
type Pod struct {
	Name    string
	Ordinal int32
	// Life of the pod.
	Life Life
	// Node that it is on, as far as anybody knows.
	Node Contact
	// Revision that it was made from.
	Revision string
	// Images of its containers.
	Images Fit
	// Restart is Underway while containers have yet to restart with images that they were given.
	Restart Fit
	// Resources of its containers.
	Resources Fit
	// Tightens says that a container is to have less memory than it has: a process that goes by its limit has to know
	// before.
	Tightens bool
	// Volumes of its own.
	Volumes Fit
	// Reload is Replace when the process refused to take the plan over by a reload.
	Reload Fit
	// Agent is Replace when the process manager is too old for the plan.
	Agent Fit
	// Note says why Resources or Volumes are not current.
	Note string
	// Ready is the pod's Ready condition.
	Ready Readiness
	// Candidacy says whether it can take over from a primary.
	Candidacy Candidacy
	// Role label that it has.
	Role string
	// Report of its status agent.
	Report report.Report
}

// Fit says how one side of a pod stands to what is wanted.
type Fit string

// Fits; the zero value is as wanted.
const (
	Current Fit = ""
	// Outdated: it can be changed in place.
	Outdated Fit = "Outdated"
	// Underway: it was changed in place and the pod is not through with that.
	Underway Fit = "Underway"
	// Replace: the change in place is not possible, only the next stronger means.
	Replace Fit = "Replace"
)

// Life is where a pod stands between its making and its end.
type Life string

// Lives of a pod.
const (
	Alive       Life = "Alive"
	Terminating Life = "Terminating"
	Ended       Life = "Ended"
)

// Contact with the node of a pod.
type Contact string

// Contacts; the zero value is a node that answers.
const (
	Reachable Contact = ""
	// Unreachable: nobody knows whether the pod still runs.
	Unreachable Contact = "Unreachable"
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
	// ForgetPod removes the object of a pod on a node that nobody reaches, without waiting for its end.
	ForgetPod Action = "ForgetPod"
	// UpdateImage gives the containers of the pod other images: the kubelet restarts them in place.
	UpdateImage Action = "UpdateImage"
	// ResizePod gives the containers of the pod other resources while they run on.
	ResizePod Action = "ResizePod"
	// PushPlan restarts the process in place with the current plan.
	PushPlan Action = "PushPlan"
	// ReloadPlan has the process take over the current plan while it runs on.
	ReloadPlan Action = "ReloadPlan"
	// SetRole sets the role label of the pod to Step.Role; empty removes it.
	SetRole Action = "SetRole"
	// SwitchOver has the pod, which writes, hand over to the pod Step.To.
	SwitchOver Action = "SwitchOver"
	// Hold does nothing: something has to happen before the pod is touched.
	Hold Action = "Hold"
)

// Step is one thing to do, and why.
type Step struct {
	Action  Action
	Ordinal int32
	Pod     string
	Role    string
	To      string
	Reason  string
}

// String returns the step as prose.
func (s Step) String() string {
	switch s.Action {
	case SetRole:
		return fmt.Sprintf("%s %s %q: %s", s.Action, s.Pod, s.Role, s.Reason)
	case SwitchOver:
		return fmt.Sprintf("%s %s to %s: %s", s.Action, s.Pod, s.To, s.Reason)
	}
	return fmt.Sprintf("%s %s: %s", s.Action, s.Pod, s.Reason)
}

func stepFor(action Action, p Pod, format string, args ...any) Step {
	return Step{Action: action, Ordinal: p.Ordinal, Pod: p.Name, Reason: fmt.Sprintf(format, args...)}
}

// Plan returns the steps to take now. None means that the set is settled or
// that something has to happen first.
func Plan(f Facts) []Step {
	switch f.Mode {
	case Suspended:
		return nil
	case Stopped:
		return append(planStop(f), planLost(f)...)
	}
	steps := slices.Concat(planRoles(f), planMissing(f), planLost(f))
	if f.Busy != "" {
		return append(steps, planEnded(f)...)
	}
	requested, asked := planRequest(f)
	if asked && requested.Action == SwitchOver {
		return append(steps, requested)
	}
	excess, beyond := planExcess(f)
	if beyond && excess.Action != Hold {
		return append(steps, f.spare(excess))
	}
	// Where the excess has to stay, what the others need goes on: it may be what they take over with.
	if ended := planEnded(f); len(ended) > 0 {
		return append(steps, ended...)
	}
	if together := planTogether(f); len(together) > 0 {
		return append(steps, together...)
	}
	if step, ok := planChange(f); ok {
		return append(steps, f.spare(step))
	}
	if beyond {
		return append(steps, excess)
	}
	if asked {
		return append(steps, requested)
	}
	return steps
}

// Careful says whether one of the steps is to be taken on the facts as they are at this moment, not on those of a cache
// that may lag behind: a cache that does not show our last step could have us take two pods out at once,
// or give a second primary label.
func Careful(f Facts, steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		switch s.Action {
		case CreatePod:
			return f.Policy == platformv1.PodManagementOrderedReady
		case SetRole:
			return f.IsPrimaryRole(s.Role)
		case Hold:
			return false
		}
		return true
	})
}

// Settled says whether a pod is all that is wanted: alive, ready, healthy, in its role, and with
// the current template, images, resources, volumes and configuration.
func (f Facts) Settled(p Pod) Readiness {
	if f.Wanted(p) && Serves(p) && f.Updated(p) && p.Volumes == Current && p.Role == f.wantedRole(p) {
		return Ready
	}
	return NotReady
}

// Updated says whether a pod has the current template, images, resources and configuration.
func (f Facts) Updated(p Pod) bool {
	return p.Life == Alive && p.Revision == f.Revision && p.Images == Current && p.Restart == Current &&
		p.Resources == Current &&
		p.Report.ConfigDigest == f.ConfigDigest
}

// Ordinals are those that the set has pods for, in order.
func (f Facts) Ordinals() []int32 { return platformv1.OrdinalsOf(f.Replicas, f.Excluded) }

// Wanted says whether the ordinal of a pod is one of the set's.
func (f Facts) Wanted(p Pod) bool {
	if slices.Contains(f.Excluded, p.Ordinal) {
		return false
	}
	before := int32(0)
	for _, excluded := range f.Excluded {
		if excluded >= 0 && excluded < p.Ordinal {
			before++
		}
	}
	return p.Ordinal-before < f.Replicas
}

// isPrimary says whether a pod is the primary by its label or by its last report.
func (f Facts) isPrimary(p Pod) bool {
	return f.IsPrimaryRole(p.Role) || f.IsPrimaryRole(p.Report.Role)
}

// IsPrimaryRole says whether a role takes writes.
func (f Facts) IsPrimaryRole(role string) bool {
	return slices.ContainsFunc(f.Roles, func(r platformv1.SetRole) bool {
		return r.Name == role && r.Access == platformv1.RoleReadWrite
	})
}

func broken(p Pod) bool { return p.Ready != Ready || p.Report.Health != report.Healthy }

// Serves says whether a pod does its work and goes on doing it.
func Serves(p Pod) bool { return p.Life == Alive && !broken(p) && p.Restart != Underway }

// planStop ends all pods, the primary when the others are gone.
func planStop(f Facts) []Step {
	others := slices.ContainsFunc(f.Pods, func(p Pod) bool { return !f.isPrimary(p) })
	var steps []Step
	for _, p := range f.Pods {
		if p.Life != Terminating && (!others || !f.isPrimary(p)) {
			steps = append(steps, stepFor(DeletePod, p, "the set is to stop"))
		}
	}
	return steps
}

func planMissing(f Facts) []Step {
	var steps []Step
	for _, ordinal := range f.Ordinals() {
		i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Ordinal == ordinal })
		switch {
		case i < 0:
			steps = append(steps, Step{Action: CreatePod, Ordinal: ordinal, Pod: platformv1.PodNameFor(f.Name, ordinal),
				Reason: "the pod is missing"})
		case Serves(f.Pods[i]):
			continue
		}
		if f.Policy == platformv1.PodManagementOrderedReady {
			return steps
		}
	}
	return steps
}

// planExcess removes a pod that is not wanted. The wanted ones have to be ready, so
// that a set never has fewer than it had before without having those that it should have. What cannot be done without
// is held.
func planExcess(f Facts) (Step, bool) {
	if f.leaving() {
		return Step{}, false // one at a time
	}
	complete := f.complete()
	var next *Pod
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.Wanted(*p) || !complete && !broken(*p) {
			continue
		}
		if next == nil || f.leavesBefore(*p, *next) {
			next = p
		}
	}
	if next == nil {
		return Step{}, false
	}
	if f.indispensable(*next) {
		return stepFor(Hold, *next, "it is the primary, and no pod that is wanted can take over (%s): it goes once one "+
			"can; to keep it, scale back so that %s is wanted", f.unable(), next.Name), true
	}
	if slices.Contains(f.Excluded, next.Ordinal) {
		return stepFor(DeletePod, *next, "its ordinal is excluded"), true
	}
	return stepFor(DeletePod, *next, "only %d pods are wanted", f.Replicas), true
}

// leaving says whether a pod that is not wanted is on its way out.
func (f Facts) leaving() bool {
	return slices.ContainsFunc(f.Pods, func(p Pod) bool { return !f.Wanted(p) && p.Life == Terminating })
}

// complete says whether all wanted pods are there and serve.
func (f Facts) complete() bool {
	serving := int32(0)
	for _, p := range f.Pods {
		if f.Wanted(p) && Serves(p) {
			serving++
		}
	}
	return serving == f.Replicas
}

// leavesBefore orders the pods that are not wanted.
func (f Facts) leavesBefore(p, q Pod) bool {
	if last := f.isPrimary(q) || f.named(q); last != (f.isPrimary(p) || f.named(p)) {
		return last
	}
	if excluded := slices.Contains(f.Excluded, p.Ordinal); excluded != slices.Contains(f.Excluded, q.Ordinal) {
		return excluded
	}
	return p.Ordinal > q.Ordinal
}

// planLost forgets pods that are on their way out on a node that nobody reaches. When one is to go from there,
// Kubernetes says: it evicts those that do not tolerate that.
func planLost(f Facts) []Step {
	var steps []Step
	for _, p := range f.Pods {
		if f.Interchangeable && p.Life == Terminating && p.Node == Unreachable {
			steps = append(steps, stepFor(ForgetPod, p, "it was evicted from an unreachable node, and has no volumes"))
		}
	}
	return steps
}

func planEnded(f Facts) []Step {
	var steps []Step
	for _, p := range f.Pods {
		if p.Life == Ended && f.Wanted(p) {
			steps = append(steps, stepFor(DeletePod, p, "it has ended and does not start again by itself"))
		}
	}
	return steps
}
