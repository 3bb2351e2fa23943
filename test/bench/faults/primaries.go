// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"time"
)

// Write is one that a member acknowledged.
type Write struct {
	Member string
	// Group is which group of members it was in when the write began, and Epoch the number of the view that it had of it.
	Group string
	Epoch uint64
	// Begun is when the client sent it, and Acked when it had the answer.
	Begun, Acked time.Time
}

// String names the member with its view and time.
func (w Write) String() string {
	return fmt.Sprintf("%s in view %s:%d at %s", w.Member, w.Group, w.Epoch, w.Acked.Format("15:04:05.000"))
}

// before says whether a write was acknowledged before another one began.
func (w Write) before(other Write) bool { return !w.Acked.After(other.Begun) }

// TwoPrimaries says which writes show that two members acknowledged writes at the same time, each as the primary; nil
// where none does. A change of the primary has the writes of one member end before those of another one begin, within a
// view or with a later one:
//   - no member writes in a view after another one has written in a later view of the same group;
//   - in one view, no member writes before and after another one;
//   - in no group is written before and after another group.
func TwoPrimaries(writes []Write) []string {
	var found []string
	for _, w := range writes {
		for _, other := range writes {
			if w.Member != other.Member && w.Group == other.Group && w.Epoch < other.Epoch && other.before(w) {
				found = append(found, fmt.Sprintf("%s, after %s", w, other))
				break
			}
		}
	}
	return append(found, around(writes)...)
}

// around says which writes of a member or of a group are between those of another one.
func around(writes []Write) []string {
	// The first and the last write of each.
	spans := map[string][2]Write{}
	widen := func(key string, w Write) {
		span, known := spans[key]
		if !known {
			span = [2]Write{w, w}
		}
		if w.Acked.Before(span[0].Acked) {
			span[0] = w
		}
		if w.Begun.After(span[1].Begun) {
			span[1] = w
		}
		spans[key] = span
	}
	member := func(w Write) string { return fmt.Sprintf("%s:%d %s", w.Group, w.Epoch, w.Member) }
	for _, w := range writes {
		widen(w.Group, w)
		widen(member(w), w)
	}
	var found []string
	for _, w := range writes {
		for _, span := range spans {
			first, last := span[0], span[1]
			sameView := first.Group == w.Group && first.Epoch == w.Epoch && first.Member == last.Member &&
				last.Epoch == w.Epoch && first.Member != w.Member
			if (sameView || first.Group != w.Group) && first.before(w) && w.before(last) {
				found = append(found, fmt.Sprintf("%s, between %s and %s", w, first, last))
				break
			}
		}
	}
	return found
}
