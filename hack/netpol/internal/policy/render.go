// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"strings"
)

// Table is the packet filter's table that holds all rules.
const Table = "devcluster-policies"

// Render writes the packet filter's whole table for the pods of a node. Loading
// it replaces the one before at once.
//
// Only what is routed is looked at: what the node itself sends to its pods, such
// as probes, passes, as Kubernetes has it. Services have been translated before.
func Render(w World, node string) (string, error) {
	out, err := isolated(w, node, Ingress)
	if err != nil {
		return "", err
	}
	in, err := isolated(w, node, Egress)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %[1]s {}\ndelete table inet %[1]s\ntable inet %[1]s {\n", Table)
	b.WriteString(in.chains)
	b.WriteString(out.chains)
	b.WriteString("\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n")
	b.WriteString("\t\tct state established,related accept\n")
	b.WriteString(in.jumps)
	b.WriteString(out.jumps)
	b.WriteString("\t}\n}\n")
	return b.String(), nil
}

// part is one direction's text.
type part struct{ chains, jumps string }

func isolated(w World, node string, direction Direction) (part, error) {
	pods, err := Isolated(w, node, direction)
	if err != nil || len(pods) == 0 {
		return part{}, err
	}
	own, peer := "daddr", "saddr"
	if direction == Egress {
		own, peer = peer, own
	}
	var chains, jumps strings.Builder
	for _, p := range pods {
		name := fmt.Sprintf("%s-%s", direction, strings.ReplaceAll(p.Address.String(), ".", "-"))
		fmt.Fprintf(&chains, "\t# %s\n\tchain %s {\n", p.Name, name)
		for _, rule := range p.Allowed {
			for _, match := range rule.matches(peer) {
				fmt.Fprintf(&chains, "\t\t%sreturn\n", match)
			}
		}
		chains.WriteString("\t\tdrop\n\t}\n")
		fmt.Fprintf(&jumps, "\t\tip %s %s jump %s\n", own, p.Address, name)
	}
	return part{chains.String(), jumps.String()}, nil
}

// matches lists the packet filter's expressions, any of which is enough.
func (r Rule) matches(side string) []string {
	var who []string
	if r.Anyone {
		who = append(who, "")
	}
	if len(r.Addresses) > 0 {
		who = append(who, fmt.Sprintf("ip %s { %s } ", side, join(r.Addresses)))
	}
	for _, b := range r.Blocks {
		text := fmt.Sprintf("ip %s %s ", side, b.Range)
		if len(b.Except) > 0 {
			text += fmt.Sprintf("ip %s != { %s } ", side, join(b.Except))
		}
		who = append(who, text)
	}
	if len(r.Ports) == 0 {
		return who
	}
	var all []string
	for _, text := range who {
		for _, p := range r.Ports {
			all = append(all, text+p.match(side))
		}
	}
	return all
}

func (p Port) match(side string) string {
	text := ""
	if p.Of.IsValid() {
		text = fmt.Sprintf("ip %s %s ", side, p.Of)
	}
	protocol := strings.ToLower(p.Protocol)
	switch {
	case p.First == 0:
		return text + fmt.Sprintf("meta l4proto %s ", protocol)
	case p.First == p.Last:
		return text + fmt.Sprintf("%s dport %d ", protocol, p.First)
	}
	return text + fmt.Sprintf("%s dport %d-%d ", protocol, p.First, p.Last)
}

// join writes addresses or ranges as the elements of a set.
func join[T netip.Addr | netip.Prefix](all []T) string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = fmt.Sprint(a)
	}
	return strings.Join(texts, ", ")
}
