// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/report"
)

// Switchover says whether the primary can hand over to a candidate before it is disrupted.
type Switchover string

// Values of Switchover; the zero value is for a middleware that has no such thing.
const (
	NoSwitchover Switchover = ""
	BySwitchover Switchover = "Declared"
)

// Handover is an attempt of a switchover.
type Handover struct {
	// From and To are pods by name; From is empty when there is none.
	From, To string
	// State of the attempt.
	State HandoverState
	// Problem of one that failed, for the reason of a step.
	Problem string
}

// Request is an order of a switchover without another reason.
type Request struct {
	// From is the pod by name; empty for no request.
	From string
	// To is the candidate; empty for any.
	To string
}

// HandoverState is the state of an attempt.
type HandoverState string

// States of an attempt.
const (
	// HandoverUnderway: the attempt is in progress, or is repeated after a failure.
	HandoverUnderway HandoverState = "Underway"
	// HandoverFailed: all attempts have failed.
	HandoverFailed HandoverState = "Failed"
)

// Candidacy says whether a pod can take over.
type Candidacy string

// Values of Candidacy; the zero value is a pod that the plugin rules out.
const (
	Unfit       Candidacy = ""
	CanTakeOver Candidacy = "CanTakeOver"
)

// CandidateWait says whether pods are expected to become candidates soon.
type CandidateWait string

// Values of CandidateWait; the zero value does not wait.
const (
	NoneExpected CandidateWait = ""
	// CandidateExpected: serving replicas are still catching up, for example after a restart.
	CandidateExpected CandidateWait = "Expected"
)

// LacksCandidate says whether other pods serve, but none of them can take over from the primary.
func (f Facts) LacksCandidate(primary string) bool {
	others := slices.ContainsFunc(f.Pods, func(p Pod) bool { return p.Name != primary && f.Wanted(p) && Serves(p) })
	return others && !slices.ContainsFunc(f.Pods,
		func(p Pod) bool { return p.Name != primary && p.Candidacy == CanTakeOver && f.Wanted(p) })
}

// Outage says whether an action disrupts the process of a pod.
func (a Action) Outage() bool { return a == DeletePod || a == UpdateImage || a == PushPlan }

// spare returns a switchover in place of a step that disrupts the primary, while there is a candidate. Without it a
// healthy primary is not changed; one that is down is changed at once.
func (f Facts) spare(step Step) Step {
	p := f.podOf(step.Ordinal)
	if f.Switchover == NoSwitchover || !step.Action.Outage() || p.Life != Alive || halfway(p) {
		return step
	}
	primaries := f.primaries()
	reportsPrimary := slices.ContainsFunc(primaries, func(w Pod) bool { return w.Name == p.Name })
	underway := f.Handover.From == p.Name && f.Handover.State == HandoverUnderway
	switch {
	case !reportsPrimary && len(primaries) == 0 && underway:
		return stepFor(Hold, p, "it is no longer the primary, and no pod reports yet that it is")
	case !reportsPrimary && slices.ContainsFunc(primaries, f.awaitsLabel):
		return stepFor(Hold, p, "Services do not yet lead to %s, the new primary", primaries[0].Name)
	case !reportsPrimary:
		return step
	case len(primaries) > 1:
		others := slices.DeleteFunc(primaries, func(w Pod) bool { return w.Name == p.Name })
		return stepFor(Hold, p, "%s reports that it is the primary as well", others[0].Name)
	}
	to, ok := f.successor(p, "")
	switch {
	case !ok && f.Candidates == CandidateExpected:
		return stepFor(Hold, p, "it is the primary, and no other pod has caught up far enough to take over")
	case !ok:
		return step
	}
	if f.Handover.From == p.Name && f.Handover.State == HandoverFailed {
		return stepFor(Hold, p, "it does not hand over: %s", f.Handover.Problem)
	}
	next := stepFor(SwitchOver, p, "it is the primary, and %s", step.Reason)
	next.To = to.Name
	return next
}

