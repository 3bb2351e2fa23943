// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// batch is how many slots are open at a time. Simulations take more at a time, to see more in their time.
var batch = 64

// usable is how much of a member's memory may be in use after slots came to it, in percent.
const usable = 90

// openSlots: a slot that somebody has open, or that has keys where its owner is not, is finished: it goes to where its
// keys are, so that no client misses one in between. Where nobody but the owner has keys it is closed.
func (p *picture) openSlots() *Plan {
	var moves, closes []Step
	for _, slot := range p.openList() {
		owner := p.byID[p.owners[slot]]
		if p.owners[slot] == nobody {
			// It gets an owner first: the one that has its keys.
			continue
		}
		if owner == nil {
			return waiting("slot %d is open, and its owner %s is not seen", slot, p.title(p.owners[slot]))
		}
		if target := p.holder(slot, owner); target != nil {
			moves = appendSlot(moves, Step{Kind: Move, On: owner.Member, To: target.Member,
				Reason: "it has keys of slots that are open"}, slot)
			continue
		}
		for _, v := range p.counted() {
			_, migrating := v.own().Migrating[slot]
			if _, importing := v.own().Importing[slot]; migrating || importing {
				closes = appendSlot(closes, Step{Kind: Close, On: v.Member, Reason: "it has slots open that are not on the move"},
					slot)
			}
		}
	}
	if len(moves) > 0 {
		return working(moves[:1], "slots that were left open are moved to where their keys are")
	}
	return working(closes, "slots that were left open are closed")
}

