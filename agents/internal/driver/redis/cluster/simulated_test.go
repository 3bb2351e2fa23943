// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// histories are how many are played, each from a seed of its own.
var histories = flag.Uint64("histories", 1, "how many random histories are played")

// keysOfWorld are spread over the slots.
const keysOfWorld = 400

// answer does what Redis does.
func (w *world) answer(n *node, c Command) (any, error) {
	switch c[0] {
	case "DBSIZE":
		count := 0
		for _, keys := range n.keys {
			count += len(keys)
		}
		return int64(count), nil
	case "INFO":
		text := fmt.Sprintf("master_link_status:%s\r\nmaster_repl_offset:%d\r\n", w.link(n), n.offset)
		if since := map[bool]int{false: -1, true: 1}; w.link(n) == "down" {
			text += fmt.Sprintf("master_link_down_since_seconds:%d\r\n", since[n.linked])
		}
		if host, port, found := strings.Cut(n.upstream, ":"); found && !n.master() {
			text += fmt.Sprintf("master_host:%s\r\nmaster_port:%s\r\n", host, port)
		}
		return text, nil
	case "MIGRATE":
		return w.migrate(n, c)
	}
	switch c[1] {
	case "MYID":
		return n.id, nil
	case "INFO":
		return fmt.Sprintf("cluster_state:ok\r\ncluster_current_epoch:%d\r\n", n.current), nil
	case "NODES":
		return w.list(n), nil
	case "COUNTKEYSINSLOT":
		slot, _ := strconv.Atoi(c[2])
		return int64(len(n.keys[slot])), nil
	case "GETKEYSINSLOT":
		slot, _ := strconv.Atoi(c[2])
		all := []any{}
		for _, key := range slices.Sorted(maps.Keys(n.keys[slot])) {
			all = append(all, key)
		}
		return all, nil
	case "SETSLOT":
		return nil, w.setSlot(n, c)
	}
	return nil, w.command(n, c)
}

func (w *world) link(n *node) string {
	if p := w.live(n.primary); p != nil && p.up && n.upstream == p.address && !n.lacking {
		return "up"
	}
	return "down"
}

// list is CLUSTER NODES.
func (w *world) list(n *node) string {
	slots := map[string][]Range{}
	for first := 0; first < Slots; {
		last := first
		for last+1 < Slots && n.owner[last+1] == n.owner[first] {
			last++
		}
		slots[n.owner[first]] = append(slots[n.owner[first]], Range{first, last})
		first = last + 1
	}
	var text strings.Builder
	line := func(id, address, flags, primary string, epoch uint64, link string) {
		if primary == "" {
			flags += "master"
			primary = "-"
		} else {
			flags += "slave"
		}
		fmt.Fprintf(&text, "%s %s@1 %s %s 0 0 %d %s", id, address, flags, primary, epoch, link)
		if r := textOf(slots[id]); r != "" {
			text.WriteString(" " + r)
		}
	}
	line(n.id, n.address, "myself,", n.primary, n.epoch, "connected")
	for slot, id := range n.migrating {
		fmt.Fprintf(&text, " [%d->-%s]", slot, id)
	}
	for slot, id := range n.importing {
		fmt.Fprintf(&text, " [%d-<-%s]", slot, id)
	}
	text.WriteString("\n")
	for _, id := range slices.Sorted(maps.Keys(n.table)) {
		e, flags, link := n.table[id], "", "connected"
		if o := w.live(id); o == nil || !o.up || o.address != e.address {
			flags, link = "fail,", "disconnected"
		}
		line(id, e.address, flags, e.primary, e.epoch, link)
		text.WriteString("\n")
	}
	return text.String()
}

