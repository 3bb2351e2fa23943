// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Decide says what is next. The views are of the members of the shape, in any order. What needs to be done first comes
// first: nothing of a later stage is begun while an earlier one has something to say.
func Decide(shape *Shape, views []View) Plan {
	p := newPicture(shape, views)
	for _, stage := range []func() *Plan{
		p.identities, p.beginnings, p.meetings, p.sight, p.successions, p.agreement, p.abandoned, p.givenUp,
		p.agreeOnPrimaries, p.openSlots, p.unowned, p.handovers, p.roles, p.forgotten, p.draining, p.copies, p.moves,
		p.departures, p.health,
	} {
		if plan := stage(); plan != nil {
			return *plan
		}
	}
	return Plan{Phase: Done, Reason: fmt.Sprintf("%d shards own all slots", len(shape.Shards))}
}

func refused(format string, args ...any) *Plan {
	return &Plan{Phase: Refused, Reason: fmt.Sprintf(format, args...)}
}

func waiting(format string, args ...any) *Plan {
	return &Plan{Phase: Waiting, Reason: fmt.Sprintf(format, args...)}
}

func working(steps []Step, format string, args ...any) *Plan {
	if len(steps) == 0 {
		return nil
	}
	return &Plan{Phase: Working, Reason: fmt.Sprintf(format, args...), Steps: steps}
}

// identities: each member is one node of one cluster.
func (p *picture) identities() *Plan {
	seen := map[string]string{}
	for _, v := range p.all() {
		if !v.seen() {
			continue
		}
		if other := seen[v.ID]; other != "" {
			return refused("%s and %s have the same node id %s: one has a copy of the other's volume. Remove nodes.conf and "+
				"the data from the copy", other, v.Member, v.ID)
		}
		seen[v.ID] = v.Member
	}
	for _, v := range p.staying {
		switch {
		case !v.seen():
		case v.fresh() && v.Keys > 0:
			return refused("%s is in no cluster, and has %d keys: it can join only without data. Flush it, if they are not "+
				"needed", v.Member, v.Keys)
		case v.joined() && v != p.anchor && !p.related(v):
			return refused("%s is in another cluster: it knows no member of this one, but %d other nodes. Reset it, if its "+
				"data is not needed", v.Member, len(v.Nodes)-1)
		}
	}
	return nil
}

// related says whether a member and another one know of each other, either way.
func (p *picture) related(v *View) bool {
	return slices.ContainsFunc(p.all(), func(o *View) bool {
		return o != v && o.seen() && (v.node(o.ID) != nil || o.node(v.ID) != nil)
	})
}

// beginnings: fresh members get an epoch of their own before they are met. A cluster begins only where all members are
// seen to be fresh.
func (p *picture) beginnings() *Plan {
	if missing := unseen(p.staying); p.anchor == nil && len(missing) > 0 {
		return waiting("no member knows of a cluster, and it does not begin before all are seen: %s",
			strings.Join(missing, ", "))
	}
	gone := slices.DeleteFunc(slices.Clone(p.leaving), func(v *View) bool { return v.seen() && v.fresh() })
	if p.anchor == nil && len(gone) > 0 {
		return refused("no member that stays knows of a cluster, and %s leaves: it may have the data", gone[0].Member)
	}
	var epoch uint64
	for _, v := range p.all() {
		if v.seen() {
			epoch = max(epoch, v.Epoch, v.own().Epoch)
		}
	}
	var steps []Step
	for _, v := range p.staying {
		// A node that has heard of an epoch takes none.
		if v.seen() && v.fresh() && v.Epoch == 0 && v.own().Epoch == 0 {
			epoch++
			steps = append(steps, Step{Kind: SetEpoch, On: v.Member, Epoch: epoch, Reason: "it is fresh"})
		}
	}
	if p.anchor != nil {
		return working(steps, "fresh members get an epoch before they join")
	}
	return working(steps, "all members are fresh: a cluster begins")
}

// meetings: members are met, and met again where their address has changed. What goes through the anchor spreads by
// itself, so that other pairs follow only when all is well with it.
func (p *picture) meetings() *Plan {
	if p.anchor == nil {
		p.anchor = p.staying[0]
	}
	var through, others []Step
	around := slices.DeleteFunc(p.all(), func(v *View) bool { return !v.seen() || p.shardOf(v) < 0 && !p.known(v.ID) })
	for _, v := range around {
		for _, o := range around {
			if reason := stale(v, o); v != o && reason != "" {
				step := Step{Kind: Meet, On: v.Member, To: o.Member, Reason: reason}
				if v == p.anchor || o == p.anchor {
					through = append(through, step)
				} else {
					others = append(others, step)
				}
			}
		}
	}
	if len(through) > 0 {
		return working(through, "members must know each other's addresses")
	}
	return working(others, "members must know each other's addresses")
}

// stale says why a member has to meet another one.
func stale(v, o *View) string {
	switch n := v.node(o.ID); {
	case n == nil || n.Is("handshake"):
		return "they have not met"
	case n.Is("noaddr"):
		return "its address is not known"
	case n.Address != o.Address:
		return fmt.Sprintf("its address was %s and is %s", n.Address, o.Address)
	}
	return ""
}

