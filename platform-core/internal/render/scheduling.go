// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/placement"
)

// checkScheduling refuses what no pod could be made with, before any running pod is given up for it.
func checkScheduling(where string, s *platformv1.Scheduling) *Refusal {
	if s == nil {
		return nil
	}
	wrong := func(format string, args ...any) *Refusal {
		return refuse(platformv1.ReasonInvalidSpec, "%s: scheduling.%s", where, fmt.Sprintf(format, args...))
	}
	if problem := placement.NodeSelector(s.NodeSelector); problem != "" {
		return wrong("nodeSelector %s", problem)
	}
	if problem := placement.Tolerations(s.Tolerations); problem != "" {
		return wrong("tolerations: %s", problem)
	}
	for _, c := range s.TopologySpreadConstraints {
		if problem := spreadProblem(c); problem != "" {
			return wrong("topologySpreadConstraints: %s", problem)
		}
	}
	if problem := placement.PriorityClass(s.PriorityClassName); problem != "" {
		return wrong("priorityClassName %s", problem)
	}
	return nil
}

func spreadProblem(c corev1.TopologySpreadConstraint) string {
	when := []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
	switch {
	case c.MaxSkew < 1:
		return fmt.Sprintf("maxSkew of %q is %d: it must be at least 1", c.TopologyKey, c.MaxSkew)
	case len(validation.IsQualifiedName(c.TopologyKey)) > 0:
		return fmt.Sprintf("topologyKey is %q: it must be the key of a node's label", c.TopologyKey)
	case !slices.Contains(when, c.WhenUnsatisfiable):
		return fmt.Sprintf("whenUnsatisfiable of %q is %q: it must be DoNotSchedule or ScheduleAnyway", c.TopologyKey,
			c.WhenUnsatisfiable)
	}
	if _, err := metav1.LabelSelectorAsSelector(c.LabelSelector); err != nil {
		return fmt.Sprintf("labelSelector of %q: %v", c.TopologyKey, err)
	}
	return ""
}

// schedule puts what the user says over what the plugin's template says, and spreads the pods
// of the set where neither says how.
func (c *setContext) schedule(spec *corev1.PodSpec) error {
	s := &platformv1.Scheduling{}
	if c.set.scheduling != nil {
		// What a user wrote is never a placeholder.
		if err := escaped(c.set.scheduling, s); err != nil {
			return err
		}
	}
	if len(s.NodeSelector) > 0 {
		merged := maps.Clone(s.NodeSelector)
		for key, value := range spec.NodeSelector {
			if _, ok := merged[key]; !ok {
				merged[key] = value
			}
		}
		spec.NodeSelector = merged
	}
	for _, t := range s.Tolerations {
		if !slices.ContainsFunc(spec.Tolerations,
			func(have corev1.Toleration) bool { return equality.Semantic.DeepEqual(have, t) }) {
			spec.Tolerations = append(spec.Tolerations, t)
		}
	}
	if s.PriorityClassName != "" {
		spec.PriorityClassName = s.PriorityClassName
	}
	spec.Affinity = both(spec.Affinity, s.Affinity, bothAffinities)
	constraints := s.TopologySpreadConstraints
	for _, constraint := range spec.TopologySpreadConstraints {
		if !constrained(s.TopologySpreadConstraints, constraint.TopologyKey) {
			constraints = append(constraints, constraint)
		}
	}
	spec.TopologySpreadConstraints = constraints
	c.spread(spec)
	return nil
}

// escaped copies a value with every text in it escaped for placeholder.ExpandPod.
func escaped(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	if !strings.Contains(string(data), "$") {
		return json.Unmarshal(data, to)
	}
	tree, err := decodeTree(data)
	if err != nil {
		return err
	}
	if data, err = marshal(escapeTexts(tree)); err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

func escapeTexts(tree any) any {
	switch node := tree.(type) {
	case map[string]any:
		for key, child := range node {
			node[key] = escapeTexts(child)
		}
	case []any:
		for i, child := range node {
			node[i] = escapeTexts(child)
		}
	case string:
		return placeholder.Escape(node)
	}
	return tree
}