func (w *world) command(n *node, c Command) error {
	n.version++
	switch c[1] {
	case "SET-CONFIG-EPOCH":
		if len(n.table) > 0 || n.epoch != 0 {
			return errors.New("ERR the epoch can be set on a fresh node only")
		}
		n.epoch, _ = strconv.ParseUint(c[2], 10, 64)
		n.current = n.epoch
	case "MEET":
		for _, name := range w.names {
			if o := w.members[name]; o.up && o.address == c[2]+":"+c[3] {
				n.meets(o)
				o.meets(n)
				// In the same messages they tell each other of the rest.
				w.ping(n, o)
				w.ping(o, n)
			}
		}
	case "ADDSLOTSRANGE":
		first, _ := strconv.Atoi(c[2])
		last, _ := strconv.Atoi(c[3])
		for slot := first; slot <= last; slot++ {
			if n.owner[slot] != "" {
				return fmt.Errorf("ERR Slot %d is already busy", slot)
			}
		}
		for slot := first; slot <= last; slot++ {
			n.owner[slot] = n.id
		}
	case "REPLICATE":
		p := w.live(c[2])
		if n.table[c[2]] == nil || p == nil || !p.master() || n.owns() || n.master() && len(n.keys) > 0 {
			return errors.New("ERR it cannot copy")
		}
		if n.primary != p.id {
			w.drops(n)
			n.lacking, n.linked, n.keys = true, false, map[int]map[string]bool{}
		}
		n.primary, n.upstream = p.id, n.table[p.id].address
		n.migrating, n.importing = map[int]string{}, map[int]string{}
	case "FAILOVER":
		return w.failover(n, slices.Concat(c, Command{""})[2])
	case "FORGET":
		if n.table[c[2]] == nil {
			return errors.New("ERR Unknown node")
		}
		if n.primary == c[2] {
			return errors.New("ERR Can't forget my master")
		}
		// Of what happened since it looked the agent cannot know.
		if o := w.live(c[2]); o != nil && w.rules(o) && o.elected < w.turn {
			w.fail("%s drops %s, which owns slots", n.member, o.member)
		}
		delete(n.table, c[2])
		n.banned[c[2]] = w.clock + 50
		for slot, id := range n.owner {
			if id == c[2] {
				n.owner[slot] = ""
			}
		}
	case "RESET":
		if n.master() && len(n.keys) > 0 {
			return errors.New("ERR it has keys")
		}
		w.drops(n)
		n.lacking, n.linked = false, false
		n.table, n.owner, n.primary, n.keys = map[string]*entry{}, make([]string, Slots), "", map[int]map[string]bool{}
		if c[2] == "HARD" {
			n.id, n.epoch, n.current = w.unique("n"), 0, 0
		}
	default:
		return fmt.Errorf("ERR %v", c)
	}
	return nil
}

// rules says whether a node owns a slot that nobody took over from it.
func (w *world) rules(n *node) bool {
	for slot, id := range n.owner {
		if id == n.id && n.master() && !slices.ContainsFunc(w.names, func(name string) bool {
			o := w.members[name]
			return o != n && o.master() && o.owner[slot] == o.id && o.epoch > n.epoch
		}) {
			return true
		}
	}
	return false
}

// drops: a node gives up what it has. Nobody is to who has a copy of what somebody owns that leaves.
func (w *world) drops(n *node) {
	if p := w.live(n.primary); p != nil && p.owns() && w.leaves(p) && len(n.keys) > 0 {
		w.fail("%s gives up its copy of what %s owns, which leaves", n.member, p.member)
	}
}

func (w *world) failover(n *node, manner string) error {
	if n.master() {
		return errors.New("ERR You should send CLUSTER FAILOVER to a replica")
	}
	p := w.live(n.primary)
	if manner == "" && (p == nil || !p.up) {
		return errors.New("ERR Master is down or failed")
	}
	if manner == "" {
		if w.link(n) == "down" {
			// It does not come to that in time.
			return nil
		}
		n.keys = cloned(p.keys)
		copy(n.owner, p.owner)
	}
	w.takeover(n)
	return nil
}

func (w *world) setSlot(n *node, c Command) error {
	slot, _ := strconv.Atoi(c[2])
	n.version++
	if !n.master() {
		return errors.New("ERR Please use SETSLOT only with masters")
	}
	switch c[3] {
	case "STABLE":
		delete(n.migrating, slot)
		delete(n.importing, slot)
	case "MIGRATING":
		if n.owner[slot] != n.id || n.table[c[4]] == nil {
			return errors.New("ERR I'm not the owner")
		}
		n.migrating[slot] = c[4]
	case "IMPORTING":
		if n.owner[slot] == n.id || n.table[c[4]] == nil {
			return errors.New("ERR I'm already the owner")
		}
		n.importing[slot] = c[4]
	case "NODE":
		if c[4] != n.id && n.table[c[4]] == nil {
			return errors.New("ERR Unknown node")
		}
		if n.owner[slot] == n.id && c[4] != n.id && len(n.keys[slot]) > 0 {
			return errors.New("ERR it has keys")
		}
		if len(n.keys[slot]) == 0 {
			delete(n.migrating, slot)
		}
		if _, open := n.importing[slot]; open && c[4] == n.id {
			for _, e := range n.table {
				n.current = max(n.current, e.epoch)
			}
			n.current++
			n.epoch = n.current
			delete(n.importing, slot)
		}
		n.owner[slot] = c[4]
	}
	return nil
}

