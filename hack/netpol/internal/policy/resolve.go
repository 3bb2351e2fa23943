// SPDX-License-Identifier: Apache-2.0

// Package policy turns NetworkPolicies into the packet filter's rules for the
// pods of one node. It is pure: objects in, text out.
package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// World is what decides who may reach whom.
type World struct {
	// Pods and Namespaces are those of the whole cluster.
	Pods       []*corev1.Pod
	Namespaces []*corev1.Namespace
	// Policies are those of the whole cluster.
	Policies []*networkingv1.NetworkPolicy
}

// Direction is the way of traffic as a pod sees it.
type Direction string

// Directions.
const (
	Ingress Direction = "ingress"
	Egress  Direction = "egress"
)

// Pod is what one pod may receive, or send to.
type Pod struct {
	// Name is for people: namespace and name.
	Name string
	// Address is the pod's.
	Address netip.Addr
	// Allowed are the rules; what none matches is dropped.
	Allowed []Rule
}

// Rule lets traffic pass between a pod and peers at ports.
type Rule struct {
	// Anyone is set for a rule that names no peers.
	Anyone bool
	// Addresses are those of peers that are pods.
	Addresses []netip.Addr
	// Blocks are ranges of addresses.
	Blocks []Block
	// Ports are the ports; none stands for all.
	Ports []Port
}

// Block is a range of addresses without some parts.
type Block struct {
	Range  netip.Prefix
	Except []netip.Prefix
}

// Port is a protocol and a range of ports; zero stands for all ports.
type Port struct {
	Protocol    string
	First, Last int32
	// Of is the pod at whose address this holds, when the policy names the port
	// and pods give that name to different numbers.
	Of netip.Addr
}

// Isolated lists the pods of a node that policies select for a direction.
func Isolated(w World, node string, direction Direction) ([]Pod, error) {
	spaces := map[string]labels.Set{}
	for _, n := range w.Namespaces {
		spaces[n.Name] = n.Labels
	}
	// The same objects give the same rules, in whatever order they come.
	w.Pods, w.Policies = slices.SortedFunc(slices.Values(w.Pods), byName),
		slices.SortedFunc(slices.Values(w.Policies), byName)
	r := resolver{world: w, spaces: spaces}
	var all []Pod
	for _, p := range w.Pods {
		address, ok := addressOf(p)
		if !ok || p.Spec.NodeName != node {
			continue
		}
		pod := Pod{Name: p.Namespace + "/" + p.Name, Address: address}
		isolated := false
		for _, policy := range w.Policies {
			selected, err := r.selects(policy, p, direction)
			if err != nil {
				return nil, err
			}
			if !selected {
				continue
			}
			isolated = true
			rules, err := r.rules(policy, p, direction)
			if err != nil {
				return nil, err
			}
			pod.Allowed = append(pod.Allowed, rules...)
		}
		if isolated {
			all = append(all, pod)
		}
	}
	slices.SortFunc(all, func(a, b Pod) int { return a.Address.Compare(b.Address) })
	return all, nil
}

func byName[T metav1.Object](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()),
		cmp.Compare(a.GetUID(), b.GetUID()))
}

// addressOf returns the address that is a pod's own. Those on the host's network
// and those that have ended have none.
func addressOf(p *corev1.Pod) (netip.Addr, bool) {
	if p.Spec.HostNetwork || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(p.Status.PodIP)
	return address, err == nil && address.Is4()
}

type resolver struct {
	world  World
	spaces map[string]labels.Set
}

// matches tells whether a selector takes labels; no selector takes none.
func matches(selector *metav1.LabelSelector, set labels.Set) (bool, error) {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, err
	}
	return s.Matches(set), nil
}

