// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

const (
	// longestRefusedRetry is what refusedRetry grows to, doubled each time, where an attempt costs two writes: the claim,
	// and its end.
	longestRefusedRetry = 2 * time.Minute
	// doubtTime is how long a call whose end is not known counts as one that may still make its object: far longer than
	// the middleware is at work on any.
	doubtTime = 30 * time.Minute
)

// claim is what this controller knows of its attempts to make an object that nobody has read back yet.
//
// An Entity claims its object in status.origin before it asks for it, so that a controller which dies in between knows
// its own again. A claim to what was refused would have it take for its own what somebody else makes under that name
// later, and drop that in the end. So the claim is taken back when nothing of ours can come any more: the agent would
// not take the call, or the driver told of a problem with this object, of which it makes all or nothing; after that the
// object was read back as not there; and whatever else was asked for since the claim ended so too. A call without an
// answer, one that failed or was interrupted, and a command that failed (it may have begun what goes on without it) can
// make the object after any look: the claim stays. So does that of another controller, which may have died in a call.
// With doubtTime such doubts end: were an object of ours to come so late none the less, it would be left alone, which
// loses nothing.
type claim struct {
	// open is the key of a call whose end is not known; empty for none.
	open string
	// doubt is until when other calls may still make the object.
	doubt time.Time
	// refusals is how often it was taken back, problem why, under which circumstances, and next when to ask again.
	refusals               int
	problem, circumstances string
	next                   time.Time
}

// wasRead says that the object was read back once. From then on it is the Entity's, also when somebody removes it: that
// is drift.
func (it *item) wasRead() bool { return it.entity.Status.Applied != "" }

// delay until the object is asked for again.
func (k *claim) delay() time.Duration {
	delay := refusedRetry
	for range k.refusals {
		delay = min(2*delay, longestRefusedRetry)
	}
	return delay
}

// began notes that an object is asked for that was never read back.
func (g *group) began(it *item, key string, now time.Time) {
	if it.intent == agentclient.EntityDelete || it.wasRead() {
		return
	}
	known := g.claims[it.entity.UID]
	if known == nil {
		known = &claim{}
		if !it.claimed {
			known.doubt = now.Add(doubtTime)
		}
	}
	it.again = known.open == key
	if known.open != "" && !it.again {
		known.doubt = now.Add(doubtTime)
	}
	known.open, g.claims[it.entity.UID] = key, known
}

// ended notes what came of that.
func (g *group) ended(it *item, call agentclient.EntityCall, err error, now time.Time) {
	known := g.claims[it.entity.UID]
	if it.intent == agentclient.EntityDelete || it.wasRead() {
		return
	}
	byDriver := call.Phase == report.CallSucceeded && call.Problems[it.entity.Spec.Name] != "" &&
		it.wanted.Type.Actions == nil
	switch {
	case byDriver, agentclient.IsRefused(err) && !it.again:
		known.open = ""
		it.refused = it.intent == agentclient.EntityCreate && !now.Before(known.doubt)
	case err != nil && !agentclient.IsRefused(err), call.Phase == report.CallRunning:
		// It is asked how it stands, with the same key.
	default:
		known.open, known.doubt = "", now.Add(doubtTime)
	}
}

// disclaim has the claim to a refused object be taken back where it is not there.
func (g *group) disclaim(it *item, there bool) {
	if it.absent = !there; it.absent {
		it.end(outcome.StalledFor(g.claims[it.entity.UID].delay(), it.outcome.Reason(), it.outcome.Message()))
	}
}

// rest has Entities wait whose claim was taken back, while nothing has changed that can have been in the way. The parts
// are the pods that were asked.
func (seen *observation) rest(g *group, parts ...*group) {
	processes := ""
	for _, part := range parts {
		processes += " " + part.instance.now
	}
	for _, it := range g.items {
		known := seen.claims[it.entity.UID]
		if it.outcome != nil || it.deleting() || it.wasRead() {
			continue
		}
		// Another object of the instance may be what this one needs.
		it.circumstances = fmt.Sprint(it.digest(), " ", it.secret, " ", seen.changes, processes)
		there := slices.ContainsFunc(parts,
			func(part *group) bool { _, there := part.states[it.entity.Spec.Name]; return there })
		switch {
		case known == nil || there || it.entity.Status.Origin != "":
		case known.circumstances != it.circumstances:
			known.refusals = 0
		case seen.now.Before(known.next):
			it.end(outcome.StalledFor(known.next.Sub(seen.now), platformv1.ReasonRefusedByMiddleware, known.problem))
		}
	}
}

// rememberClaims notes which claims were taken back, and forgets those to objects that are there.
func (seen *observation) rememberClaims(g *group) {
	for _, it := range g.items {
		known := seen.claims[it.entity.UID]
		switch {
		case known == nil:
		case it.done():
			delete(seen.claims, it.entity.UID)
		case it.absent:
			known.next, known.problem, known.circumstances = seen.now.Add(it.outcome.After()), it.outcome.Message(),
				it.circumstances
			known.refusals++
		}
	}
}
