// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What it weighs that two pods of a set share a node, and a zone, of 100. A scheduler adds up the weights of a pod and
// scales the sums to one range before it compares them with anything else: the zone alone would count for as much as
// the node does, and have two pods share a node of the zone that has fewer.
const (
	nodeWeight = 100
	zoneWeight = 40
)

// spread has the pods of the set keep apart, on nodes and in zones, unless a constraint is about these. Always in the
// same way, however many pods are wanted. There is no constraint for zones: a scheduler scores no node that lacks the
// label of one of the constraints that it need not meet, so that pods would not be spread at all on nodes that tell of
// no zone.
func (c *setContext) spread(spec *corev1.PodSpec) {
	own := &metav1.LabelSelector{MatchLabels: c.setSelector()}
	var apart []corev1.WeightedPodAffinityTerm
	for _, place := range []struct {
		label  string
		weight int32
	}{{corev1.LabelHostname, nodeWeight}, {corev1.LabelTopologyZone, zoneWeight}} {
		if !constrained(spec.TopologySpreadConstraints, place.label) {
			term := corev1.PodAffinityTerm{TopologyKey: place.label, LabelSelector: own}
			apart = append(apart, corev1.WeightedPodAffinityTerm{Weight: place.weight, PodAffinityTerm: term})
		}
	}
	if len(apart) > 0 {
		spec.Affinity = both(spec.Affinity,
			&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: apart}},
			bothAffinities)
	}
	if !constrained(spec.TopologySpreadConstraints, corev1.LabelHostname) {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		})
	}
	for i := range spec.TopologySpreadConstraints {
		if constraint := &spec.TopologySpreadConstraints[i]; constraint.LabelSelector == nil {
			constraint.LabelSelector = own
		}
	}
}

// constrained says whether there is a constraint for the label of nodes.
func constrained(constraints []corev1.TopologySpreadConstraint, label string) bool {
	return slices.ContainsFunc(constraints, func(c corev1.TopologySpreadConstraint) bool { return c.TopologyKey == label })
}

// both returns the one that there is, or what two of them ask for together; nil is one that asks for nothing.
func both[T any](a, b *T, together func(a, b *T) *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return together(a, b)
}

func bothAffinities(a, b *corev1.Affinity) *corev1.Affinity {
	return &corev1.Affinity{
		NodeAffinity: both(a.NodeAffinity, b.NodeAffinity, bothNodes),
		PodAffinity:  both(a.PodAffinity, b.PodAffinity, bothPods),
		PodAntiAffinity: (*corev1.PodAntiAffinity)(
			both((*corev1.PodAffinity)(a.PodAntiAffinity), (*corev1.PodAffinity)(b.PodAntiAffinity), bothPods)),
	}
}

func bothPods(a, b *corev1.PodAffinity) *corev1.PodAffinity {
	return &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: slices.Concat(a.RequiredDuringSchedulingIgnoredDuringExecution,
			b.RequiredDuringSchedulingIgnoredDuringExecution),
		PreferredDuringSchedulingIgnoredDuringExecution: slices.Concat(a.PreferredDuringSchedulingIgnoredDuringExecution,
			b.PreferredDuringSchedulingIgnoredDuringExecution),
	}
}

func bothNodes(a, b *corev1.NodeAffinity) *corev1.NodeAffinity {
	return &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: both(a.RequiredDuringSchedulingIgnoredDuringExecution,
			b.RequiredDuringSchedulingIgnoredDuringExecution, bothSelectors),
		PreferredDuringSchedulingIgnoredDuringExecution: slices.Concat(a.PreferredDuringSchedulingIgnoredDuringExecution,
			b.PreferredDuringSchedulingIgnoredDuringExecution),
	}
}

// bothSelectors selects the nodes that two selectors do. A node has to match one term of a selector, so it has to match
// one term of each.
func bothSelectors(a, b *corev1.NodeSelector) *corev1.NodeSelector {
	selector := &corev1.NodeSelector{}
	for _, x := range a.NodeSelectorTerms {
		for _, y := range b.NodeSelectorTerms {
			term := corev1.NodeSelectorTerm{}
			// A term that says nothing matches no node.
			if !saysNothing(x) && !saysNothing(y) {
				term.MatchExpressions = slices.Concat(x.MatchExpressions, y.MatchExpressions)
				term.MatchFields = slices.Concat(x.MatchFields, y.MatchFields)
			}
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
		}
	}
	return selector
}

func saysNothing(t corev1.NodeSelectorTerm) bool {
	return len(t.MatchExpressions)+len(t.MatchFields) == 0
}