func (r resolver) selects(policy *networkingv1.NetworkPolicy, p *corev1.Pod, direction Direction) (bool, error) {
	kind := networkingv1.PolicyTypeIngress
	if direction == Egress {
		kind = networkingv1.PolicyTypeEgress
	}
	if policy.Namespace != p.Namespace || !slices.Contains(policy.Spec.PolicyTypes, kind) {
		return false, nil
	}
	selected, err := matches(&policy.Spec.PodSelector, p.Labels)
	if err != nil {
		return false, fmt.Errorf("cannot read the selector of NetworkPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	return selected, nil
}

// rules are what a policy lets a pod do in a direction.
func (r resolver) rules(policy *networkingv1.NetworkPolicy, p *corev1.Pod, direction Direction) ([]Rule, error) {
	var all []Rule
	add := func(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) error {
		rule, targets, err := r.peers(policy.Namespace, peers)
		if err != nil {
			return fmt.Errorf("cannot read NetworkPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
		}
		if direction == Ingress {
			targets = []*corev1.Pod{p}
		}
		for _, port := range ports {
			rule.Ports = append(rule.Ports, resolvePort(port, targets, direction)...)
		}
		// Ports were named and no pod has them: the rule lets nothing pass.
		if len(ports) == 0 || len(rule.Ports) > 0 {
			all = append(all, rule)
		}
		return nil
	}
	if direction == Ingress {
		for _, rule := range policy.Spec.Ingress {
			if err := add(rule.From, rule.Ports); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	for _, rule := range policy.Spec.Egress {
		if err := add(rule.To, rule.Ports); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// peers resolves the other side of a rule, and lists the pods that it can be.
func (r resolver) peers(namespace string, peers []networkingv1.NetworkPolicyPeer) (Rule, []*corev1.Pod, error) {
	rule := Rule{Anyone: len(peers) == 0}
	var pods []*corev1.Pod
	for _, p := range r.world.Pods {
		address, ok := addressOf(p)
		if !ok {
			continue
		}
		is := rule.Anyone
		for _, peer := range peers {
			matched, err := r.isPeer(namespace, peer, p)
			if err != nil {
				return Rule{}, nil, err
			}
			is = is || matched
		}
		if is {
			pods = append(pods, p)
			if !rule.Anyone {
				rule.Addresses = append(rule.Addresses, address)
			}
		}
	}
	for _, peer := range peers {
		if peer.IPBlock == nil {
			continue
		}
		block, err := parseBlock(peer.IPBlock)
		if err != nil {
			return Rule{}, nil, err
		}
		if block.Range.Addr().Is4() {
			rule.Blocks = append(rule.Blocks, block)
		}
	}
	slices.SortFunc(rule.Addresses, netip.Addr.Compare)
	return rule, pods, nil
}

func (r resolver) isPeer(namespace string, peer networkingv1.NetworkPolicyPeer, p *corev1.Pod) (bool, error) {
	if peer.IPBlock != nil {
		return false, nil
	}
	if peer.NamespaceSelector == nil {
		if p.Namespace != namespace {
			return false, nil
		}
	} else if ok, err := matches(peer.NamespaceSelector, r.spaces[p.Namespace]); err != nil || !ok {
		return false, err
	}
	if peer.PodSelector == nil {
		return true, nil
	}
	return matches(peer.PodSelector, p.Labels)
}

func parseBlock(b *networkingv1.IPBlock) (Block, error) {
	whole, err := netip.ParsePrefix(b.CIDR)
	if err != nil {
		return Block{}, err
	}
	block := Block{Range: whole.Masked()}
	for _, text := range b.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil {
			return Block{}, err
		}
		block.Except = append(block.Except, except.Masked())
	}
	return block, nil
}

// resolvePort finds the numbers of a port at its possible targets.
func resolvePort(port networkingv1.NetworkPolicyPort, targets []*corev1.Pod, direction Direction) []Port {
	protocol := corev1.ProtocolTCP
	if port.Protocol != nil {
		protocol = *port.Protocol
	}
	switch {
	case port.Port == nil:
		return []Port{{Protocol: string(protocol)}}
	case port.Port.Type == intstr.Int && port.EndPort != nil:
		return []Port{{Protocol: string(protocol), First: port.Port.IntVal, Last: *port.EndPort}}
	case port.Port.Type == intstr.Int:
		return []Port{{Protocol: string(protocol), First: port.Port.IntVal, Last: port.Port.IntVal}}
	}
	var all []Port
	for _, p := range targets {
		for _, c := range p.Spec.Containers {
			for _, named := range c.Ports {
				if named.Name != port.Port.StrVal || cmp.Or(named.Protocol, corev1.ProtocolTCP) != protocol {
					continue
				}
				found := Port{Protocol: string(protocol), First: named.ContainerPort, Last: named.ContainerPort}
				if direction == Egress {
					found.Of, _ = addressOf(p)
				}
				all = append(all, found)
			}
		}
	}
	return all
}
