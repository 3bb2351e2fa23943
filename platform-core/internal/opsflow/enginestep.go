// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/sdk/version"
)

// Outputs of an engine step.
const (
	// OutputGeneration is the generation of the outermost object since the edit.
	OutputGeneration = "generation"
	// OutputChanged says in words what was changed.
	OutputChanged = "changed"
)

// declaredPoll is after how long the outermost object is read again although nothing woke us: its changes do.
const declaredPoll = 30 * time.Second

// engineStep edits the outermost declared object and waits until that is Ready with the edit, unless another edit
// overrides it.
type engineStep struct{}

func (engineStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if step.Phase == platformv1.OperationPending {
		step.Outputs = r.versionBefore(t, step)
		r.begin(step)
	}
	generation, edited := step.Outputs[OutputGeneration]
	if !edited {
		edit, why := r.edit(t)
		if why != "" {
			return verdict{failed: why, untouched: yes}
		}
		answer, v := r.answer(&Effect{Key: r.key(step, ""), Edit: edit}, "the edit of "+r.facts.Declared.Object)
		if answer == nil {
			return v
		}
		for name, value := range answer.Outputs {
			setOutput(step, name, value)
		}
		// What was observed is from before the edit.
		return verdict{waiting: r.facts.Declared.Object + " to take up the change", retry: declaredPoll}
	}
	v := r.settled(generation)
	switch {
	case !v.done():
	case t.Engine.Do == optemplate.EngineUpgradePlugin:
		return r.tookOver(t)
	default:
		v = r.kept(t, step, generation)
	}
	if v.done() && t.Engine.Do == optemplate.EngineUpgrade {
		return r.arrived(t, step)
	}
	return v
}

// tookOver is done when the Application is Ready as made from the version of the plugin that a step asks for. An object
// that declares one without a field for that shows it in no generation.
func (r *run) tookOver(t *optemplate.Step) verdict {
	values, why := r.values(t)
	if why != "" {
		return verdict{failed: why}
	}
	app, wanted := r.facts.Application, platformv1.CanonicalPluginVersion(values["version"])
	waiting := fmt.Sprintf("plugin version %s to take over", wanted)
	ready, stalled := meta.FindStatusCondition(app.Status.Conditions, platformv1.ReadyCondition),
		meta.FindStatusCondition(app.Status.Conditions, platformv1.StalledCondition)
	switch {
	case platformv1.CanonicalPluginVersion(app.Spec.PluginVersion) != wanted ||
		app.Status.ObservedGeneration < app.Generation:
		return verdict{waiting: waiting, retry: declaredPoll}
	case stalled != nil && stalled.Status == metav1.ConditionTrue:
		return failedf("Application %q does not get there: %s", app.Name, stalled.Message)
	case app.Status.Plugin == nil || app.Status.Plugin.Version != wanted || ready == nil ||
		ready.Status != metav1.ConditionTrue:
		return verdict{waiting: waiting, retry: declaredPoll}
	}
	return verdict{}
}

// settled is done when the outermost object is Ready with an edit of this generation.
func (r *run) settled(generation string) verdict {
	d := r.facts.Declared
	wanted, err := strconv.ParseInt(generation, 10, 64)
	switch {
	case err != nil:
		return failedf("generation %q of %s cannot be read: %v", generation, d.Object, err)
	case d.ObservedGeneration < wanted:
		return verdict{waiting: d.Object + " to take up the change", retry: declaredPoll}
	case d.Ready.Reason == platformv1.ReasonSuspended:
		// It is Ready as it was, and nothing is done about the change.
		return suspended(d.Object, declaredPoll)
	case d.Stalled.Status == metav1.ConditionTrue:
		return failedf("%s does not get there: %s", d.Object, d.Stalled.Message)
	case d.Ready.Status != metav1.ConditionTrue:
		v := verdict{waiting: fmt.Sprintf("%s to be Ready: %s", d.Object, d.Ready.Message), retry: declaredPoll}
		if d.Ready.Reason == platformv1.ReasonWaitingForMaintenance {
			v.reason = d.Ready.Reason
		}
		return v
	}
	return verdict{}
}

// values are what a step gives its verb; one that is empty is left out.
func (r *run) values(t *optemplate.Step) (map[string]string, string) {
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(t.Engine.With)) {
		value, v := r.text(t, t.Engine.With[name], item{})
		if !v.done() {
			return nil, v.failed
		}
		if value != "" {
			values[name] = value
		}
	}
	return values, ""
}

// edit returns the fields that a step sets; why says why it cannot be.
func (r *run) edit(t *optemplate.Step) (edit *Edit, why string) {
	values, why := r.values(t)
	if why != "" {
		return nil, why
	}
	var err error
	edit = &Edit{}
	if t.Engine.Do == optemplate.EnginePlan {
		edit.Spec, why = r.planned()
		return edit, why
	}
	if edit.Fields, err = r.facts.fields(t.Engine.Do, values); err != nil {
		return nil, err.Error()
	}
	if r.op.Spec.Force {
		edit.Ownership = OverrideOwner
	}
	return edit, ""
}

