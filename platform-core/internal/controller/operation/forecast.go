// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// Forecasts are the controllers that say what they would do. They touch nothing.
type Forecasts struct {
	// Component says what would become of one, which may not be there yet.
	Component func(ctx context.Context, component *platformv1.Component) (ForecastResult, error)
	// Set says what would be done to the volumes and pods of a set with another spec, or with which sentence it would
	// stall instead.
	Set func(ctx context.Context, set *platformv1.WorkloadSet) (changes []platformv1.PlannedChange, refusal string,
		err error)
}

// ForecastResult is what a Component would come to: changes of its objects, and the sets as they would be, or why it
// would stall.
type ForecastResult struct {
	Changes []platformv1.PlannedChange
	Sets    []*platformv1.WorkloadSet
	Refusal string
}

// forecast says what the edits of a dry run would bring about, by step. A refusal is why one of them could not be made.
func (c *Controller) forecast(ctx context.Context, op *platformv1.Operation, seen *observation) (
	map[string]opsflow.Forecast, *opsflow.Refusal, error) {
	forecasts := map[string]opsflow.Forecast{}
	for step, edit := range opsflow.EditsOf(op, seen.facts) {
		change, refusal, err := c.think(ctx, seen, edit)
		if err != nil {
			return nil, nil, err
		}
		forecast := opsflow.Forecast{}
		if refusal == "" && change.Application != nil {
			forecast.Fields = change.Changed
			forecast.Changes, refusal, err = c.rollOut(ctx, change.Application)
		}
		if err != nil {
			return nil, nil, err
		}
		if refusal != "" {
			return nil, &opsflow.Refusal{Reason: opsflow.ReasonStepFailed, Message: refusal}, nil
		}
		forecasts[step] = forecast
	}
	return forecasts, nil, nil
}

// rollOut says what would be done for an Application that was found right, or with which sentence it would stall.
func (c *Controller) rollOut(ctx context.Context,
	app *platformv1.Application) ([]platformv1.PlannedChange, string, error) {
	facts, err := c.editor.Facts(ctx, app)
	if err != nil || app.Spec.Suspend {
		return nil, "", err
	}
	if refusal := accept.Plugin(app, facts.State); refusal != nil {
		return nil, refusal.Message, nil
	}
	wanted, refusals := accept.Check(app, facts)
	if len(refusals) > 0 {
		return nil, refusals[0].Message, nil
	}
	if waits := accept.ArchiveWaits(app, facts, wanted); waits != nil {
		return nil, waits.Message, nil
	}
	if refusal := accept.Class(facts, wanted); refusal != nil {
		return nil, refusal.Message, nil
	}
	var changes []platformv1.PlannedChange
	names := map[string]bool{}
	for i := range wanted {
		names[wanted[i].Component] = true
		more, refusal, err := c.rollOutComponent(ctx, app, &wanted[i], facts.Components)
		if refusal != "" || err != nil {
			return nil, refusal, err
		}
		changes = append(changes, more...)
	}
	for _, name := range slices.Sorted(maps.Keys(facts.Components)) {
		if !names[name] {
			changes = append(changes, platformv1.PlannedChange{Component: name, Kind: "Component",
				Name: facts.Components[name].Name, Action: platformv1.PlannedDelete,
				Reason: "it is no longer part of the Application; its pods and Services go with it"})
		}
	}
	return changes, "", nil
}

// rollOutComponent says what would be done for one component.
func (c *Controller) rollOutComponent(ctx context.Context, app *platformv1.Application, spec *platformv1.ComponentSpec,
	live map[string]*platformv1.Component) ([]platformv1.PlannedChange, string, error) {
	component := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{
		Namespace: app.Namespace, Name: platformv1.ComponentNameFor(app.Name, spec.Component), Labels: map[string]string{
			platformv1.DomainLabel: c.Domain, platformv1.ApplicationLabel: app.Name,
			platformv1.ApplicationUIDLabel: string(app.UID), platformv1.ComponentLabel: spec.Component,
		},
	}}
	if existing := live[spec.Component]; existing != nil {
		component = existing.DeepCopy()
	}
	withRevisions(spec, live)
	component.Spec = *spec
	componentForecast, err := c.Forecast.Component(ctx, component)
	if err != nil || componentForecast.Refusal != "" {
		return nil, componentForecast.Refusal, err
	}
	changes := componentForecast.Changes
	for _, set := range componentForecast.Sets {
		more, refusal, err := c.Forecast.Set(ctx, set)
		if err != nil || refusal != "" {
			return nil, refusal, err
		}
		changes = append(changes, more...)
	}
	return changes, "", nil
}

// withRevisions has the components know the passwords that there are: no edit of a spec changes them.
func withRevisions(spec *platformv1.ComponentSpec, live map[string]*platformv1.Component) {
	spec.Credentials = slices.Clone(spec.Credentials)
	for _, component := range live {
		for _, known := range component.Spec.Credentials {
			for i := range spec.Credentials {
				if spec.Credentials[i].Name == known.Name {
					spec.Credentials[i].Revision, spec.Credentials[i].Also = known.Revision, known.Also
				}
			}
		}
	}
}
