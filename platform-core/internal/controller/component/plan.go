// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginindex"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// plan renders the component, or says why it cannot. A refusal leaves what runs alone.
func (c *Controller) plan(component *platformv1.Component, f *facts) (*render.ComponentOutput, *outcome.Outcome) {
	return c.planWith(component, f, func(bundle *plugin.Bundle, settings render.Settings,
		owner render.Meta) (*render.ComponentOutput, *render.Refusal) {
		return c.rendered.component(bundle, settings, owner, component, f)
	})
}

// planWith is plan with who renders.
func (c *Controller) planWith(component *platformv1.Component, f *facts,
	renders func(*plugin.Bundle, render.Settings, render.Meta) (*render.ComponentOutput,
		*render.Refusal)) (*render.ComponentOutput, *outcome.Outcome) {
	pinned := component.Spec.Plugin
	bundle := f.state.Bundle
	if bundle == nil {
		o := outcome.StalledFor(pluginindex.Recheck, platformv1.ReasonPluginMissing,
			plugin.Unusable(pinned.Name, pinned.Version, f.state))
		return nil, &o
	}
	if bundle.Digest != pinned.Digest {
		o := outcome.Stalled(platformv1.ReasonPluginChanged,
			fmt.Sprintf("plugin %s version %s has digest %s and this was made with %s: install the original again, and "+
				"changes under a new version", pinned.Name, pinned.Version, bundle.Digest, pinned.Digest))
		return nil, &o
	}
	settings := c.Settings.Get()
	settings.OperatorNamespace = c.Namespace
	output, refusal := renders(bundle, settings, ownerOf(component))
	if refusal != nil {
		o := outcome.Stalled(refusal.Reason, refusal.Message)
		return nil, &o
	}
	return output, nil
}

// ownerOf is the Application of a component.
func ownerOf(component *platformv1.Component) render.Meta {
	return render.Meta{
		Application: component.Spec.Application,
		Namespace:   component.Namespace,
		UID:         types.UID(component.Labels[platformv1.ApplicationUIDLabel]),
		Domain:      component.Labels[platformv1.DomainLabel],
	}
}

// settle derives the state of the component from its sets.
func settle(component *platformv1.Component, f *facts, output *render.ComponentOutput) outcome.Outcome {
	outcomes := make([]outcome.Outcome, 0, len(output.WorkloadSets)+1)
	outcomes = append(outcomes, settleTLS(f))
	for _, wanted := range output.WorkloadSets {
		set, ok := f.sets[wanted.Name]
		switch {
		case !ok:
			outcomes = append(outcomes, outcome.Waiting(platformv1.ReasonProgressing,
				fmt.Sprintf("WorkloadSet %s is being made", wanted.Name)))
		case f.awaitsAddress(wanted.Name, output) != "":
			outcomes = append(outcomes, outcome.Waiting(platformv1.ReasonAddressPending,
				render.AwaitsAddress(f.awaitsAddress(wanted.Name, output))))
		case slices.Contains(f.written, wanted.Name):
			outcomes = append(outcomes, outcome.WaitingFor(frame.Recheck, platformv1.ReasonProgressing,
				fmt.Sprintf("WorkloadSet %s takes up the change", wanted.Name)))
		default:
			outcomes = append(outcomes, conditions.Outcome(set))
		}
	}
	worst := conditions.Worst(outcomes...)
	if running := component.Spec.Running; running != nil && !*running && worst.Kind() == outcome.KindDone {
		return outcome.DoneAs(platformv1.ReasonStopped, "it is stopped, since running is false, and its volumes are "+
			"kept; set running of its Application to true to start it")
	}
	return worst
}
