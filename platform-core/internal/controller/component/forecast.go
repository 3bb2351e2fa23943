// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// ForecastResult is what a Component would come to.
type ForecastResult struct {
	// Changes of objects other than sets that are there already, whose own changes are those of their volumes and pods.
	Changes []platformv1.PlannedChange
	// Sets as they would be.
	Sets []*platformv1.WorkloadSet
	// Refusal is the sentence with which the Component would stall instead; empty for none.
	Refusal string
}

// Forecast says what would become of a Component that is as given: one that is there with another spec, or one that is
// not there yet. It touches nothing.
type Forecast func(ctx context.Context, component *platformv1.Component) (ForecastResult, error)

// forecast implements Forecast by what renders and applies, too.
func (c *Controller) forecast(ctx context.Context, component *platformv1.Component) (ForecastResult, error) {
	f, err := c.observe(ctx, component)
	if err != nil || component.Spec.Suspend {
		return ForecastResult{}, err
	}
	output, refused := c.planWith(component, f,
		func(bundle *plugin.Bundle, settings render.Settings, owner render.Meta) (*render.ComponentOutput, *render.Refusal) {
			return render.Component(bundle, settings, owner, withActualReplicas(&component.Spec, f))
		})
	if refused != nil {
		return ForecastResult{Refusal: refused.Message()}, nil
	}
	if output, err = output.WithAddresses(f.services); err != nil {
		return ForecastResult{}, err
	}
	if o := c.preflight(ctx, component, f, output); o.Kind() != outcome.KindDone {
		return ForecastResult{Refusal: o.Message()}, o.Err()
	}
	p := &forecastRun{Controller: c, component: component, facts: f, names: map[string]bool{}}
	if err := p.compare(ctx, output); err != nil {
		return ForecastResult{}, err
	}
	return p.ForecastResult, nil
}

// forecastRun is a forecast on its way.
type forecastRun struct {
	ForecastResult
	*Controller
	component *platformv1.Component
	facts     *facts
	// names of what is wanted.
	names map[string]bool
}

// compare goes through what would be applied, and then through what would be deleted.
func (p *forecastRun) compare(ctx context.Context, output *render.ComponentOutput) error {
	for _, obj := range wantedObjects(p.component, p.facts, output) {
		p.names[keyOf(obj)] = true
		set, isSet := obj.(*platformv1.WorkloadSet)
		if isSet {
			p.Sets = append(p.Sets, set)
			if p.facts.sets[set.Name] != nil {
				continue
			}
		}
		if err := p.would(ctx, p.apply, obj); err != nil {
			return err
		}
	}
	others := map[*unstructured.Unstructured]bool{output.Certificate: p.facts.tls.installed,
		output.PodMonitor: p.facts.monitoring.installed}
	for _, route := range output.HTTPRoutes {
		others[route] = p.facts.routes.installed
	}
	for wanted, there := range others {
		if wanted == nil || !there {
			continue
		}
		if err := p.would(ctx, p.others, wanted); err != nil {
			return err
		}
	}
	gone := slices.Concat(objects(p.facts.autoscalers), p.facts.owned())
	if output.PodMonitor == nil && p.facts.monitoring.monitor != nil {
		gone = append(gone, p.facts.monitoring.monitor)
	}
	if output.Certificate == nil && p.facts.tls.certificate != nil {
		gone = append(gone, p.facts.tls.certificate)
	}
	gone = append(gone, objects(p.facts.routes.unwanted(output.HTTPRoutes))...)
	for _, obj := range gone {
		if !p.names[keyOf(obj)] && obj.GetDeletionTimestamp() == nil {
			if err := p.add(obj, platformv1.PlannedDelete); err != nil {
				return err
			}
		}
	}
	return nil
}

// would adds what an apply of an object would do.
func (p *forecastRun) would(ctx context.Context, by *apply.Applier, obj client.Object) error {
	owned, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a copy of %T is no object", obj)
	}
	if err := controllerutil.SetControllerReference(p.component, owned, p.client.Scheme()); err != nil {
		return err
	}
	change, err := by.Would(ctx, owned)
	if err != nil {
		if o := apply.Outcome(err); o.Kind() == outcome.KindStalled {
			p.Refusal = o.Message()
			return nil
		}
		return err
	}
	switch change {
	case apply.Created:
		return p.add(obj, platformv1.PlannedCreate)
	case apply.Updated:
		return p.add(obj, platformv1.PlannedUpdate)
	}
	return nil
}

func (p *forecastRun) add(obj client.Object, action platformv1.PlannedAction) error {
	gvk, err := apiutil.GVKForObject(obj, p.client.Scheme())
	if err != nil {
		return err
	}
	p.Changes = append(p.Changes, platformv1.PlannedChange{Component: p.component.Spec.Component, Kind: gvk.Kind,
		Name: obj.GetName(), Action: action})
	return nil
}
