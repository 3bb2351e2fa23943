// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
)

// autoscalingOwner owns the number of pods of an autoscaled set until the autoscaler has given it one: the field is
// required, so somebody has to.
const autoscalingOwner = owner + "-autoscaling"

// applyAutoscaled applies a set without its number of pods. That is written once, when the set is made; from then on it
// belongs to the autoscaler, whatever it is.
func (c *Controller) applyAutoscaled(ctx context.Context, component *platformv1.Component, live,
	set *platformv1.WorkloadSet) (apply.Change, error) {
	if live == nil {
		first := set.DeepCopy()
		first.Spec.Scaling = ""
		return c.applyOwned(ctx, component, first)
	}
	if live.Spec.Scaling != platformv1.SetScalingAuto {
		if err := c.apply.Handover(ctx, live, autoscalingOwner, replicasField()...); err != nil {
			return apply.Unchanged, client.IgnoreNotFound(err)
		}
	}
	if err := controllerutil.SetControllerReference(component, set, c.client.Scheme()); err != nil {
		return apply.Unchanged, err
	}
	return c.apply.ApplyTo(ctx, live, set, replicasField()...)
}

func replicasField() []string { return []string{"spec", "replicas"} }

// withActualReplicas is the spec with the numbers of pods that the autoscaler gave the sets: what is rendered from
// them, budgets for example, follows.
func withActualReplicas(spec *platformv1.ComponentSpec, f *facts) *platformv1.ComponentSpec {
	if spec.Autoscaling == nil {
		return spec
	}
	actual := spec.DeepCopy()
	for i := range actual.Sets {
		name := platformv1.WorkloadSetNameFor(spec.Application, spec.Component, actual.Sets[i].Name)
		if live := f.sets[name]; live != nil {
			actual.Sets[i].Replicas = new(live.Spec.Replicas)
		}
	}
	return actual
}

// isReleased says whether a set has just lost its autoscaler. The number of pods stays as the autoscaler left it, by
// going up to the Application, unless that names one.
func isReleased(set *platformv1.WorkloadSet, component *platformv1.Component) bool {
	return set.Spec.Scaling == platformv1.SetScalingAuto && component.Spec.Autoscaling == nil
}

// namesReplicas says whether the Application says how many pods a set has.
func namesReplicas(app *platformv1.ApplicationSpec, component, set string) bool {
	for _, c := range app.Components {
		if c.Name != component {
			continue
		}
		for _, s := range c.Sets {
			if s.Name == set && s.Replicas != nil {
				return true
			}
		}
		return c.Replicas != nil
	}
	return false
}