// openList are the slots that any member tells to be open, or has keys of without being the owner.
func (p *picture) openList() []int {
	open := map[int]bool{}
	for _, v := range p.counted() {
		for _, of := range []map[int]string{v.own().Migrating, v.own().Importing} {
			for slot := range of {
				open[slot] = true
			}
		}
		for slot, keys := range v.Strays {
			if v.primary() && keys > 0 && p.owners[slot] != v.ID {
				open[slot] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(open))
}

// holder is the primary that has most keys of a slot without owning it; nil where none has.
func (p *picture) holder(slot int, owner *View) *View {
	var best *View
	for _, v := range p.counted() {
		if v != owner && v.primary() && v.Strays[slot] > 0 && (best == nil || v.Strays[slot] > best.Strays[slot]) {
			best = v
		}
	}
	return best
}

// appendSlot adds a slot to the step that is the same but for it, as far as a batch goes.
func appendSlot(steps []Step, like Step, slot int) []Step {
	for i := range steps {
		if s := &steps[i]; s.Kind == like.Kind && s.On == like.On && s.To == like.To && len(s.Slots) < batch {
			s.Slots = append(s.Slots, slot)
			return steps
		}
	}
	like.Slots = []int{slot}
	return append(steps, like)
}

// unowned: slots that nobody owns are given out as they are to be, or to the one that has their keys.
func (p *picture) unowned() *Plan {
	free := p.slotsOf(nobody)
	if len(free) == 0 {
		return nil
	}
	heads := p.heads()
	var steps []Step
	give := func(v *View, reason string, slot int) {
		for i := range steps {
			if steps[i].On == v.Member && steps[i].Reason == reason {
				steps[i].Slots = append(steps[i].Slots, slot)
				return
			}
		}
		steps = append(steps, Step{Kind: Assign, On: v.Member, Slots: []int{slot}, Reason: reason})
	}
	wanted := p.shares()
	missing := make([]int, len(heads))
	for i, head := range heads {
		if missing[i] = wanted[i]; head != nil {
			missing[i] -= len(p.slotsOf(head.ID))
		}
	}
	next := 0
	for _, slot := range free {
		if holder := p.holder(slot, nil); holder != nil {
			give(holder, "nobody owns them, and it has their keys", slot)
			continue
		}
		for next < len(heads)-1 && (heads[next] == nil || missing[next] <= 0) {
			next++
		}
		if heads[next] == nil {
			return nil // It becomes a primary first.
		}
		missing[next]--
		give(heads[next], "nobody owns them", slot)
	}
	return working(steps, "%d slots have no owner", len(free))
}

// shares are how many slots each shard is to own.
func (p *picture) shares() []int {
	n := len(p.shape.Shards)
	shares := make([]int, n)
	for i := range shares {
		shares[i] = Slots / n
		if i < Slots%n {
			shares[i]++
		}
	}
	return shares
}

// roles: each shard has one primary, from which its other members copy. A shard whose members all copy from others gets
// one of its own. Those others own no slots, or stay: who leaves has handed over before.
func (p *picture) roles() *Plan {
	var detach, steps []Step
	heads := p.heads()
	for i, shard := range p.shape.Shards {
		if heads[i] == nil {
			detach = append(detach, Step{Kind: Detach, On: shard[0],
				Reason: fmt.Sprintf("shard %d has no primary of its own", i)})
			continue
		}
		for _, member := range shard {
			v := p.byMember[member]
			switch {
			// One that owns slots, too, gives them up first.
			case v == heads[i] || v.owns():
			case v.own().Primary != heads[i].ID:
				steps = append(steps, Step{Kind: Replicate, On: member, To: heads[i].Member,
					Reason: fmt.Sprintf("it is a replica of shard %d", i)})
			case v.looksElsewhere(heads[i]):
				steps = append(steps, Step{Kind: Replicate, On: member, To: heads[i].Member, Reason: v.lost()})
			}
		}
	}
	if len(detach) > 0 {
		return working(detach, "each shard needs a primary")
	}
	return working(steps, "replicas copy from the primary of their shard")
}

// looksElsewhere says whether a replica goes on looking for its primary where that is no more. Redis does so for ever
// when it hears of the primary's new address from a third node before the primary itself (redis/redis#13572, 7.0 to
// 8.0); to be told once more whose replica it is has it look there.
func (v *View) looksElsewhere(primary *View) bool {
	return !v.Link && v.Upstream != "" && primary.seen() && v.Upstream != primary.Address
}

// lost says where such a replica looks.
func (v *View) lost() string {
	return "it looks for its primary at " + v.Upstream + ", where that was before"
}

// copies: replicas have all data before slots move, so that what moves has a copy all the time.
func (p *picture) copies() *Plan {
	if _, left := p.nextMoves(); left == 0 {
		return nil
	}
	for _, v := range p.staying {
		if !v.primary() && !v.Link {
			return waiting("%s has not yet all data of its primary: slots move when it has", v.Member)
		}
	}
	return nil
}

// moves: slots go from those who have too many to those who have too few.
func (p *picture) moves() *Plan {
	step, left := p.nextMoves()
	if left == 0 {
		return nil
	}
	if p.shape.Moves == MovesHeld {
		return waiting("%d slots have to move, and do not while a backup takes their keys", left)
	}
	if problem := p.memory(); problem != "" {
		return refused("%s", problem)
	}
	plan := working([]Step{step}, "%d slots have to move", left)
	plan.Left = left
	return plan
}

// nextMoves is the next batch, and how many slots have to move in all.
func (p *picture) nextMoves() (step Step, left int) {
	heads, shares := p.heads(), p.shares()
	room := make([]int, len(heads))
	surplus := map[string]int{}
	for id, v := range p.byID {
		surplus[id] = len(p.slotsOf(id))
		if i := p.shardOf(v); i >= 0 && heads[i] == v {
			room[i] = shares[i] - surplus[id]
			surplus[id] = max(-room[i], 0)
		}
	}
	from, to := (*View)(nil), -1
	for _, v := range slices.Concat(p.leaving, p.staying) {
		if v.seen() && surplus[v.ID] > 0 {
			if left += surplus[v.ID]; from == nil {
				from = v
			}
		}
	}
	for i := range room {
		if room[i] > 0 && (to < 0 || room[i] > room[to]) {
			to = i
		}
	}
	if from == nil || to < 0 {
		return Step{}, 0
	}
	slots := p.slotsOf(from.ID)
	count := min(batch, surplus[from.ID], room[to])
	reason := "it has too many"
	if p.shardOf(from) < 0 {
		reason = "it leaves"
	}
	return Step{Kind: Move, On: from.Member, To: heads[to].Member, Slots: slots[len(slots)-count:], Reason: reason}, left
}

// memory says whether those who get slots have room for them: each slot weighs what the slots of its owner weigh on
// average.
func (p *picture) memory() string {
	heads, shares := p.heads(), p.shares()
	pool, moving := 0.0, 0
	for id, v := range p.byID {
		own := len(p.slotsOf(id))
		surplus := own
		if i := p.shardOf(v); i >= 0 && heads[i] == v {
			surplus = own - shares[i]
		}
		if surplus > 0 {
			pool += float64(v.Dataset) * float64(surplus) / float64(own)
			moving += surplus
		}
	}
	var short []string
	for i, head := range heads {
		limit := head.Limit
		if limit == 0 {
			limit = p.shape.Memory
		}
		comes := shares[i] - len(p.slotsOf(head.ID))
		if limit == 0 || comes <= 0 {
			continue
		}
		need := head.Used + int64(pool*float64(comes)/float64(moving))
		if need > limit/100*usable {
			short = append(short, fmt.Sprintf("%s would use %s of %s", head.Member, size(need), size(limit)))
		}
	}
	if len(short) == 0 {
		return ""
	}
	return fmt.Sprintf("there is no room for the data of %d slots, with %s: %s, and at most %d %% may be used. Give "+
		"them more memory, or remove data", moving, size(int64(pool)), strings.Join(short, ", "), usable)
}

func size(bytes int64) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}
