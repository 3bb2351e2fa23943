// SPDX-License-Identifier: Apache-2.0

package group

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Phases of members, as the engine takes them.
const (
	Done    = "Done"
	Working = "Working"
	Waiting = "Waiting"
	Refused = "Refused"
)

// Shape is what the members are to be.
type Shape struct {
	// Members are those that stay, by set, and Leaving those that are to go.
	Members [][]string `json:"members"`
	Leaving []string   `json:"leaving"`
	// Spare is a member whose data is to be given up; empty for none. Look is an error where the others cannot do without
	// it.
	Spare string `json:"spare,omitempty"`
}

// States of a member, as performance_schema.replication_group_members has them.
const (
	stateOnline     = "ONLINE"
	stateRecovering = "RECOVERING"
	rolePrimary     = "PRIMARY"
)

// view is what one member says.
type view struct {
	// problem is why it does not answer; all else is empty then.
	problem string
	// uuid of the server.
	uuid string
	// id of the view that it has of its group; empty where it has none.
	id string
	// transactions that it has or has received, as a GTID set.
	transactions string
	// sees are the members of its group by uuid, itself among them.
	sees map[string]seen
	// outdated says that it shows the others a certificate which was renewed.
	outdated bool
}

// seen is a member as another one sees it.
type seen struct{ state, role string }

// state of the member, by itself.
func (v view) state() string { return v.sees[v.uuid].state }

// number of the view, which is the last part of its id and grows with each change of the group.
func (v view) number() uint64 {
	n, _ := strconv.ParseUint(v.id[strings.LastIndex(v.id, ":")+1:], 10, 64)
	return n
}

// inGroup says whether the member takes part in a group, be it one that has lost most of its members.
func (v view) inGroup() bool { return v.state() == stateOnline || v.state() == stateRecovering }

// hasQuorum says whether the member is of a group most of whose members see each other. One that is cut off from the
// others still takes itself for what it was.
func (v view) hasQuorum() bool {
	if !v.inGroup() {
		return false
	}
	connected := 0
	for _, member := range v.sees {
		if member.state == stateOnline || member.state == stateRecovering {
			connected++
		}
	}
	return 2*connected > len(v.sees)
}

// found is what all members say, by pod. missing has, by two pods, the transactions of the first that the second has
// not.
type found struct {
	views   map[string]view
	missing map[[2]string]string
}

// step is what is to be done next. Without an action there is nothing to do now.
type step struct {
	phase, reason string
	action        action
	// pod that the action is for, and uuid of the server that is to be the primary.
	pod, uuid string
	// lost and quarantined are as in State.
	lost, quarantined string
}

// action of a step.
type action string

// Actions.
const (
	actionNone       action = ""
	actionBootstrap  action = "bootstrap"
	actionJoin       action = "join"
	actionLeave      action = "leave"
	actionSetPrimary action = "setPrimary"
)

func waitFor(format string, arguments ...any) step {
	return step{phase: Waiting, reason: fmt.Sprintf(format, arguments...)}
}

func refuse(format string, arguments ...any) step {
	return step{phase: Refused, reason: fmt.Sprintf(format, arguments...)}
}

// History says whether there was a group already.
type History string

// Values of History.
const (
	// Unformed: nobody has begun a group.
	Unformed History = "Unformed"
	// Formed: there was a group, so that there is data.
	Formed History = "Formed"
)

// next decides on one step.
func next(f found, shape Shape, history History) step {
	wanted := slices.Concat(shape.Members...)
	knowing := f.knowing(slices.Concat(wanted, shape.Leaving))
	switch {
	case len(knowing) == 0:
		return f.outOfGroup(wanted, shape.Leaving, history)
	case !f.oneGroup(knowing):
		return refuse("members are in two groups, and both take writes: stop the instance, and restore one of them")
	}
	return f.inGroup(wanted, shape.Leaving, f.latest(knowing))
}

// knowing are those of the pods that have a quorum, one for each view.
func (f found) knowing(pods []string) []string {
	var knowing []string
	views := map[string]bool{}
	for _, pod := range pods {
		if v := f.views[pod]; v.problem == "" && v.hasQuorum() && !views[v.id] {
			views[v.id] = true
			knowing = append(knowing, pod)
		}
	}
	return knowing
}