// sight: nothing else is done while a member is not seen. One that leaves and owns nothing may be gone already.
func (p *picture) sight() *Plan {
	missing := unseen(p.staying)
	for _, v := range p.leaving {
		if v.seen() {
			continue
		}
		if holders := p.ghosts(); slices.ContainsFunc(holders, func(g ghost) bool { return g.owns }) {
			missing = append(missing, unseen([]*View{v})...)
		}
	}
	if len(missing) > 0 {
		return waiting("not all members are seen: %s", strings.Join(missing, ", "))
	}
	return nil
}

// successions: where the owner of slots is gone for good, one of its replicas takes over. All members are seen here and
// none is that node, so that nothing is waited for: whoever copied from it has what is left. One that has not copied
// yet would hand the slots out empty.
func (p *picture) successions() *Plan {
	all := p.ghosts()
	for _, g := range all {
		if g.alive {
			return waiting("node %s at %s is in the cluster, and is no member: it is gone, and that is not noticed yet, or it "+
				"has to leave", g.id, g.address)
		}
	}
	var steps []Step
	for _, g := range all {
		copies := slices.DeleteFunc(g.replicas, (*View).bare)
		if !g.owns || len(copies) == 0 {
			continue
		}
		best := slices.MaxFunc(copies, byData)
		steps = append(steps, Step{Kind: Failover, On: best.Member, Manner: p.manner(),
			Reason: fmt.Sprintf("node %s is gone, and it has most of its data", g.id)})
	}
	return working(steps, "replicas take over from nodes that are gone")
}

// bare says whether a replica may never have copied anything. An offset does not show it: a member that left and came
// back keeps the one that it had.
func (v *View) bare() bool { return v.Keys == 0 && (v.Offset == 0 || !v.Heard) }

// byData compares how much two replicas of the same primary have. Redis 7.0 knows no offset any more after a restart.
func byData(a, b *View) int {
	return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Keys, b.Keys))
}

// manner is Force while a majority of those who own slots can vote.
func (p *picture) manner() Manner {
	voters, alive := map[string]bool{}, 0
	for _, v := range p.counted() {
		for _, n := range v.Nodes {
			if len(n.Slots) > 0 && !voters[n.ID] {
				voters[n.ID] = true
				if p.byID[n.ID] != nil {
					alive++
				}
			}
		}
	}
	if alive*2 > len(voters) {
		return Force
	}
	return Takeover
}

// abandoned: slots of a node that is gone without a copy are dropped only where that is said. A replica that has not
// copied yet could not drop its primary.
func (p *picture) abandoned() *Plan {
	var steps, detach []Step
	for _, g := range p.ghosts() {
		if !slices.Contains(p.owners, g.id) {
			continue
		}
		if !slices.Contains(p.shape.Abandon, g.id) {
			return refused("the slots %s belong to node %s, which is no member, and of which no member has a complete copy: "+
				"bring its volume back, or abandon it to hand them out empty", p.slotsOfGhost(g), g.id)
		}
		for _, v := range g.knownBy {
			if v.own().Primary == g.id {
				detach = append(detach, Step{Kind: Detach, On: v.Member, Reason: "it has not copied from node " + g.id +
					", whose data is given up for lost"})
				continue
			}
			steps = append(steps, Step{Kind: Forget, On: v.Member, ID: g.id, Reason: "its data is given up for lost"})
		}
	}
	return working(append(steps, detach...), "nodes whose data is lost are dropped")
}

// givenUp is the end where nothing but that is to be done. An id that nobody knows may be a mistake.
func (p *picture) givenUp() *Plan {
	if p.shape.Goal != GiveUp {
		return nil
	}
	for _, v := range p.all() {
		if v.seen() && slices.Contains(p.shape.Abandon, v.ID) {
			return refused("node %s is %s, which is there: only what is gone can be given up", v.ID, v.Member)
		}
	}
	return &Plan{Phase: Done, Reason: "no member knows of a node that is given up"}
}

func (p *picture) slotsOfGhost(g ghost) string {
	for _, v := range g.knownBy {
		if n := v.node(g.id); len(n.Slots) > 0 {
			return textOf(n.Slots)
		}
	}
	return ""
}

// agreement of all members about who owns what.
func (p *picture) agreement() *Plan {
	if sentence := p.agree(); sentence != "" {
		return waiting("%s", sentence)
	}
	return nil
}

// agreeOnPrimaries: all members know which of them are primaries.
func (p *picture) agreeOnPrimaries() *Plan {
	for _, v := range p.counted() {
		for _, o := range p.counted() {
			// Right after they met, a node is neither.
			if n := v.node(o.ID); n != nil && (n.Is("master") != o.primary() || n.Is("slave") == o.primary()) {
				return waiting("%s has not yet heard what %s is", v.Member, o.Member)
			}
		}
	}
	return nil
}

