// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// act applies the Services before the sets, so that pods find their names, and
// removes sets that are no longer wanted.
func (c *Controller) act(ctx context.Context, component *platformv1.Component, f *facts, output *render.ComponentOutput) outcome.Outcome {
	var objects []client.Object
	for _, service := range output.Services {
		objects = append(objects, service)
	}
	wanted := map[string]bool{}
	for _, set := range output.WorkloadSets {
		objects = append(objects, workloadSet(component, set))
		wanted[set.Name] = true
	}
	for _, obj := range objects {
		change, err := c.applyOwned(ctx, component, obj)
		if err != nil {
			return apply.Outcome(err)
		}
		if change != apply.Unchanged {
			f.written = append(f.written, obj.GetName())
		}
	}
	for name, set := range f.sets {
		if wanted[name] || set.DeletionTimestamp != nil {
			continue
		}
		if err := c.apply.Delete(ctx, set); err != nil {
			return outcome.Failed(err)
		}
	}
	return outcome.Done()
}

func (c *Controller) applyOwned(ctx context.Context, component *platformv1.Component, obj client.Object) (apply.Change, error) {
	if err := controllerutil.SetControllerReference(component, obj, c.client.Scheme()); err != nil {
		return apply.Unchanged, err
	}
	return c.apply.Apply(ctx, obj)
}

func workloadSet(component *platformv1.Component, output render.WorkloadSetOutput) *platformv1.WorkloadSet {
	labels := maps.Clone(component.Labels)
	labels[platformv1.SetLabel] = output.Spec.Set
	return &platformv1.WorkloadSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: component.Namespace, Name: output.Name, Labels: labels},
		Spec:       output.Spec,
	}
}
