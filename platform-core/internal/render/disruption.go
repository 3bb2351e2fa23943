// SPDX-License-Identifier: Apache-2.0

package render

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// checkBudget refuses what is neither a number of pods nor a percentage of them, and a budget that says nothing or
// more than one thing.
func checkBudget(spec *platformv1.ComponentSpec) *Refusal {
	b := spec.PodDisruptionBudget
	if b == nil {
		return nil
	}
	said := 0
	for _, limit := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"minAvailable", b.MinAvailable}, {"maxUnavailable", b.MaxUnavailable}} {
		if limit.value == nil {
			continue
		}
		said++
		// A number is a percentage of nothing as little as "150%" is one of all.
		value, err := intstr.GetScaledValueFromIntOrPercent(limit.value, 100, false)
		if err != nil || value < 0 || limit.value.Type == intstr.String && value > 100 {
			return refuse(platformv1.ReasonInvalidSpec,
				"component %q has podDisruptionBudget.%s %q: it must be a number from 0 or a percentage such as 20%%",
				spec.Component, limit.name, limit.value.String())
		}
	}
	if b.Disabled {
		said++
	}
	if said != 1 {
		return refuse(platformv1.ReasonInvalidSpec,
			"component %q has a podDisruptionBudget with %d of minAvailable, maxUnavailable and disabled: set one of them",
			spec.Component, said)
	}
	return nil
}

// stay is how many pods of the set a drained node has to leave. Percentages are rounded up, as Kubernetes does. They
// were checked.
func (c *setContext) stay() int {
	pods, b := int(c.set.replicas), c.spec.PodDisruptionBudget
	switch {
	case b == nil && pods < 2:
		// It would only hold up the drain.
		return 0
	case b == nil:
		return pods - 1
	case b.MinAvailable != nil:
		stay, _ := intstr.GetScaledValueFromIntOrPercent(b.MinAvailable, pods, true)
		return stay
	}
	out, _ := intstr.GetScaledValueFromIntOrPercent(b.MaxUnavailable, pods, true)
	return max(0, pods-out)
}

// budget keeps a drained node from taking more pods of the set than the user allows; nil where that is disabled, and
// for a set of one pod that may go. It is told as the number that has to stay: for a number that may go, Kubernetes
// asks the scale subresource, which its controllers may not know yet when the definitions are new.
func (c *setContext) budget() *policyv1.PodDisruptionBudget {
	if b := c.spec.PodDisruptionBudget; b != nil && b.Disabled || c.set.replicas < 1 {
		return nil
	}
	stay := intstr.FromInt(c.stay())
	if c.set.replicas < 2 && stay.IntValue() == 0 {
		return nil
	}
	// A pod without data that is not ready serves nobody and never keeps a node from being drained. One with data may
	// be catching up: as long as others are missing it is left to that.
	unhealthy := policyv1.AlwaysAllow
	if len(c.declared.Volumes) > 0 {
		unhealthy = policyv1.IfHealthyBudget
	}
	labels := c.labels()
	labels[platformv1.SetLabel] = c.set.name
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: c.owner.Namespace, Labels: labels},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable:               &stay,
			Selector:                   &metav1.LabelSelector{MatchLabels: c.setSelector()},
			UnhealthyPodEvictionPolicy: &unhealthy,
		},
	}
}
