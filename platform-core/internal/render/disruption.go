// SPDX-License-Identifier: Apache-2.0

package render

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// checkBudget refuses what is neither a number of pods nor a percentage of them.
func checkBudget(spec *platformv1.ComponentSpec) *Refusal {
	if spec.PodDisruptionBudget == nil {
		return nil
	}
	most := spec.PodDisruptionBudget.MaxUnavailable
	// A number is a percentage of nothing as little as "150%" is one of all.
	if value, err := intstr.GetScaledValueFromIntOrPercent(&most, 100, false); err != nil || value < 0 || most.Type == intstr.String && value > 100 {
		return refuse(platformv1.ReasonInvalidSpec, "component %q has podDisruptionBudget.maxUnavailable %q: it must be a number from 0 or a percentage such as 20%%", spec.Component, most.String())
	}
	return nil
}

// budget keeps a drained node from taking more pods of the set than the user allows; nil for a set of
// one pod, where it would only hold up the drain. It is told as the number that has to stay: for a number that may go, Kubernetes asks the
// scale subresource, which its controllers may not know yet when the definitions are new.
func (c *setContext) budget() *policyv1.PodDisruptionBudget {
	if c.set.replicas < 2 {
		return nil
	}
	most := intstr.FromInt32(1)
	if c.spec.PodDisruptionBudget != nil {
		most = c.spec.PodDisruptionBudget.MaxUnavailable
	}
	// Percentages are rounded up, as Kubernetes does. They were checked.
	out, _ := intstr.GetScaledValueFromIntOrPercent(&most, int(c.set.replicas), true)
	stay := intstr.FromInt(max(0, int(c.set.replicas)-out))
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
