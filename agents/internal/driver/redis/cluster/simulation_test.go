// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// node is a simulated member: what Redis keeps in nodes.conf, and keys by slot.
type node struct {
	id, member, address string
	up                  bool
	primary             string
	// upstream is where it looks for its primary.
	upstream       string
	epoch, current uint64
	table          map[string]*entry
	owner          []string
	migrating      map[int]string
	importing      map[int]string
	banned         map[string]int
	keys           map[int]map[string]bool
	// lacking replicas have not yet copied from their primary; what stuck ones copy does not come to its end.
	lacking, stuck bool
	// linked says whether a replica has had all data since it was started or became one; the offset is 0 after a start, as
	// that of Redis 7.0 is.
	linked bool
	offset int
	// elected is the step in which it took over.
	elected int
	// version changes with what the node says or knows of slots; heard are versions of another one and of its own, when it
	// heard that last.
	version int
	heard   map[string][2]int
}

// entry is what a node knows of another.
type entry struct {
	address, primary string
	epoch            uint64
}

// world is a simulated cluster in which things happen between any two commands.
type world struct {
	*testing.T
	random  *rand.Rand
	members map[string]*node
	names   []string
	// serial makes ids and addresses that were never there.
	serial, clock int
	// step of the agent.
	turn int
	// calm worlds have no faults; in others something happens at one of so many commands that change something, and turns.
	calm  bool
	every int
	// begun worlds have an owner for each slot, for ever.
	begun bool
	// dead agents send nothing.
	dead bool
	// leaving are the members that are to go.
	leaving []string
	log     []string
}

var (
	errAgent   = errors.New("the agent is dead")
	errNetwork = errors.New("connection refused")
)

func (w *world) unique(prefix string) string {
	w.serial++
	return prefix + strconv.Itoa(w.serial)
}

func (w *world) fresh(member string) {
	id := w.unique("n")
	w.members[member] = &node{id: id, member: member, address: fmt.Sprintf("10.0.0.1:%d", 1000+w.serial), up: true,
		table: map[string]*entry{},
		owner: make([]string, Slots), migrating: map[int]string{}, importing: map[int]string{}, banned: map[string]int{},
		heard: map[string][2]int{}, keys: map[int]map[string]bool{}}
	if !slices.Contains(w.names, member) {
		w.names = append(w.names, member)
	}
}

// live is the node with the id, if any member has it.
func (w *world) live(id string) *node {
	for _, name := range w.names {
		if n := w.members[name]; n.id == id {
			return n
		}
	}
	return nil
}

func (n *node) master() bool { return n.primary == "" }

// ownsOf says whether a primary owns slots that another node has by a table.
func (n *node) ownsOf(id string, table []string) bool {
	for slot, owner := range table {
		if owner == id && n.master() && n.owner[slot] == n.id {
			return true
		}
	}
	return false
}

func (n *node) owns() bool { return n.master() && slices.Contains(n.owner, n.id) }

// Address implements Transport.
func (w *world) Address(_ context.Context, member string) (string, error) {
	return w.members[member].address, nil
}

// Send implements Transport. Before each command something may happen.
func (w *world) Send(_ context.Context, member string, commands ...Command) ([]Answer, error) {
	answers := make([]Answer, len(commands))
	changing := commands[0][0] == "MIGRATE" || commands[0][0] == "CLUSTER" &&
		slices.Contains([]string{"SETSLOT", "FORGET", "MEET", "RESET", "ADDSLOTSRANGE", "REPLICATE", "FAILOVER",
			"SET-CONFIG-EPOCH"}, commands[0][1])
	if !w.calm && w.random.IntN(100) == 0 {
		return nil, errNetwork
	}
	for i, command := range commands {
		if changing && !w.calm && w.random.IntN(w.every) == 0 {
			w.happen()
			w.check()
		}
		n := w.members[member]
		if w.dead {
			return nil, errAgent
		}
		if !n.up {
			return nil, errNetwork
		}
		answers[i].Value, answers[i].Err = w.answer(n, command)
		if changing {
			w.log = append(w.log, fmt.Sprintf("%s: %s %v", member, strings.Join(command, " "), answers[i].Err))
		}
	}
	if changing {
		w.check()
	}
	return answers, nil
}