// awaitsLabel says whether a primary is about to get its label. Where the members elect, a pod that no majority elected
// gets none, and the change may be what restores the majority.
func (f Facts) awaitsLabel(p Pod) bool {
	unnamed := f.Authority == AuthorityMiddleware && f.Named != nil && *f.Named != p.Name
	return !f.IsPrimaryRole(p.Role) && !unnamed
}

// indispensable says whether an unwanted pod is the named primary and no wanted pod can take over: without it there
// would be no primary. A set that scales to zero needs none.
func (f Facts) indispensable(p Pod) bool {
	if f.Authority == AuthorityMiddleware || !f.named(p) || p.Life != Alive || f.Wanted(p) || f.Replicas == 0 {
		return false
	}
	_, ok := f.successor(p, "")
	return !ok
}

// named says whether the engine has named a pod the primary.
func (f Facts) named(p Pod) bool { return f.Named != nil && *f.Named == p.Name }

// unable returns why no wanted pod can take over.
func (f Facts) unable() string {
	var behind, out, why []string
	for _, p := range f.Pods {
		switch {
		case !f.Wanted(p):
		case p.Candidacy != CanTakeOver:
			behind = append(behind, p.Name)
		default:
			out = append(out, p.Name)
		}
	}
	if len(behind) > 0 {
		why = append(why, "not members, since they lack data: "+strings.Join(behind, ", "))
	}
	if len(out) > 0 {
		why = append(why, "unhealthy: "+strings.Join(out, ", "))
	}
	if len(why) == 0 {
		return "none is there"
	}
	return strings.Join(why, "; ")
}

// planRequest plans a requested switchover. A request to a pod that is not the primary is done.
func planRequest(f Facts) (Step, bool) {
	i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Name == f.Request.From })
	if f.Request.From == "" || f.Switchover == NoSwitchover || i < 0 {
		return Step{}, false
	}
	p := f.Pods[i]
	if p.Life != Alive || broken(p) || !f.IsPrimaryRole(p.Report.Role) {
		return Step{}, false
	}
	to, ok := f.successor(p, f.Request.To)
	switch {
	case f.Handover.From == p.Name && f.Handover.State == HandoverFailed:
		return stepFor(Hold, p, "it does not hand over as requested: %s", f.Handover.Problem), true
	case !ok && f.Request.To != "":
		return stepFor(Hold, p, "it is asked to hand over, and %s cannot take over now", f.Request.To), true
	case !ok:
		return stepFor(Hold, p, "it is asked to hand over, and no pod can take over now"), true
	}
	next := stepFor(SwitchOver, p, "it is the primary, and is asked to hand over")
	next.To = to.Name
	return next, true
}

// primaries returns the healthy pods that report to be the primary.
func (f Facts) primaries() []Pod {
	var primaries []Pod
	for _, p := range f.Pods {
		if p.Life == Alive && p.Report.Health == report.Healthy && f.IsPrimaryRole(p.Report.Role) {
			primaries = append(primaries, p)
		}
	}
	return primaries
}

// successor returns the candidate: that of the current attempt, or else one that needs no change any more, so that the
// next primary is not disrupted again. only restricts it to one pod; empty for any.
func (f Facts) successor(from Pod, only string) (Pod, bool) {
	var fit []Pod
	for _, p := range f.Pods {
		if p.Name != from.Name && (only == "" || p.Name == only) && p.Candidacy == CanTakeOver && f.Wanted(p) && Serves(p) &&
			!f.IsPrimaryRole(p.Report.Role) {
			fit = append(fit, p)
		}
	}
	if len(fit) == 0 {
		return Pod{}, false
	}
	rank := func(p Pod) int {
		switch _, changes := f.need(p); {
		case f.Handover.From == from.Name && f.Handover.To == p.Name:
			return 0
		case changes || !f.Updated(p):
			return 2
		}
		return 1
	}
	// The lowest ordinal first: it is the last one to be scaled in.
	slices.SortFunc(fit, func(a, b Pod) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return int(a.Ordinal - b.Ordinal)
	})
	return fit[0], true
}
