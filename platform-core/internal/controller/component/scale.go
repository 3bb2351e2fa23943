// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// carry takes the number of pods that someone else gave a WorkloadSet, an autoscaler for example, up to the Application,
// where it comes down from again. Done means that there is none to carry; one that cannot be had is
// reverted by act, with an event that says why.
func (c *Controller) carry(ctx context.Context, component *platformv1.Component, f *facts, output *render.ComponentOutput) outcome.Outcome {
	if component.Spec.Autoscaling != nil {
		return outcome.Done()
	}
	for _, wanted := range output.WorkloadSets {
		set := f.sets[wanted.Name]
		if set == nil || set.DeletionTimestamp != nil || set.Spec.Replicas == wanted.Spec.Replicas {
			continue
		}
		// The cache does not hold who wrote what.
		live := &platformv1.WorkloadSet{}
		if err := c.live.Get(ctx, client.ObjectKeyFromObject(set), live); err != nil {
			if err = client.IgnoreNotFound(err); err != nil {
				return outcome.Failed(err)
			}
			continue
		}
		manager, edited := scaledBy(live.ManagedFields)
		if !edited || live.Spec.Replicas == wanted.Spec.Replicas {
			continue
		}
		if o := c.carryOne(ctx, component, f, live, manager); o.Kind() != outcome.KindDone {
			return o
		}
	}
	return outcome.Done()
}

func (c *Controller) carryOne(ctx context.Context, component *platformv1.Component, f *facts, set *platformv1.WorkloadSet, manager string) outcome.Outcome {
	app := &platformv1.Application{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: component.Namespace, Name: component.Spec.Application}, app); err != nil {
		return outcome.Failed(err)
	}
	if isReleased(set, component) && namesReplicas(&app.Spec, component.Spec.Component, set.Spec.Set) {
		return outcome.Done()
	}
	scaled := app.DeepCopy()
	setReplicas(&scaled.Spec, &component.Spec, set.Spec.Set, set.Spec.Replicas)
	if why := c.refuseScale(component, f, app, scaled); why != "" {
		c.events.Warning(set, "ScaleReverted", "%d replicas, set by %s, were taken back: %s", set.Spec.Replicas, manager, why)
		return outcome.Done()
	}
	pending := fmt.Sprintf("Application %s takes up %d replicas of WorkloadSet %s", app.Name, set.Spec.Replicas, set.Name)
	if equality.Semantic.DeepEqual(app.Spec, scaled.Spec) {
		return outcome.Waiting(platformv1.ReasonProgressing, pending)
	}
	// The resourceVersion guards against a change of the Application that the cache does not have yet.
	patch := client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, scaled, patch, client.FieldOwner(owner)); err != nil {
		return outcome.Failed(err)
	}
	c.events.Normal(app, "Scaled", "%d replicas of WorkloadSet %s, set by %s, were taken over", set.Spec.Replicas, set.Name, manager)
	return outcome.Waiting(platformv1.ReasonProgressing, pending)
}

// refuseScale says why the Application cannot take the number; empty when it can.
func (c *Controller) refuseScale(component *platformv1.Component, f *facts, app, scaled *platformv1.Application) string {
	if above := metav1.GetControllerOf(app); above != nil {
		return fmt.Sprintf("Application %s is made from %s %s: change it there", app.Name, above.Kind, above.Name)
	}
	if declared, ok := f.state.Bundle.Component(component.Spec.Component); ok && !declared.Scales() {
		return fmt.Sprintf("component %s cannot be scaled once it is made", component.Spec.Component)
	}
	if _, refusal := render.Components(f.state.Bundle, scaled); refusal != nil {
		return refusal.Message
	}
	return ""
}

// setReplicas writes the number where the Application speaks of the set: at the set, or at the component when
// that has just one.
func setReplicas(app *platformv1.ApplicationSpec, component *platformv1.ComponentSpec, name string, replicas int32) {
	i := slices.IndexFunc(app.Components, func(c platformv1.ApplicationComponent) bool { return c.Name == component.Component })
	if i < 0 {
		i = len(app.Components)
		app.Components = append(app.Components, platformv1.ApplicationComponent{Name: component.Component})
	}
	entry := &app.Components[i]
	if len(entry.Sets) == 0 && len(component.Sets) == 1 {
		entry.Replicas = &replicas
		return
	}
	if len(entry.Sets) == 0 {
		for _, set := range component.Sets {
			entry.Sets = append(entry.Sets, platformv1.ComponentSet{Name: set.Name})
		}
	}
	for j := range entry.Sets {
		if entry.Sets[j].Name == name {
			entry.Sets[j].Replicas = &replicas
		}
	}
}

// scaledBy names who wrote the number of pods, unless that is this controller. Who wrote the same number as
// this controller has edited nothing.
func scaledBy(entries []metav1.ManagedFieldsEntry) (string, bool) {
	manager, found := "", false
	for _, entry := range entries {
		var fields struct {
			Spec struct {
				Replicas json.RawMessage `json:"f:replicas"`
			} `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil || fields.Spec.Replicas == nil {
			continue
		}
		if entry.Manager == owner && entry.Operation == metav1.ManagedFieldsOperationApply {
			return "", false
		}
		manager, found = entry.Manager, true
	}
	return manager, found
}