// latest is the one of the pods with the latest view.
func (f found) latest(pods []string) string {
	return slices.MaxFunc(pods, func(a, b string) int { return cmp.Compare(f.views[a].number(), f.views[b].number()) })
}

// primary that a pod knows; empty where that does not answer, or there is none.
func (f found) primary(known string) string {
	for uuid, member := range f.views[known].sees {
		if member.role == rolePrimary {
			return f.podOf(uuid)
		}
	}
	return ""
}

// oneGroup says whether members whose views have other numbers see each other all the same: views change while they are
// asked, and one that hung still sees those that have put it out.
func (f found) oneGroup(pods []string) bool {
	for _, pod := range pods[1:] {
		first, other := f.views[pods[0]], f.views[pod]
		_, sees := first.sees[other.uuid]
		_, seen := other.sees[first.uuid]
		if !sees && !seen {
			return false
		}
	}
	return true
}

// inGroup has members join and leave a group that takes writes, which one of them knows.
func (f found) inGroup(wanted, leaving []string, known string) step {
	sees, primary := f.views[known].sees, f.primary(known)
	if primary == "" {
		return waitFor("the members elect a primary")
	}
	for _, pod := range wanted {
		if sees[f.views[pod].uuid].state == stateRecovering && f.views[pod].problem == "" {
			return waitFor("%s copies what it lacks", pod)
		}
	}
	for _, pod := range leaving {
		v := f.views[pod]
		if _, isIn := sees[v.uuid]; !isIn || v.problem != "" {
			continue
		}
		if pod != primary {
			return step{phase: Working, reason: pod + " leaves the group", action: actionLeave, pod: pod}
		}
		if candidate := f.online(wanted, sees); candidate != "" {
			return step{phase: Working, reason: candidate + " becomes the primary, since " + pod + " leaves",
				action: actionSetPrimary, pod: primary, uuid: f.views[candidate].uuid}
		}
		return waitFor("no other member can take the place of the primary %s, which leaves", pod)
	}
	if s := f.joining(wanted, sees, primary); s.phase != Done {
		return s
	}
	return f.renewing(wanted, sees, primary)
}

// renewing has one member after the other leave a group that is whole, to join it with the certificate that it shows to
// clients. The primary comes last.
func (f found) renewing(wanted []string, sees map[string]seen, primary string) step {
	for _, pod := range wanted {
		if pod != primary && f.views[pod].outdated {
			return step{phase: Working, reason: pod +
				" leaves the group for a moment, to show the others its renewed certificate", action: actionLeave, pod: pod}
		}
	}
	if !f.views[primary].outdated {
		return step{phase: Done}
	}
	others := slices.DeleteFunc(slices.Clone(wanted), func(pod string) bool { return pod == primary })
	candidate := f.online(others, sees)
	if candidate == "" {
		return step{phase: Done}
	}
	return step{phase: Working, reason: candidate + " becomes the primary, since " + primary +
		" has to show the others its renewed certificate", action: actionSetPrimary, pod: primary,
		uuid: f.views[candidate].uuid}
}

// joining has a member join that is not in the group. One that has restarted waits until the group has put out the
// server that it was before: where both come in one view, the member that put it out counts it as gone from then on,
// and takes the next failure for the loss of the majority, which puts out nobody. One that hung is put out before it
// notices, and waits for that: a member that is stopped just then waits minutes for an answer of a group that it is not
// in. One that is alone in a group of its own notices nothing.
func (f found) joining(wanted []string, sees map[string]seen, primary string) step {
	next := step{phase: Done}
	var quarantined []string
	for _, pod := range wanted {
		v := f.views[pod]
		if v.problem != "" {
			if next.phase == Done {
				next = waitFor("%s does not answer: %s", pod, v.problem)
			}
			continue
		}
		_, isIn := sees[v.uuid]
		if isIn && v.state() == stateOnline {
			continue
		}
		switch errant := f.missing[[2]string{pod, primary}]; {
		case errant != "":
			quarantined = append(quarantined, fmt.Sprintf("%s has transactions that the group has not, and stays out of it: %s",
				pod, errant))
		case isIn:
			if next.phase == Done {
				next = waitFor("%s joins once the group has put out the server that it was before it restarted", pod)
			}
		case v.inGroup() && len(v.sees) > 1:
			if next.phase == Done {
				next = waitFor("%s joins once it has noticed that the group has put it out", pod)
			}
		case next.phase != Working:
			next = step{phase: Working, reason: pod + " joins the group", action: actionJoin, pod: pod}
		}
	}
	if len(quarantined) == 0 {
		return next
	}
	said := strings.Join(quarantined, "; ") +
		". Look at them in its binary log, and run RebuildMember to have it copy the data of the others"
	if next.phase != Working {
		next = refuse("%s", said)
	}
	next.quarantined = said
	return next
}