// fields are what a verb sets.
func (f Facts) fields(verb optemplate.EngineVerb, values map[string]string) ([]FieldEdit, error) {
	switch verb {
	case optemplate.EngineStop:
		return []FieldEdit{{"running", false}}, nil
	case optemplate.EngineStart:
		return []FieldEdit{{"running", true}}, nil
	case optemplate.EngineUpgrade:
		return f.upgrade(values["version"])
	case optemplate.EngineDowngrade:
		return []FieldEdit{{"version", values["version"]}}, nil
	case optemplate.EngineUpgradePlugin:
		return []FieldEdit{{FieldPluginVersion, platformv1.CanonicalPluginVersion(values["version"])}}, nil
	}
	component, err := f.componentFor(values["component"])
	if err != nil {
		return nil, err
	}
	at := "components[" + component + "]"
	switch verb {
	case optemplate.EngineScale:
		return f.scaled(at, component, values)
	case optemplate.EngineExpand:
		if err := quantity("size", values["size"]); err != nil {
			return nil, err
		}
		return []FieldEdit{{at + ".storage.size", values["size"]}}, nil
	case optemplate.EngineResize:
		return f.resize(at, component, values)
	}
	return nil, fmt.Errorf("this operator does not know the verb %q", verb)
}

// componentFor is the component that is meant: the one that is named, the target's own, or the only one.
func (f Facts) componentFor(named string) (string, error) {
	switch {
	case named != "" && f.Component != "" && named != f.Component:
		return "", fmt.Errorf("%s is of component %q, and parameter \"component\" names %q: leave it out", f.Target,
			f.Component, named)
	case named != "" && !slices.Contains(f.Components, named):
		return "", fmt.Errorf("%s has no component %q; it has: %s", f.Target, named, list(f.Components))
	case named != "":
		return named, nil
	case f.Component != "":
		return f.Component, nil
	case len(f.Components) == 1:
		return f.Components[0], nil
	}
	return "", fmt.Errorf("%s has several components: name one in parameter \"component\": %s", f.Target,
		list(f.Components))
}

// resize sets what is given. What an Application declares stands in the place of all that its plugin says, so that one
// that declares nothing so far goes on with the rest of that.
func (f Facts) resize(at, component string, values map[string]string) ([]FieldEdit, error) {
	undeclared := f.undeclared(component)
	var fields, kept []FieldEdit
	for _, kind := range []string{"cpu", "memory"} {
		for _, side := range []string{"limits", "requests"} {
			field := at + ".resources." + side + "." + kind
			own := kind + strings.ToUpper(side[:1]) + strings.TrimSuffix(side[1:], "s")
			value := cmp.Or(values[own], values[kind])
			if value == "" {
				if has, ok := undeclared[side][corev1.ResourceName(kind)]; ok {
					kept = append(kept, FieldEdit{field, has.String()})
				}
				continue
			}
			if err := quantity(kind, value); err != nil {
				return nil, err
			}
			fields = append(fields, FieldEdit{field, value})
		}
	}
	for _, side := range []string{"limits", "requests"} {
		for _, name := range slices.Sorted(maps.Keys(undeclared[side])) {
			if quantity := undeclared[side][name]; name != corev1.ResourceCPU && name != corev1.ResourceMemory {
				kept = append(kept, FieldEdit{at + ".resources." + side + "." + Name(string(name)), quantity.String()})
			}
		}
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("no resource is given: " +
			"set cpu or memory, or one of cpuRequest, cpuLimit, memoryRequest and memoryLimit")
	}
	return append(fields, kept...), nil
}

// undeclared are the limits and requests that a component has by its plugin, since the Application declares none.
func (f Facts) undeclared(component string) map[string]corev1.ResourceList {
	if f.Application != nil {
		for _, c := range f.Application.Spec.Components {
			if c.Name == component && len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
				return nil
			}
		}
	}
	declared := f.Resources[component]
	return map[string]corev1.ResourceList{"limits": declared.Limits, "requests": declared.Requests}
}

// quantity refuses a text that is none.
func quantity(name, text string) error {
	if _, err := resource.ParseQuantity(text); err != nil {
		return fmt.Errorf("%s is %q: it must be a quantity such as 512Mi or 2", name, text)
	}
	return nil
}

// upgrade refuses to go back: what a newer version wrote, an older one may not read.
func (f Facts) upgrade(wanted string) ([]FieldEdit, error) {
	if f.Application != nil && version.Compare(wanted, f.Application.Spec.Version) < 0 {
		return nil, fmt.Errorf("%s has version %s, and %s is older: a downgrade is not possible; restore a backup instead",
			f.Target, f.Application.Spec.Version, wanted)
	}
	return []FieldEdit{{"version", wanted}}, nil
}
