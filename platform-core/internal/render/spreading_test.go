// SPDX-License-Identifier: Apache-2.0

package render

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

var ofTheSet = &metav1.LabelSelector{MatchLabels: map[string]string{
	platformv1.ApplicationLabel: "cache", platformv1.ComponentLabel: "redis", platformv1.SetLabel: "main",
}}

func anyway(label string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: label, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: ofTheSet}
}

func away(label string, weight int32) corev1.WeightedPodAffinityTerm {
	return corev1.WeightedPodAffinityTerm{Weight: weight,
		PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: label, LabelSelector: ofTheSet}}
}

func apart(terms ...corev1.WeightedPodAffinityTerm) *corev1.PodAntiAffinity {
	return &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}
}

func TestPodsAreSpread(t *testing.T) {
	byDefault := []corev1.TopologySpreadConstraint{anyway(corev1.LabelHostname)}
	keepAway := apart(away(corev1.LabelHostname, 100), away(corev1.LabelTopologyZone, 40))
	for name, s := range map[string]*platformv1.Scheduling{"none": nil, "empty": {},
		"of other things": {PriorityClassName: "high"}} {
		spec := scheduled(t, redis(t), s)
		if got := spec.TopologySpreadConstraints; !reflect.DeepEqual(got, byDefault) {
			t.Errorf("scheduling %s: constraints are %+v", name, got)
		}
		if got := spec.Affinity; !reflect.DeepEqual(got, &corev1.Affinity{PodAntiAffinity: keepAway}) {
			t.Errorf("scheduling %s: affinity is %+v", name, got)
		}
	}
}

// A constraint of the user's is in force for its key, in place of the plugin's, which is in place of the engine's.
func TestConstraints(t *testing.T) {
	const template = "spec:\n  topologySpreadConstraints:\n" +
		"    - {maxSkew: 3, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}\n" +
		"    - {maxSkew: 3, topologyKey: row, whenUnsatisfiable: ScheduleAnyway}\n"
	insist := func(label string) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{MaxSkew: 2, TopologyKey: label, WhenUnsatisfiable: corev1.DoNotSchedule}
	}
	selected := func(c corev1.TopologySpreadConstraint, selector *metav1.LabelSelector) corev1.TopologySpreadConstraint {
		c.LabelSelector = selector
		return c
	}
	theirs := anyway("row")
	theirs.MaxSkew = 3
	others := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}
	node, zone := away(corev1.LabelHostname, 100), away(corev1.LabelTopologyZone, 40)
	for name, tc := range map[string]struct {
		mine, want []corev1.TopologySpreadConstraint
		apart      *corev1.PodAntiAffinity
	}{
		"another key": {
			[]corev1.TopologySpreadConstraint{insist("rack")},
			[]corev1.TopologySpreadConstraint{selected(insist("rack"), ofTheSet), theirs, anyway(corev1.LabelHostname)},
			apart(node, zone),
		},
		"zones": {
			[]corev1.TopologySpreadConstraint{insist("rack"), insist(corev1.LabelTopologyZone)},
			[]corev1.TopologySpreadConstraint{selected(insist("rack"), ofTheSet),
				selected(insist(corev1.LabelTopologyZone), ofTheSet), theirs, anyway(corev1.LabelHostname)},
			apart(node),
		},
		"nodes": {
			[]corev1.TopologySpreadConstraint{insist("rack"), selected(insist(corev1.LabelHostname), others)},
			[]corev1.TopologySpreadConstraint{selected(insist("rack"), ofTheSet), selected(insist(corev1.LabelHostname), others),
				theirs}, apart(zone),
		},
	} {
		spec := scheduled(t, redis(t, "spec:\n", template), &platformv1.Scheduling{TopologySpreadConstraints: tc.mine})
		if got := spec.TopologySpreadConstraints; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: constraints are %+v", name, got)
		}
		if got := spec.Affinity.PodAntiAffinity; !reflect.DeepEqual(got, tc.apart) {
			t.Errorf("%s: pods keep apart by %+v", name, got)
		}
	}
	both := &platformv1.Scheduling{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
		insist(corev1.LabelHostname), insist(corev1.LabelTopologyZone)}}
	if got := scheduled(t, redis(t), both).Affinity; got != nil {
		t.Errorf("pods keep apart by %+v", got)
	}
}

// What the plugin's template, the user and the engine ask for is all in force.
func TestAffinities(t *testing.T) {
	const template = `spec:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions: [{key: disk, operator: In, values: [fast]}]
          - matchExpressions: [{key: disk, operator: In, values: [slow]}]
      preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 1, preference: {matchExpressions: [{key: cpu, operator: Exists}]}}
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 3, podAffinityTerm: {topologyKey: row, labelSelector: {matchLabels: {pod: "${pod.name}"}}}}
`
	key := func(name string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: name, Operator: corev1.NodeSelectorOpExists}
	}
	disk := func(kind string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{kind}}
	}
	terms := func(list ...[]corev1.NodeSelectorRequirement) *corev1.NodeSelector {
		s := &corev1.NodeSelector{}
		for _, expressions := range list {
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: expressions})
		}
		return s
	}
	preferred := func(weight int32, name string) corev1.PreferredSchedulingTerm {
		return corev1.PreferredSchedulingTerm{Weight: weight,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{key(name)}}}
	}
	near := corev1.PodAffinityTerm{TopologyKey: "row",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "${pod.name}"}}}
	far := corev1.PodAffinityTerm{TopologyKey: "rack", LabelSelector: &metav1.LabelSelector{}}
	own := corev1.WeightedPodAffinityTerm{Weight: 3, PodAffinityTerm: corev1.PodAffinityTerm{
		TopologyKey: "row", LabelSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"pod": "cache-redis-main-0"}}}}
	spec := scheduled(t, redis(t, "spec:\n", template), &platformv1.Scheduling{Affinity: &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{
			// No node matches a term that says nothing.
			RequiredDuringSchedulingIgnoredDuringExecution:  terms([]corev1.NodeSelectorRequirement{key("a"), key("b")}, nil),
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{preferred(2, "c")},
		},
		PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{near}},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{far}},
	}})
	keepAway := apart(own, away(corev1.LabelHostname, 100), away(corev1.LabelTopologyZone, 40))
	keepAway.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{far}
	want := &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: terms(
				[]corev1.NodeSelectorRequirement{disk("fast"), key("a"), key("b")}, nil,
				[]corev1.NodeSelectorRequirement{disk("slow"), key("a"), key("b")}, nil),
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{preferred(1, "cpu"),
				preferred(2, "c")},
		},
		PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{near}},
		PodAntiAffinity: keepAway,
	}
	if !reflect.DeepEqual(spec.Affinity, want) {
		t.Errorf("nodes %+v, pods %+v, away from %+v", spec.Affinity.NodeAffinity, spec.Affinity.PodAffinity,
			spec.Affinity.PodAntiAffinity)
	}
}