// migrate moves keys, to all that copy from the two as well.
func (w *world) migrate(n *node, c Command) (any, error) {
	var target *node
	for _, name := range w.names {
		if o := w.members[name]; o.up && o.address == c[1]+":"+c[2] {
			target = o
		}
	}
	if target == nil || !target.master() {
		return nil, errors.New("IOERR error or timeout connecting to the client")
	}
	keys := c[slices.Index(c, "KEYS")+1:]
	slot := slotOfKey(keys[0])
	if _, open := target.importing[slot]; !open && target.owner[slot] != target.id {
		return nil, errors.New("ERR Target instance replied with error: MOVED")
	}
	for _, name := range w.names {
		o := w.members[name]
		for _, key := range keys {
			if o == target || o.primary == target.id && !o.lacking {
				if o.keys[slot] == nil {
					o.keys[slot] = map[string]bool{}
				}
				o.keys[slot][key] = true
			}
			if o == n || o.primary == n.id {
				if delete(o.keys[slot], key); len(o.keys[slot]) == 0 {
					delete(o.keys, slot)
				}
			}
		}
	}
	return "OK", nil
}

// slotOfKey: a key is its slot and more.
func slotOfKey(key string) int {
	slot, _ := strconv.Atoi(strings.Split(key, "-")[0])
	return slot
}

// bring has agents that may die bring the world to its shape.
func (w *world) bring(shape *Shape) {
	w.Helper()
	w.leaving = shape.Leaving
	refusals := 0
	for turn := range 3000 {
		if turn > 1500 {
			w.calm = true
		}
		w.turn, w.dead = w.turn+1, false
		if w.calm || w.random.IntN(20) == 0 {
			for _, name := range w.names {
				if n := w.members[name]; !n.up {
					w.moved(n)
				}
			}
		}
		w.gossip(2)
		if !w.calm && w.random.IntN(w.every) == 0 {
			w.happen()
			w.check()
		}
		views := look(context.Background(), w, shape, lightly)
		plan := Decide(shape, views)
		if plan.Phase == Done {
			views = look(context.Background(), w, shape, deeply)
			plan = Decide(shape, views)
		}
		w.log = append(w.log, fmt.Sprintf("%s: %s", plan.Phase, plan.Reason))
		switch plan.Phase {
		case Done:
			return
		case Refused:
			if refusals++; refusals > 50 {
				w.fail("it refuses: %s", plan.Reason)
			}
		}
		a := &actor{Transport: w, login: func() (string, string, error) { return "", "", nil }, views: map[string]*View{},
			progress: func(int) {}}
		for i := range views {
			a.views[views[i].Member] = &views[i]
		}
		for _, step := range plan.Steps {
			w.log = append(w.log, "-- "+step.String())
			if err := a.act(context.Background(), step); err != nil {
				break
			}
		}
	}
	w.fail("it does not get there")
}

func simulatedShape(shards, leaving []int) *Shape {
	shape := &Shape{Goal: Converge}
	for _, i := range shards {
		shape.Shards = append(shape.Shards, []string{fmt.Sprintf("m%d-0", i), fmt.Sprintf("m%d-1", i)})
	}
	for _, i := range leaving {
		shape.Leaving = append(shape.Leaving, fmt.Sprintf("m%d-0", i), fmt.Sprintf("m%d-1", i))
	}
	return shape
}

// fill has the keys in the slots of those who own them.
func (w *world) fill() {
	for i := range keysOfWorld {
		slot := i * 41 % Slots
		for _, name := range w.names {
			if n := w.members[name]; n.owner[slot] == n.id || n.owner[slot] == n.primary {
				n.keys[slot] = map[string]bool{fmt.Sprintf("%d-key", slot): true}
			}
		}
	}
	w.begun = true
	w.check()
}

// Whatever happens between any two commands, no slot is ever without an owner, no key is lost, nobody who owns slots is
// dropped, and the cluster gets its shape.
func TestRandomHistories(t *testing.T) {
	once, open := atOnce, batch
	atOnce, batch = 1, 512
	t.Cleanup(func() { atOnce, batch = once, open })
	for seed := range *histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{T: t, random: rand.New(rand.NewPCG(seed, 5)), members: map[string]*node{}, every: 500}
			for i := range 3 {
				w.fresh(fmt.Sprintf("m%d-0", i))
				w.fresh(fmt.Sprintf("m%d-1", i))
			}
			w.calm = true
			w.bring(simulatedShape([]int{0, 1, 2}, nil))
			w.fill()
			w.fresh("m3-0")
			w.fresh("m3-1")
			w.calm = false
			w.bring(simulatedShape([]int{0, 1, 2, 3}, nil))
			gone := int(seed % 4)
			w.calm = false
			w.bring(simulatedShape(slices.DeleteFunc([]int{0, 1, 2, 3}, func(i int) bool { return i == gone }), []int{gone}))
			w.check()
		})
	}
}
