// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/report"
)

// Switchover says whether a writer can hand over to another pod before it is taken out.
type Switchover string

// Values of Switchover; the zero value is for a middleware that has no such thing.
const (
	NoSwitchover Switchover = ""
	BySwitchover Switchover = "Declared"
)

// Handover is an attempt of a writer to hand over.
type Handover struct {
	// From and To are pods by name; From is empty when there is none.
	From, To string
	// State of the attempt.
	State HandoverState
	// Problem of one that failed, for the reason of a step.
	Problem string
}

// Request asks a pod to hand over although nothing is to be done to it.
type Request struct {
	// From is the pod by name; empty for no request.
	From string
	// To is the pod that is to take over; any that can when empty.
	To string
}

// HandoverState is where an attempt stands.
type HandoverState string

// States of an attempt.
const (
	// HandoverUnderway: it was asked for, and is tried again when it fails.
	HandoverUnderway HandoverState = "Underway"
	// HandoverFailed: it failed as often as it is tried.
	HandoverFailed HandoverState = "Failed"
)

// Candidacy says whether a pod can take over.
type Candidacy string

// Values of Candidacy; the zero value is a pod that the plugin rules out.
const (
	Unfit       Candidacy = ""
	CanTakeOver Candidacy = "CanTakeOver"
)

// Heirs says whether pods that cannot take over from the writer are expected to be able to soon.
type Heirs string

// Values of Heirs; the zero value is a writer that need not wait for others.
const (
	NoHeirs Heirs = ""
	// HeirsExpected: those that serve have yet to catch up, as after a restart.
	HeirsExpected Heirs = "Expected"
)

// Heirless says whether pods serve beside this writer of which none can take over from it.
func (f Facts) Heirless(writer string) bool {
	others := slices.ContainsFunc(f.Pods, func(p Pod) bool { return p.Name != writer && f.Wanted(p) && Serves(p) })
	return others && !slices.ContainsFunc(f.Pods,
		func(p Pod) bool { return p.Name != writer && p.Candidacy == CanTakeOver && f.Wanted(p) })
}

// Outage says whether an action takes the process of a pod out for a while.
func (a Action) Outage() bool { return a == DeletePod || a == UpdateImage || a == PushPlan }

// spare puts a switchover before a step that takes the writer out, as long as another pod could take over. Without it
// nothing is done to a writer that works; one that is out anyway is changed at once.
func (f Facts) spare(step Step) Step {
	p := f.podOf(step.Ordinal)
	if f.Switchover == NoSwitchover || !step.Action.Outage() || p.Life != Alive || halfway(p) {
		return step
	}
	writers := f.writers()
	writes := slices.ContainsFunc(writers, func(w Pod) bool { return w.Name == p.Name })
	underway := f.Handover.From == p.Name && f.Handover.State == HandoverUnderway
	switch {
	case !writes && len(writers) == 0 && underway:
		return stepFor(Hold, p, "it has given up writing, and no pod says yet that it writes")
	case !writes && slices.ContainsFunc(writers, f.awaitsLabel):
		return stepFor(Hold, p, "Services do not yet lead to %s, which writes now", writers[0].Name)
	case !writes:
		return step
	case len(writers) > 1:
		others := slices.DeleteFunc(writers, func(w Pod) bool { return w.Name == p.Name })
		return stepFor(Hold, p, "%s says that it writes, too", others[0].Name)
	}
	to, ok := f.successor(p, "")
	switch {
	case !ok && f.Heirs == HeirsExpected:
		return stepFor(Hold, p, "it writes, and no other pod has yet caught up so far that it could take over")
	case !ok:
		return step
	}
	if f.Handover.From == p.Name && f.Handover.State == HandoverFailed {
		return stepFor(Hold, p, "it does not hand over: %s", f.Handover.Problem)
	}
	next := stepFor(SwitchOver, p, "it writes, and %s", step.Reason)
	next.To = to.Name
	return next
}

// awaitsLabel says whether a pod that writes is about to get its label. Where the members elect, one that no majority
// names does not get it, and what others need may be what it takes for a majority to answer.
func (f Facts) awaitsLabel(p Pod) bool {
	unnamed := f.Authority == AuthorityMiddleware && f.Named != nil && *f.Named != p.Name
	return !f.writer(p.Role) && !unnamed
}

// indispensable says whether a pod that is not wanted any more is the one that the engine has named, and none of those
// that are wanted can take over: once it is gone nobody writes. A set that is to have no pods needs no writer.
func (f Facts) indispensable(p Pod) bool {
	if f.Authority == AuthorityMiddleware || !f.named(p) || p.Life != Alive || f.Wanted(p) || f.Replicas == 0 {
		return false
	}
	_, ok := f.successor(p, "")
	return !ok
}

// named says whether a pod is the one that the engine has named to write.
func (f Facts) named(p Pod) bool { return f.Named != nil && *f.Named == p.Name }

// unable says of the wanted pods why they cannot take over.
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
		why = append(why, "no members, since they do not have all data: "+strings.Join(behind, ", "))
	}
	if len(out) > 0 {
		why = append(why, "not well: "+strings.Join(out, ", "))
	}
	if len(why) == 0 {
		return "none is there"
	}
	return strings.Join(why, "; ")
}

// planRequest has the writer hand over when that is asked for. A request to a pod that does not write is done.
func planRequest(f Facts) (Step, bool) {
	i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Name == f.Request.From })
	if f.Request.From == "" || f.Switchover == NoSwitchover || i < 0 {
		return Step{}, false
	}
	p := f.Pods[i]
	if p.Life != Alive || broken(p) || !f.writer(p.Report.Role) {
		return Step{}, false
	}
	to, ok := f.successor(p, f.Request.To)
	switch {
	case f.Handover.From == p.Name && f.Handover.State == HandoverFailed:
		return stepFor(Hold, p, "it does not hand over as it is asked to: %s", f.Handover.Problem), true
	case !ok && f.Request.To != "":
		return stepFor(Hold, p, "it is asked to hand over, and %s cannot take over now", f.Request.To), true
	case !ok:
		return stepFor(Hold, p, "it is asked to hand over, and no pod can take over now"), true
	}
	next := stepFor(SwitchOver, p, "it writes, and is asked to hand over")
	next.To = to.Name
	return next, true
}

// writers are the pods that work and say that they write.
func (f Facts) writers() []Pod {
	var writers []Pod
	for _, p := range f.Pods {
		if p.Life == Alive && p.Report.Health == report.Healthy && f.writer(p.Report.Role) {
			writers = append(writers, p)
		}
	}
	return writers
}

// successor is the pod to hand over to: the one that was asked before, so that an attempt is finished; else one that
// needs no change any more, so that the next writer is not the next one to be taken out. only names the one pod that
// may; empty for any.
func (f Facts) successor(from Pod, only string) (Pod, bool) {
	var fit []Pod
	for _, p := range f.Pods {
		if p.Name != from.Name && (only == "" || p.Name == only) && p.Candidacy == CanTakeOver && f.Wanted(p) && Serves(p) &&
			!f.writer(p.Report.Role) {
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
