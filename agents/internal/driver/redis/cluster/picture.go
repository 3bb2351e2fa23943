// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// nobody owns a slot.
const nobody = ""

// picture puts the views together.
type picture struct {
	shape *Shape
	// staying and leaving are the views of members, in the order of the shape.
	staying, leaving []*View
	byID             map[string]*View
	byMember         map[string]*View
	// anchor is the member that others are met through; nil where no member knows another.
	anchor *View
	// owners by slot, as ids; valid once agreement found no two opinions.
	owners []string
}

func newPicture(shape *Shape, views []View) *picture {
	p := &picture{shape: shape, byID: map[string]*View{}, byMember: map[string]*View{}}
	for i := range views {
		p.byMember[views[i].Member] = &views[i]
	}
	take := func(member string) *View {
		v := p.byMember[member]
		if v == nil {
			v = &View{Member: member, Problem: "it was not looked at"}
			p.byMember[member] = v
		}
		return v
	}
	for _, member := range shape.members()[:len(shape.members())-len(shape.Leaving)] {
		p.staying = append(p.staying, take(member))
	}
	for _, member := range shape.Leaving {
		p.leaving = append(p.leaving, take(member))
	}
	for _, v := range p.all() {
		if v.seen() {
			p.byID[v.ID] = v
		}
	}
	p.chooseAnchor()
	return p
}

func (v *View) seen() bool { return v.Problem == "" }

// fresh says whether a member knows nobody and owns nothing.
func (v *View) fresh() bool { return !v.joined() && len(v.own().Slots) == 0 }

// joined says whether a member knows another node.
func (v *View) joined() bool {
	return slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.ID != v.ID && !n.Is("handshake") })
}

func (v *View) owns() bool { return len(v.own().Slots) > 0 }

func (v *View) primary() bool { return v.own().Is("master") }

func (p *picture) all() []*View { return slices.Concat(p.staying, p.leaving) }

// unseen are members that did not answer.
func unseen(views []*View) []string {
	var all []string
	for _, v := range views {
		if !v.seen() {
			all = append(all, fmt.Sprintf("%s (%s)", v.Member, v.Problem))
		}
	}
	return all
}

// chooseAnchor takes the member that stays and knows most of the others; the one that owns slots where there are more.
func (p *picture) chooseAnchor() {
	best := -1
	for _, v := range p.staying {
		if !v.seen() || v.fresh() {
			continue
		}
		known := 0
		for _, n := range v.Nodes {
			if p.byID[n.ID] != nil {
				known += 2
			}
		}
		if v.owns() {
			known++
		}
		if known > best {
			best, p.anchor = known, v
		}
	}
}

// shardOf a member that stays; -1 for one that leaves.
func (p *picture) shardOf(v *View) int {
	return slices.IndexFunc(p.shape.Shards, func(shard []string) bool { return slices.Contains(shard, v.Member) })
}

// known says whether a member that stays knows the node.
func (p *picture) known(id string) bool {
	return slices.ContainsFunc(p.staying, func(v *View) bool { return v.seen() && v.joined() && v.node(id) != nil })
}

// counted are those whose word about slots counts: members that stay, and such as leave and are known.
func (p *picture) counted() []*View {
	var all []*View
	for _, v := range p.all() {
		if v.seen() && !v.fresh() && (p.shardOf(v) >= 0 || p.known(v.ID)) {
			all = append(all, v)
		}
	}
	return all
}

// agree finds out who owns what. It returns a sentence where two members have two opinions. A member that imports a
// slot does not hear who else gets it: its opinion of that slot counts only where it says that the slot is its own. One
// that came when the owner of a slot was gone has not heard of that, and says that nobody owns it.
func (p *picture) agree() string {
	p.owners = make([]string, Slots)
	by := make([]*View, Slots)
	for _, v := range p.counted() {
		mine := make([]string, Slots)
		for _, n := range v.Nodes {
			for _, r := range n.Slots {
				for slot := r.First; slot <= r.Last; slot++ {
					mine[slot] = n.ID
				}
			}
		}
		importing := v.own().Importing
		for slot, id := range mine {
			if _, open := importing[slot]; open && id != v.ID {
				continue
			}
			switch before := p.owners[slot]; {
			case by[slot] == nil, before == nobody && p.gone(id):
				by[slot], p.owners[slot] = v, id
			case before != id && !(id == nobody && p.gone(before)):
				return fmt.Sprintf("the members do not agree on slot %d: %s says that %s owns it, %s says %s", slot,
					by[slot].Member, p.title(p.owners[slot]), v.Member, p.title(id))
			}
		}
	}
	return ""
}

// gone says whether no member is the node, so that it tells nobody any more what it owns.
func (p *picture) gone(id string) bool { return id != nobody && p.byID[id] == nil }

// title of a node in a sentence.
func (p *picture) title(id string) string {
	switch v := p.byID[id]; {
	case id == nobody:
		return "nobody"
	case v != nil:
		return v.Member
	}
	return "node " + id
}

// slotsOf a node, in order.
func (p *picture) slotsOf(id string) []int {
	var slots []int
	for slot, owner := range p.owners {
		if owner == id {
			slots = append(slots, slot)
		}
	}
	return slots
}

// heads are the members that take the writes of each shard: those that own most of its slots, else the first primary;
// nil where each member copies from somebody.
func (p *picture) heads() []*View {
	count := map[string]int{}
	for _, owner := range p.owners {
		count[owner]++
	}
	heads := make([]*View, len(p.shape.Shards))
	for i, shard := range p.shape.Shards {
		for _, member := range shard {
			v := p.byMember[member]
			if v.primary() && (heads[i] == nil || count[v.ID] > count[heads[i].ID]) {
				heads[i] = v
			}
		}
	}
	return heads
}

// ghosts are ids that no member has, with what members say of them, in the order of the ids.
func (p *picture) ghosts() []ghost {
	all := map[string]*ghost{}
	for _, v := range p.counted() {
		for i := range v.Nodes {
			n := &v.Nodes[i]
			if p.byID[n.ID] != nil || n.Is("handshake") {
				continue
			}
			g := all[n.ID]
			if g == nil {
				g = &ghost{id: n.ID, address: n.Address}
				all[n.ID] = g
			}
			g.knownBy = append(g.knownBy, v)
			g.owns = g.owns || v.says(n)
			g.alive = g.alive || n.Connected && !n.Is("fail") && !n.Is("fail?") && !n.Is("noaddr")
			if v.own().Primary == n.ID {
				g.replicas = append(g.replicas, v)
			}
		}
	}
	var sorted []ghost
	for _, g := range all {
		sorted = append(sorted, *g)
	}
	slices.SortFunc(sorted, func(a, b ghost) int { return strings.Compare(a.id, b.id) })
	return sorted
}

// says whether a member knows for itself that a node owns slots: of those that it imports it does not hear.
func (v *View) says(n *Node) bool {
	importing := v.own().Importing
	for _, r := range n.Slots {
		for slot := r.First; slot <= r.Last; slot++ {
			if _, open := importing[slot]; !open {
				return true
			}
		}
	}
	return false
}

// ghost is a node that is no member, as far as one sees.
type ghost struct {
	id, address string
	knownBy     []*View
	replicas    []*View
	owns, alive bool
}