// forgotten: nodes that no member is, and that own nothing, are dropped by all. A member that leaves and is away may
// come back, and is a copy of what has not yet moved.
func (p *picture) forgotten() *Plan {
	if len(unseen(p.leaving)) > 0 && slices.ContainsFunc(p.leaving, func(v *View) bool { return v.seen() && v.owns() }) {
		return nil
	}
	var steps []Step
	for _, g := range p.ghosts() {
		for _, v := range g.knownBy {
			// None drops its own primary. Here only one that leaves has such a primary, and forgets all when it does.
			if v.own().Primary != g.id {
				steps = append(steps, Step{Kind: Forget, On: v.Member, ID: g.id,
					Reason: "no member is this node, and it owns no slots"})
			}
		}
	}
	return working(steps, "nodes that are gone are dropped")
}

// handovers: a primary that leaves hands its slots to a replica that stays, before that one gives up its copy of them
// to follow somebody else.
func (p *picture) handovers() *Plan {
	var steps, mends []Step
	var pending []string
	for _, owner := range p.leaving {
		if !owner.seen() || !owner.owns() {
			continue
		}
		if best := p.successor(owner, p.staying); best != nil {
			steps = append(steps, Step{Kind: Failover, On: best.Member, Reason: owner.Member + " leaves"})
			continue
		}
		for _, v := range p.staying {
			switch {
			case v.own().Primary != owner.ID:
			case v.looksElsewhere(owner):
				mends = append(mends, Step{Kind: Replicate, On: v.Member, To: owner.Member, Reason: v.lost()})
			case v.Link:
				pending = append(pending, fmt.Sprintf("%s could take over from %s, and is to be taken out itself", v.Member,
					owner.Member))
			default:
				pending = append(pending, fmt.Sprintf("%s has not yet all data of %s, which leaves", v.Member, owner.Member))
			}
		}
	}
	switch {
	case len(steps) > 0:
		return working(steps, "primaries hand over before they leave")
	case len(mends) > 0:
		return working(mends, "replicas copy from a primary that leaves, to take over from it")
	case len(pending) > 0:
		return waiting("a primary hands over before it leaves, and cannot yet: %s", strings.Join(pending, "; "))
	}
	return nil
}

// successor is the replica in sync that has most of a primary's data, and is not to be taken out itself; nil where
// there is none.
func (p *picture) successor(primary *View, among []*View) *View {
	var best *View
	for _, v := range among {
		if v.seen() && v.own().Primary == primary.ID && v.Link && !slices.Contains(p.shape.Drain, v.Member) &&
			(best == nil || byData(v, best) > 0) {
			best = v
		}
	}
	return best
}

// draining: a member that is about to be taken out hands its slots to a replica that has all data.
func (p *picture) draining() *Plan {
	var steps []Step
	for _, member := range p.shape.Drain {
		v := p.byMember[member]
		if !v.seen() || !v.owns() {
			continue
		}
		best := cmp.Or(p.successor(v, p.staying), p.successor(v, p.leaving))
		if best == nil {
			return refused("%s owns slots, and no replica in sync can take over from it", member)
		}
		steps = append(steps, Step{Kind: Failover, On: best.Member, Reason: member + " is to be taken out"})
	}
	return working(steps, "primaries hand over before they are taken out")
}

// departures: who leaves and owns nothing, as all say, is dropped by all, replicas first, and then reset.
func (p *picture) departures() *Plan {
	leaving := slices.Clone(p.leaving)
	slices.SortStableFunc(leaving, func(a, b *View) int { return rankOf(a) - rankOf(b) })
	var forget, reset []Step
	var redirects bool
	for _, v := range leaving {
		if !v.seen() {
			continue
		}
		for _, o := range p.staying {
			if o.node(v.ID) != nil {
				forget = append(forget, Step{Kind: Forget, On: o.Member, ID: v.ID, Reason: v.Member + " leaves, and owns no slots"})
				redirects = redirects || v.primary()
			}
		}
		if !v.fresh() {
			reset = append(reset, Step{Kind: Reset, On: v.Member, Reason: "it has left"})
		}
	}
	if len(forget) > 0 {
		plan := working(forget, "members that leave are dropped by all others, once clients have had time to learn who has "+
			"their slots")
		plan.RedirectsClients = redirects
		return plan
	}
	return working(reset, "members that have left forget the cluster")
}

func rankOf(v *View) int {
	if v.seen() && v.primary() {
		return 1
	}
	return 0
}

// health: all members serve, and hear each other.
func (p *picture) health() *Plan {
	for _, v := range p.staying {
		if v.State != "ok" {
			return waiting("%s says that the cluster's state is %q", v.Member, v.State)
		}
		for _, o := range p.staying {
			if n := v.node(o.ID); o != v && (n == nil || n.Is("fail") || n.Is("fail?") || !n.Connected) {
				return waiting("%s does not hear %s", v.Member, o.Member)
			}
		}
		if !v.primary() && !v.Link {
			return waiting("%s has not yet all data of its primary", v.Member)
		}
	}
	return nil
}