// online is the first of the pods that is.
func (f found) online(pods []string, sees map[string]seen) string {
	for _, pod := range pods {
		if v := f.views[pod]; v.problem == "" && sees[v.uuid].state == stateOnline {
			return pod
		}
	}
	return ""
}

func (f found) podOf(uuid string) string {
	for pod, v := range f.views {
		if v.uuid == uuid {
			return pod
		}
	}
	return ""
}

// outOfGroup begins a group, with the member that has all that any other has. As long as one does not answer, nobody
// knows which that is.
func (f found) outOfGroup(wanted, leaving []string, history History) step {
	all := slices.Concat(wanted, leaving)
	for _, pod := range all {
		s := step{}
		switch v := f.views[pod]; {
		case v.problem != "":
			s = waitFor("there is no group, and %s does not answer: only when all members do is it known which of them has "+
				"all transactions: %s", pod, v.problem)
		case v.inGroup():
			s = waitFor("%s sees less than most of the members of its group", pod)
		default:
			continue
		}
		if history == Formed {
			s.lost = f.lost(all)
		}
		return s
	}
	if pod := f.first(all); pod != "" {
		if history == Formed && f.views[pod].transactions == "" {
			return refuse(
				"no member has data, and there was some: restore a Backup into a new instance, or put the volumes back")
		}
		return step{phase: Working, reason: pod + " begins the group", action: actionBootstrap, pod: pod}
	}
	return refuse("no member has all transactions of the others, so that no group is begun: %s. Save what counts of "+
		"them from the binary logs, and run ForceQuorum with the member to go on with as from, and the others as lost",
		f.differences())
}

// lost says what a group is that cannot go on by itself, and what to do.
func (f found) lost(all []string) string {
	var silent, answering []string
	for _, pod := range all {
		if f.views[pod].problem != "" {
			silent = append(silent, pod)
		} else {
			answering = append(answering, pod)
		}
	}
	if len(silent) == 0 {
		return "the group has no primary: all members answer, and none sees most of the others. Check the network " +
			"between them"
	}
	if len(answering) == 0 {
		return fmt.Sprintf("no member that answers is the primary: %s cannot be asked. Check their servers and the network",
			strings.Join(silent, ", "))
	}
	from := f.first(answering)
	if from == "" {
		return fmt.Sprintf("the group has no primary: no member runs in it, and %s cannot be asked which transactions "+
			"they have. The group goes on when they are back. Of the others none has all transactions: %s",
			strings.Join(silent, ", "), f.differences())
	}
	return fmt.Sprintf("the group has no primary: no member runs in it, and %s cannot be asked which transactions "+
		"they have. The group goes on when they are back. If their volumes are gone for good, run ForceQuorum with "+
		"from=%s and lost=%s, which somebody else has to approve: what only they had is lost then",
		strings.Join(silent, ", "), from, strings.Join(silent, ","))
}

// first is the first of the pods that has all transactions of the others.
func (f found) first(pods []string) string {
	for _, pod := range pods {
		if f.hasAll(pod, pods) {
			return pod
		}
	}
	return ""
}

// differences says what members have that others have not.
func (f found) differences() string {
	var differences []string
	for _, pair := range slices.SortedFunc(maps.Keys(f.missing),
		func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) }) {
		if missing := f.missing[pair]; missing != "" {
			differences = append(differences, fmt.Sprintf("%s has %s, and %s has not", pair[0], missing, pair[1]))
		}
	}
	return strings.Join(differences, "; ")
}

// hasAll says whether a member lacks nothing that any other has.
func (f found) hasAll(pod string, all []string) bool {
	for _, other := range all {
		if other != pod && f.missing[[2]string{other, pod}] != "" {
			return false
		}
	}
	return true
}
