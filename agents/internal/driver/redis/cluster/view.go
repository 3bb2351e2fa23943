// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// View is what one member says of itself and of the others.
type View struct {
	// Member as the shape names it.
	Member string
	// Address is the IP address and port where it answered.
	Address string
	// Problem says why it was not seen; nothing else counts then.
	Problem string
	// ID is its own.
	ID string
	// Nodes that it knows, itself included.
	Nodes []Node
	// State is "ok" where it serves its slots.
	State string
	// Epoch is the largest configuration epoch that it has heard of.
	Epoch uint64
	// Keys are how many it has.
	Keys int64
	// Used, Dataset and Limit are bytes of memory: all that is in use, that of it which is data, and maxmemory, 0 for
	// none.
	Used, Dataset, Limit int64
	// Offset is how much it has of the stream of writes.
	Offset int64
	// Link says whether a replica hears its primary.
	Link bool
	// Heard says whether a replica has had all data of a primary at some time since it became one, or since it was
	// started.
	Heard bool
	// Upstream is the address where a replica looks for its primary; empty where it does not tell.
	Upstream string
	// Strays are how many keys it has in slots that it does not own, by slot.
	Strays map[int]int64
}

// Node is what a member says of one node.
type Node struct {
	ID string
	// Address is its IP address and port; either can be missing.
	Address string
	// Bus is its port for the other nodes; empty where it is not told.
	Bus     string
	Flags   []string
	Primary string
	Epoch   uint64
	// Connected says whether the member has a connection to it.
	Connected bool
	Slots     []Range
	// Migrating and Importing are open slots, of which only the node itself tells, with the id of the other node.
	Migrating, Importing map[int]string
}

// Range of slots, both ends included.
type Range struct{ First, Last int }

// String implements fmt.Stringer.
func (r Range) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// rangesOf a list of slots in order.
func rangesOf(slots []int) []Range {
	var ranges []Range
	for _, slot := range slots {
		if n := len(ranges); n > 0 && ranges[n-1].Last == slot-1 {
			ranges[n-1].Last = slot
			continue
		}
		ranges = append(ranges, Range{slot, slot})
	}
	return ranges
}

func textOf(ranges []Range) string {
	var words []string
	for _, r := range ranges {
		words = append(words, r.String())
	}
	return strings.Join(words, " ")
}

// Is says whether the node has a flag, such as master, slave, fail, fail? or handshake.
func (n *Node) Is(flag string) bool { return slices.Contains(n.Flags, flag) }

// own is the line of a view about the member itself.
func (v *View) own() *Node { return v.node(v.ID) }

func (v *View) node(id string) *Node {
	for i := range v.Nodes {
		if v.Nodes[i].ID == id {
			return &v.Nodes[i]
		}
	}
	return nil
}

// ParseNodes reads what CLUSTER NODES says.
func ParseNodes(text string) ([]Node, error) {
	var nodes []Node
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) < 8 {
			return nil, fmt.Errorf("cannot read the line %q of CLUSTER NODES", strings.TrimSpace(line))
		}
		epoch, err := strconv.ParseUint(words[6], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("cannot read the epoch in the line %q of CLUSTER NODES", strings.TrimSpace(line))
		}
		// ip:port@bus,hostname,and=more
		address, _, _ := strings.Cut(words[1], ",")
		address, bus, _ := strings.Cut(address, "@")
		node := Node{ID: words[0], Address: bracketed(address), Bus: bus, Flags: strings.Split(words[2], ","), Epoch: epoch,
			Connected: words[7] == "connected"}
		if words[3] != "-" {
			node.Primary = words[3]
		}
		for _, word := range words[8:] {
			if err := node.addSlots(word); err != nil {
				return nil, err
			}
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// bracketed has an address of IPv6, which Redis writes without brackets, as Go has it.
func bracketed(address string) string {
	i := strings.LastIndexByte(address, ':')
	if i < 0 || strings.Count(address, ":") == 1 || strings.HasPrefix(address, "[") {
		return address
	}
	return "[" + address[:i] + "]" + address[i:]
}

// addSlots reads 7, 0-5460, [42->-id] or [42-<-id].
func (n *Node) addSlots(word string) error {
	wrong := fmt.Errorf("cannot read the slots %q of CLUSTER NODES", word)
	if open, ok := strings.CutPrefix(word, "["); ok {
		open = strings.TrimSuffix(open, "]")
		for sign, to := range map[string]*map[int]string{"->-": &n.Migrating, "-<-": &n.Importing} {
			if number, id, ok := strings.Cut(open, sign); ok {
				slot, err := strconv.Atoi(number)
				if err != nil || slot < 0 || slot >= Slots {
					return wrong
				}
				if *to == nil {
					*to = map[int]string{}
				}
				(*to)[slot] = id
				return nil
			}
		}
		return wrong
	}
	first, last, ok := strings.Cut(word, "-")
	if !ok {
		last = first
	}
	r := Range{}
	var errs [2]error
	r.First, errs[0] = strconv.Atoi(first)
	r.Last, errs[1] = strconv.Atoi(last)
	if errs[0] != nil || errs[1] != nil || r.First < 0 || r.Last >= Slots || r.First > r.Last {
		return wrong
	}
	n.Slots = append(n.Slots, r)
	return nil
}

// fieldsOf reads lines "field:value", as those of INFO.
func fieldsOf(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if field, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[field] = value
		}
	}
	return fields
}

func number(fields map[string]string, name string) int64 {
	// What is not told counts as nothing.
	value, _ := strconv.ParseInt(fields[name], 10, 64)
	return value
}

// Summary of what a member says of itself.
type Summary struct {
	// Role is primary or replica; empty for one that was not seen.
	Role string
	// Primary is the id of the node that a replica copies from.
	Primary string
	// Slots that it owns, and such as are open.
	Slots, Open int
}

// Summary of a view.
func (v *View) Summary() Summary {
	if !v.seen() {
		return Summary{}
	}
	own := v.own()
	s := Summary{Role: "replica", Primary: own.Primary, Open: len(own.Migrating) + len(own.Importing)}
	if v.primary() {
		s.Role = "primary"
	}
	for _, r := range own.Slots {
		s.Slots += r.Last - r.First + 1
	}
	return s
}
