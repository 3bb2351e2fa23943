// SPDX-License-Identifier: Apache-2.0

package application

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/pluginindex"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// plan returns the Components that the spec asks for, or says why it cannot be had.
func plan(app *platformv1.Application, f *facts) ([]platformv1.ComponentSpec, *outcome.Outcome) {
	if refusal := accept.Plugin(app, f.state); refusal != nil {
		if o := checkDomain(app, f); o != nil {
			return nil, o
		}
		return nil, refused(refusal)
	}
	known := accept.Facts{State: f.state, Components: declaredBefore(app, f), Classes: f.classes, Backup: f.backup,
		Archive: f.archive, Logs: f.logs, Claims: f.claims}
	wanted, refusals := accept.Check(app, known)
	if refusal := render.Join(refusals); refusal != nil {
		return nil, refused(refusal)
	}
	if waits := accept.ArchiveWaits(app, known, wanted); waits != nil {
		// Of a claim that comes no watch tells.
		return nil, new(outcome.WaitingFor(time.Minute, waits.Reason, waits.Message))
	}
	if refusals, waits := accept.Restore(app, known, wanted); len(refusals) > 0 {
		return nil, refused(render.Join(refusals))
	} else if waits != nil {
		return nil, new(outcome.Waiting(waits.Reason, waits.Message))
	}
	if o := checkCertManager(f); o != nil {
		return nil, o
	}
	if o := checkSecrets(app, f); o != nil {
		return nil, o
	}
	if refusal := accept.Class(known, wanted); refusal != nil {
		return nil, refused(refusal)
	}
	return wanted, nil
}

func refused(r *render.Refusal) *outcome.Outcome {
	if r.Reason == platformv1.ReasonPluginNotFound || r.Reason == platformv1.ReasonPluginMissing {
		return new(outcome.StalledFor(pluginindex.Recheck, r.Reason, r.Message))
	}
	return new(outcome.Stalled(r.Reason, r.Message))
}

func stalled(reason, format string, args ...any) *outcome.Outcome {
	o := outcome.Stalled(reason, fmt.Sprintf(format, args...))
	return &o
}

// checkDomain says that the plugin is another operator's, and how that comes to see the Application. The label
// was set by hand: nobody claims what is not its own.
func checkDomain(app *platformv1.Application, f *facts) *outcome.Outcome {
	own := app.Labels[platformv1.DomainLabel]
	if app.Status.Plugin != nil || f.publisher == "" || f.publisher == own {
		return nil
	}
	return stalled(platformv1.ReasonPluginNotFound, "plugin %s version %s is of domain %q, and the label %s says %q: "+
		"remove the label, and the operator of domain %q takes this Application",
		app.Spec.Plugin, app.Spec.PluginVersion, f.publisher, platformv1.DomainLabel, own, f.publisher)
}

// checkSecrets says which of the Secrets that the spec names is absent or empty, and which has what is refused.
func checkSecrets(app *platformv1.Application, f *facts) *outcome.Outcome {
	if names := slices.Sorted(maps.Keys(f.unusable)); len(names) > 0 {
		return stalled(platformv1.ReasonSecretInvalid, "credential %q: %s", names[0], f.unusable[names[0]])
	}
	for _, credential := range f.supplied {
		if _, ok := f.passwords[credential.Name]; !ok {
			return stalled(platformv1.ReasonSecretNotFound, "Secret %q in namespace %q is missing, or its key %q is missing "+
				"or empty: create it with the password of credential %q",
				credential.PasswordFrom.Name, app.Namespace, credential.PasswordFrom.Key, credential.Name)
		}
	}
	return nil
}

// waitsForClass says whether an Application is held up by a missing StorageClass.
func waitsForClass(app *platformv1.Application) bool {
	ready := conditions.Get(app, platformv1.ReadyCondition)
	return ready != nil && ready.Reason == platformv1.ReasonStorageClassNotFound
}

// settle derives the state of the instance from its Components, and from what some of them wait for.
func settle(app *platformv1.Application, f *facts, wanted []platformv1.ComponentSpec, held waits) outcome.Outcome {
	outcomes := make([]outcome.Outcome, 0, len(wanted))
	for i := range wanted {
		o := settleComponent(f, &wanted[i], held)
		if len(wanted) > 1 {
			o = named(wanted[i].Component, o)
		}
		outcomes = append(outcomes, o)
	}
	worst := withFollowers(conditions.Worst(append(outcomes, f.held...)...), f, wanted)
	if !app.Spec.IsRunning() && worst.Kind() == outcome.KindDone {
		return outcome.DoneAs(platformv1.ReasonStopped,
			"the instance is stopped, since running is false: volumes, Services and Secrets are kept; set spec.running to "+
				"true to start it")
	}
	return worst
}

// withFollowers has an outcome name the components that are updated after others, and wait for that.
func withFollowers(o outcome.Outcome, f *facts, wanted []platformv1.ComponentSpec) outcome.Outcome {
	var followers []string
	for i := range wanted {
		component := f.components[wanted[i].Component]
		if component != nil && conditions.Outcome(component).Reason() == platformv1.ReasonUpdateOrder {
			followers = append(followers, wanted[i].Component)
		}
	}
	if len(followers) == 0 || o.Reason() == platformv1.ReasonUpdateOrder {
		return o
	}
	return o.Saying(fmt.Sprintf("%s; component %s waits for its turn to be updated", o.Message(),
		strings.Join(followers, " and component ")))
}

func settleComponent(f *facts, spec *platformv1.ComponentSpec, held waits) outcome.Outcome {
	component, ok := f.components[spec.Component]
	switch why := held[spec.Component]; {
	case !ok:
		return outcome.Waiting(platformv1.ReasonProgressing, fmt.Sprintf("component %s is being made", spec.Component))
	case slices.Contains(f.written, spec.Component):
		return outcome.WaitingFor(frame.Recheck, platformv1.ReasonProgressing,
			fmt.Sprintf("component %s takes up the change", spec.Component))
	case why != "" && conditions.Outcome(component).Kind() == outcome.KindDone:
		return outcome.Waiting(platformv1.ReasonNeedNotReady, why)
	}
	return conditions.Outcome(component)
}

// named has an outcome tell which component it is about.
func named(component string, o outcome.Outcome) outcome.Outcome {
	switch o.Kind() {
	case outcome.KindDeferred, outcome.KindWaiting, outcome.KindStalled:
		return o.Saying(fmt.Sprintf("component %s: %s", component, o.Message()))
	}
	return o
}