// happen has one thing happen that may happen to real ones.
func (w *world) happen() {
	n := w.members[w.names[w.random.IntN(len(w.names))]]
	switch w.random.IntN(6) {
	case 0:
		w.dead = true
	case 1:
		// It is away, with its volume.
		n.up = false
	case 2:
		w.moved(n)
	case 3:
		w.lose(n)
	case 4:
		w.gossip(3)
	case 5:
		w.elect()
	}
}

// moved: a member comes back elsewhere.
func (w *world) moved(n *node) {
	w.serial++
	n.up, n.address = true, fmt.Sprintf("10.0.0.1:%d", 1000+w.serial)
	n.restart()
	w.log = append(w.log, n.member+" is at "+n.address)
}

// restart: a process does not know any more how much it has.
func (n *node) restart() { n.linked, n.offset = false, 0 }

// leaves says whether a node is a member that is to go.
func (w *world) leaves(n *node) bool { return slices.Contains(w.leaving, n.member) }

// lose: a member comes back without its volume, when somebody else has its data, knows of its slots and stays, if that
// one stayed.
func (w *world) lose(n *node) {
	if n.owns() && !slices.ContainsFunc(w.names, func(name string) bool {
		o := w.members[name]
		return o.up && o.primary == n.id && !o.lacking && (w.leaves(n) || !w.leaves(o)) &&
			slices.EqualFunc(o.owner, n.owner, func(a, b string) bool { return (a == n.id) == (b == n.id) })
	}) || w.importsUnknownKeys(n) || w.orphaned() {
		return
	}
	w.log = append(w.log, n.member+" has lost its volume, as "+n.id)
	w.fresh(n.member)
}

// orphaned says whether the data of a shard is at one place only, until a replica takes over.
func (w *world) orphaned() bool {
	return slices.ContainsFunc(w.names, func(name string) bool {
		n := w.members[name]
		return !n.master() && w.live(n.primary) == nil
	})
}

// importsUnknownKeys says whether the node has keys that its replicas do not know the owner of: what it imports.
func (w *world) importsUnknownKeys(n *node) bool {
	for slot := range n.keys {
		if n.master() && n.owner[slot] != n.id && !slices.ContainsFunc(w.names, func(name string) bool {
			o := w.members[name]
			return o.primary == n.id && o.up && !o.lacking
		}) {
			return true
		}
	}
	return false
}

// elect: the replica of a node that is gone, or away, takes over, as it does when a majority can vote. None does that
// has not copied, that others have dropped, or whose slots somebody else has by now.
func (w *world) elect() {
	for _, name := range w.names {
		n := w.members[name]
		p := w.live(n.primary)
		if !n.up || n.master() || n.lacking || p != nil && p.up || !slices.Contains(n.owner, n.primary) {
			continue
		}
		if !slices.ContainsFunc(w.names, func(name string) bool {
			o := w.members[name]
			dropped := o.up && n.table[o.id] != nil && o.table[n.id] == nil
			return dropped || o != p && o.master() && o.ownsOf(n.primary, n.owner)
		}) {
			w.takeover(n)
			return
		}
	}
}

// takeover has a replica own what its primary owns, as far as it knows.
func (w *world) takeover(n *node) {
	old := n.primary
	n.current++
	for _, name := range w.names {
		n.current = max(n.current, w.members[name].current+1, w.members[name].epoch+1)
	}
	n.epoch, n.primary, n.lacking, n.elected = n.current, "", false, w.turn
	n.version++
	for slot := range n.owner {
		if n.owner[slot] == old {
			n.owner[slot] = n.id
		}
	}
	w.log = append(w.log, n.member+" takes over from "+old)
}

// gossip has all nodes that are up hear of each other, some times.
func (w *world) gossip(rounds int) {
	for range rounds {
		w.clock++
		for _, from := range w.names {
			for _, to := range w.names {
				if a, b := w.members[from], w.members[to]; a != b && a.up && b.up {
					w.ping(a, b)
				}
			}
		}
	}
}

// finds another one at its address: it has moved, if it is not the one that is known.
func (n *node) finds(known *entry, o *node) {
	if known.address == o.address {
		return
	}
	known.address = o.address
	if n.primary == o.id {
		n.upstream = o.address
	}
}

