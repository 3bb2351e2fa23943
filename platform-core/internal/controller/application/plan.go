// SPDX-License-Identifier: Apache-2.0

package application

import (
	"fmt"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/frame"
	"github.com/zeroinfra/platform-core/internal/maintenance"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// plan returns the Components that the spec asks for, or says why it cannot be had.
func plan(app *platformv1.Application, f *facts) ([]platformv1.ComponentSpec, *outcome.Outcome) {
	if refused := checkPlugin(app, f); refused != nil {
		return nil, refused
	}
	if _, err := maintenance.Parse(app.Spec.Maintenance); err != nil {
		return nil, stalled(platformv1.ReasonInvalidSpec, "%v", err)
	}
	wanted, refusal := render.Components(f.state.Bundle, app)
	if refusal != nil {
		o := outcome.Stalled(refusal.Reason, refusal.Message)
		return nil, &o
	}
	if refused := checkCertManager(f); refused != nil {
		return nil, refused
	}
	if refused := checkScaling(f, wanted); refused != nil {
		return nil, refused
	}
	if refused := checkSecrets(app, f); refused != nil {
		return nil, refused
	}
	if refused := checkClasses(f, wanted); refused != nil {
		return nil, refused
	}
	return wanted, nil
}

func stalled(reason, format string, args ...any) *outcome.Outcome {
	o := outcome.Stalled(reason, fmt.Sprintf(format, args...))
	return &o
}

// checkPlugin says why the plugin cannot be used. An instance that runs goes on without it.
func checkPlugin(app *platformv1.Application, f *facts) *outcome.Outcome {
	name, version, pinned := app.Spec.Plugin, app.Spec.PluginVersion, app.Status.Plugin
	bundle := f.state.Bundle
	switch {
	case bundle == nil && pinned != nil:
		return stalled(platformv1.ReasonPluginMissing, "plugin %s version %s is gone or broken: install it again; the pods are left alone", name, version)
	case bundle == nil && len(f.state.Errors) > 0:
		messages := make([]string, 0, len(f.state.Errors))
		for _, err := range f.state.Errors {
			messages = append(messages, err.Error())
		}
		return stalled(platformv1.ReasonPluginInvalid, "plugin %s version %s was refused: %s", name, version, strings.Join(messages, "; "))
	case bundle == nil:
		return stalled(platformv1.ReasonPluginNotFound, "plugin %s has no version %s here: see kubectl get plugins", name, version)
	case pinned != nil && pinned.Digest != bundle.Digest:
		return stalled(platformv1.ReasonPluginChanged, "plugin %s version %s has digest %s and this instance was made with %s: install the original again, and changes under a new version", name, version, bundle.Digest, pinned.Digest)
	}
	return nil
}

// checkSecrets says which of the Secrets that the spec names is absent or empty.
func checkSecrets(app *platformv1.Application, f *facts) *outcome.Outcome {
	for _, credential := range app.Spec.Credentials {
		if _, ok := f.passwords[credential.Name]; !ok {
			return stalled(platformv1.ReasonSecretNotFound, "Secret %q in namespace %q is missing, or its key %q is missing or empty: create it with the password of credential %q",
				credential.PasswordFrom.Name, app.Namespace, credential.PasswordFrom.Key, credential.Name)
		}
	}
	return nil
}

// checkClasses says which StorageClass is absent, before anything is made. A
// component that is there already has its volumes.
func checkClasses(f *facts, wanted []platformv1.ComponentSpec) *outcome.Outcome {
	for _, spec := range wanted {
		if spec.Storage == nil || f.components[spec.Component] != nil {
			continue
		}
		switch name := spec.Storage.StorageClassName; {
		case name == nil && !f.classes[""]:
			return stalled(platformv1.ReasonStorageClassNotFound, "the cluster has no default StorageClass: name one in storage.storageClassName of component %q", spec.Component)
		case name != nil && !f.classes[*name]:
			return stalled(platformv1.ReasonStorageClassNotFound, "there is no StorageClass %q: create it or name another one in storage.storageClassName of component %q", *name, spec.Component)
		}
	}
	return nil
}

// waitsForClass says whether an Application is held up by a missing StorageClass.
func waitsForClass(app *platformv1.Application) bool {
	ready := conditions.Get(app, platformv1.ReadyCondition)
	return ready != nil && ready.Reason == platformv1.ReasonStorageClassNotFound
}

// checkScaling refuses another number of pods or sets for components whose members the middleware counts
// when it is first made.
func checkScaling(f *facts, wanted []platformv1.ComponentSpec) *outcome.Outcome {
	for i := range wanted {
		spec := &wanted[i]
		declared, ok := f.state.Bundle.Component(spec.Component)
		existing := f.components[spec.Component]
		if !ok || existing == nil || declared.Scaling != plugin.ScalingFixed {
			continue
		}
		if was, is := members(&existing.Spec), members(spec); was != is {
			return stalled(platformv1.ReasonInvalidSpec, "component %q cannot be scaled once it is made: it was made with %s and the spec asks for %s; set it back",
				spec.Component, was, is)
		}
	}
	return nil
}

// members says in words which pods a component has.
func members(spec *platformv1.ComponentSpec) string {
	var sets []string
	for i := range spec.Sets {
		set := &spec.Sets[i]
		text := fmt.Sprintf("%d replicas", spec.ReplicasOf(set))
		if len(spec.Sets) > 1 || set.Name != platformv1.DefaultSet {
			text += fmt.Sprintf(" in set %q", set.Name)
		}
		if len(set.ExcludedOrdinals) > 0 {
			text += fmt.Sprintf(" without ordinals %v", slices.Sorted(slices.Values(set.ExcludedOrdinals)))
		}
		sets = append(sets, text)
	}
	slices.Sort(sets)
	return strings.Join(sets, " and ")
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
	worst := outcome.Worst(outcomes...)
	if !app.Spec.IsRunning() && worst.Kind() == outcome.KindDone {
		return outcome.DoneAs(platformv1.ReasonStopped, "the instance is stopped: its pods are gone; volumes, Services and Secrets are kept")
	}
	return worst
}

func settleComponent(f *facts, spec *platformv1.ComponentSpec, held waits) outcome.Outcome {
	component, ok := f.components[spec.Component]
	switch why := held[spec.Component]; {
	case !ok:
		return outcome.Waiting(platformv1.ReasonProgressing, fmt.Sprintf("component %s is being made", spec.Component))
	case slices.Contains(f.written, spec.Component):
		return outcome.WaitingFor(frame.Recheck, platformv1.ReasonProgressing, fmt.Sprintf("component %s takes up the change", spec.Component))
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
