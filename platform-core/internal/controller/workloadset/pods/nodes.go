// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/klog/v2"

	"github.com/zeroinfra/platform-core/internal/inplaceupdate"
)

// takes says whether a pod could be on a node that is otherwise empty.
func takes(node *corev1.Node, pod *corev1.Pod, pins []*corev1.NodeSelector) bool {
	if node.Spec.Unschedulable || !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) {
		return false
	}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil &&
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		pins = append(slices.Clone(pins), affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for _, pin := range pins {
		if !slices.ContainsFunc(pin.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool { return matchesTerm(node, t) }) {
			return false
		}
	}
	for i := range node.Spec.Taints {
		if !tolerates(pod, &node.Spec.Taints[i]) {
			return false
		}
	}
	for name, quantity := range requests(pod) {
		allocatable := node.Status.Allocatable[name]
		if quantity.Cmp(allocatable) > 0 {
			return false
		}
	}
	return true
}

func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectPreferNoSchedule ||
		slices.ContainsFunc(pod.Spec.Tolerations,
			func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Background(), taint, false) })
}

// requests of a pod while it runs.
func requests(pod *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, container := range inplaceupdate.Running(&pod.Spec) {
		for name, quantity := range container.Resources.Requests {
			total := resource.Quantity{}
			if before, found := sum[name]; found {
				total = before.DeepCopy()
			}
			total.Add(quantity)
			sum[name] = total
		}
	}
	return sum
}

// matchesTerm says whether a node matches all of one term; an empty term matches none.
func matchesTerm(node *corev1.Node, term corev1.NodeSelectorTerm) bool {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return false
	}
	fields := labels.Set{"metadata.name": node.Name}
	return slices.IndexFunc(term.MatchExpressions,
		func(r corev1.NodeSelectorRequirement) bool { return !matchesRequirement(labels.Set(node.Labels), r) }) < 0 &&
		slices.IndexFunc(term.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return !matchesRequirement(fields, r)
		}) < 0
}

var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}

func matchesRequirement(set labels.Set, r corev1.NodeSelectorRequirement) bool {
	requirement, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
	return err == nil && requirement.Matches(set)
}