// meets another one, which it may know already.
func (n *node) meets(o *node) {
	if n.table[o.id] == nil {
		n.table[o.id] = &entry{address: o.address}
	}
	n.finds(n.table[o.id], o)
	n.table[o.id].primary, n.table[o.id].epoch = o.primary, o.epoch
}

// ping is one message, which gets there when the sender knows where to.
func (w *world) ping(a, b *node) {
	if e := a.table[b.id]; e == nil || e.address != b.address {
		return
	}
	known := b.table[a.id]
	if known == nil {
		// It is answered all the same.
		if e := a.table[b.id]; b.master() {
			e.primary, e.epoch = "", b.epoch
			a.hear(b)
		}
		return
	}
	b.finds(known, a)
	known.primary, known.epoch = a.primary, a.epoch
	b.current = max(b.current, a.current, a.epoch)
	for id, e := range a.table {
		o := w.live(id)
		if id == b.id || o == nil || !o.up || e.address != o.address || b.banned[id] > w.clock {
			continue
		}
		if b.table[id] == nil {
			b.table[id] = &entry{address: e.address, primary: e.primary, epoch: e.epoch}
		} else if b.table[id].address != o.address {
			// From a third one it takes the address, and looks for its primary where that was.
			b.table[id].address = e.address
		}
	}
	if a.master() {
		if now := [2]int{a.version, b.version}; b.heard[a.id] != now {
			b.hear(a)
			b.heard[a.id] = [2]int{a.version, b.version}
		}
	} else if p := w.live(a.primary); p != nil && !p.up {
		return
	}
	// Equal epochs are made different.
	if a.master() && b.master() && a.epoch == b.epoch && b.id < a.id {
		b.current++
		b.epoch = b.current
		b.version++
	}
	if p := w.live(b.primary); p == a && (!b.lacking || b.upstream == a.address && w.copied(b)) {
		b.keys, b.lacking, b.linked, b.offset = cloned(a.keys), false, true, len(a.keys)+1
	}
}

// copied says whether the first copy of a replica has come to its end: it takes a while.
func (w *world) copied(n *node) bool { return !n.stuck && (w.calm || w.random.IntN(4) == 0) }

// hear takes over what a primary claims.
func (n *node) hear(a *node) {
	lost, own, primary := false, false, n.primary
	me := n.id
	if !n.master() {
		me = primary
	}
	for slot, id := range a.owner {
		current := n.owner[slot]
		if id != a.id || current == a.id {
			own = own || current == me
			continue
		}
		if _, open := n.importing[slot]; open {
			continue
		}
		if current == "" || n.epochOf(current) < a.epoch {
			lost = lost || current == me
			n.owner[slot] = a.id
			n.version++
			if current == n.id {
				delete(n.keys, slot)
				delete(n.migrating, slot)
			}
		} else {
			own = own || current == me
		}
	}
	// Who has lost all to one that took over copies from it.
	if lost && !own {
		n.primary, n.upstream, n.migrating, n.importing = a.id, a.address, map[int]string{}, map[int]string{}
	}
}

func (n *node) epochOf(id string) uint64 {
	if id == n.id {
		return n.epoch
	}
	if e := n.table[id]; e != nil {
		return e.epoch
	}
	return 0
}

func cloned(keys map[int]map[string]bool) map[int]map[string]bool {
	all := make(map[int]map[string]bool, len(keys))
	for slot, names := range keys {
		all[slot] = maps.Clone(names)
	}
	return all
}

// check what must hold at every moment: each slot has an owner, and each key is somewhere.
func (w *world) check() {
	if !w.begun {
		return
	}
	owned := make([]bool, Slots)
	count := map[string]bool{}
	for _, name := range w.names {
		n := w.members[name]
		gone := w.live(n.primary) == nil
		for slot, id := range n.owner {
			owned[slot] = owned[slot] || id == n.id && n.master() || id == n.primary && id != "" && gone
		}
		for _, keys := range n.keys {
			for key := range keys {
				count[key] = true
			}
		}
	}
	if slot := slices.Index(owned, false); slot >= 0 {
		w.fail("slot %d has no owner", slot)
	}
	if len(count) != keysOfWorld {
		w.fail("%d keys are there", len(count))
	}
}

func (w *world) fail(format string, args ...any) {
	w.Helper()
	for _, line := range w.log[max(0, len(w.log)-200):] {
		w.Log(line)
	}
	w.Fatalf(format, args...)
}
