// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strconv"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Election is what the engine makes of the primary that the members of a set report.
type Election struct {
	// Record is the latest election that a majority reported; nil before the first. It has to be written down before its
	// primary gets its label.
	Record *platformv1.ElectionRecord
	// Named is the one pod that may have the label of a role that takes writes; empty for none.
	Named string
	// State says how Record stands to the recorded election.
	State ElectionState
}

// ElectionState says how the reports of the members stand to the recorded election.
type ElectionState string

// States of an election.
const (
	// ElectionAgreed: a majority of the members reports the recorded election.
	ElectionAgreed ElectionState = "Agreed"
	// ElectionChanged: a majority reports another election, which is yet to be recorded.
	ElectionChanged ElectionState = "Changed"
	// ElectionUnknown: no majority reports one that may follow the recorded one, which stays.
	ElectionUnknown ElectionState = "Unknown"
)

// epoch is a number of an election: its parts in order.
type epoch []uint64

// vote is what one member reports.
type vote struct {
	member, primary string
	epoch           epoch
}

// Elect follows the election of the middleware: the pod that a majority of the expected members names in one epoch,
// which is not before the recorded one. An earlier epoch is taken over only where all expected members report it, since
// the history of the middleware then began anew, as after a restore. Expected are the replicas of the spec, and the
// pods beyond those for as long as they report.
//
// While a majority reports another primary than the recorded one, no pod may have the label: it is given when the new
// one is on record. One that is elected again keeps it, whatever the epoch. While no majority reports, a pod keeps the
// label that it has by the record, and none gets it.
func Elect(f Facts, by platformv1.SetElection, recorded *platformv1.ElectionRecord) Election {
	votes, beyond := f.votes(by)
	expected := int(f.Replicas) + beyond
	elected, count := leading(votes)
	name, found := f.memberNamed(by, elected.primary)
	switch {
	case count <= expected/2 || !found:
		return f.keep(recorded)
	case recorded == nil:
	case slices.Compare(elected.epoch, epochOf(recorded.Epoch)) < 0 && count < expected:
		return f.keep(recorded)
	case slices.Equal(elected.epoch, epochOf(recorded.Epoch)) && recorded.Primary == name:
		return Election{Record: recorded, Named: name, State: ElectionAgreed}
	}
	changed := Election{Record: &platformv1.ElectionRecord{Epoch: elected.epoch.String(), Primary: name},
		State: ElectionChanged}
	if recorded != nil && recorded.Primary == name || recorded == nil && f.keep(nil).Named == name {
		changed.Named = name
	}
	return changed
}

// keep is for reports that no majority makes: the record stays, and so does the label. Where there is no record yet, as
// after an update of the plugin that begins to declare its election, a pod keeps the label that it had before.
func (f Facts) keep(recorded *platformv1.ElectionRecord) Election {
	kept := Election{Record: recorded, State: ElectionUnknown}
	for _, p := range f.Pods {
		if f.IsPrimaryRole(p.Role) && (recorded == nil || recorded.Primary == p.Name) {
			kept.Named = p.Name
			break
		}
	}
	return kept
}

// votes are the reports of pods that live on nodes that are reached, and how many of them are beyond the wanted ones.
// What does not parse is no report, and neither are those of pods that claim to be the same member.
func (f Facts) votes(by platformv1.SetElection) (votes []vote, beyond int) {
	for _, p := range f.Pods {
		v := vote{member: p.Report.Attributes[by.Member], primary: p.Report.Attributes[by.Primary],
			epoch: epochOf(p.Report.Attributes[by.Epoch])}
		if _, unique := f.memberNamed(by, v.member); !unique || v.epoch == nil || p.Life != Alive || p.Node != Reachable {
			continue
		}
		votes = append(votes, v)
		if !f.Wanted(p) {
			beyond++
		}
	}
	return votes, beyond
}

// leading is the vote that most members cast, by epoch and primary, and how many did.
func leading(votes []vote) (vote, int) {
	var best vote
	most := 0
	for _, v := range votes {
		count := 0
		for _, other := range votes {
			if v.primary == other.primary && slices.Equal(v.epoch, other.epoch) {
				count++
			}
		}
		if count > most {
			best, most = v, count
		}
	}
	return best, most
}

// memberNamed is the pod that reports to be a member, when just one does.
func (f Facts) memberNamed(by platformv1.SetElection, member string) (string, bool) {
	var found []string
	for _, p := range f.Pods {
		if member != "" && p.Life == Alive && p.Report.Attributes[by.Member] == member {
			found = append(found, p.Name)
		}
	}
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}

// epochOf parses an epoch; nil for a text that is none.
func epochOf(text string) epoch {
	var parts epoch
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == '.' }) {
		number, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil
		}
		parts = append(parts, number)
	}
	return parts
}

// String is the epoch as records have it.
func (e epoch) String() string {
	parts := make([]string, len(e))
	for i, part := range e {
		parts[i] = strconv.FormatUint(part, 10)
	}
	return strings.Join(parts, ":")
}
