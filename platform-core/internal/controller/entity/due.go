// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"slices"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// changesInTurn is how many objects of a type one turn changes: with the writes that each takes it ends well before its
// deadline. The others have the next turn, which comes at once.
const changesInTurn = 2 * agentclient.MaxEntityChanges

// nextTurn is how soon it comes.
const nextTurn = time.Millisecond

// look at all objects of a type.
type look struct {
	// process that was asked.
	process string
	at      time.Time
}

// due are the items whose objects are to be looked at in this turn, and after when the others are: all where one call
// reads them, which costs as much as reading one of them, and else all unless that was done in the same process within
// the interval. Of ten thousand topics that come one after the other, each turn would otherwise look at all that are
// there. No more than a turn can change are due in between.
func (seen *observation) due(g *group, interval time.Duration) (items []*item, again time.Duration) {
	last, again := seen.looks[g.id()], spread(interval)
	since := seen.now.Sub(last.at)
	recent := last.process == g.instance.now && since >= 0 && since < interval-interval/10
	if g.each || len(g.items) <= agentclient.MaxEntityQueries || !recent {
		return g.items, again
	}
	fresh := func(it *item) bool { return !seen.owed[it.entity.UID] && it.fresh() }
	items = slices.DeleteFunc(slices.Clone(g.items), fresh)
	if turn := inTurn(items); len(turn) < len(items) {
		return turn, nextTurn
	}
	return items, max(again-since, time.Second)
}

// rememberLook notes that all objects of a type were looked at, and which of them the turn did not bring to what is
// asked: the status of an Entity may not say that yet.
func (seen *observation) rememberLook(g *group) {
	if g.whole {
		seen.looks[g.id()] = look{process: g.instance.now, at: seen.now}
	}
	for _, it := range g.items {
		if it.done() {
			delete(seen.owed, it.entity.UID)
			continue
		}
		seen.owed[it.entity.UID] = true
	}
}

// fresh says that an object was as this very Entity asks when it was last looked at, as far as the status tells.
func (it *item) fresh() bool {
	return it.settled() && !it.deleting() && it.secret == it.secretBefore && it.before.Status.Applied == it.digest()
}

// inTurn are those that this turn comes to: the oldest Entities first, and those last that were refused before, so
// that they keep nobody from his turn.
func inTurn(changes []*item) []*item {
	if len(changes) <= changesInTurn {
		return changes
	}
	changes = slices.Clone(changes)
	refused := func(it *item) int {
		if conditions.IsTrue(it.before, platformv1.StalledCondition) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(changes, func(a, b *item) int { return refused(a) - refused(b) })
	return changes[:changesInTurn]
}
