// SPDX-License-Identifier: Apache-2.0

package outermost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/edits"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// Fields of a component, or of one of its sets, that may be changed in what is made from the Application.
const (
	fieldReplicas   = "replicas"
	fieldResources  = "resources"
	fieldParameters = "parameters"
	fieldSets       = "sets"
)

// Reasons of events.
const (
	// eventOverwritten: a field of somebody else was changed.
	eventOverwritten = "FieldOverwritten"
	// eventTakenUp: what somebody edited further down is declared now.
	eventTakenUp = "EditTakenUp"
)

// Value is one that somebody gave a component, or a set of it, elsewhere than where it is declared.
type Value struct {
	// Set is the name of the set; empty for the component itself.
	Set string
	// Field is replicas, resources or parameters.
	Field string
	// Path is what of the field: limits and memory, or the name of a parameter.
	Path []string
	// Value as of JSON; nil when it was taken out.
	Value any
}

// Edited is what somebody gave a component further down.
type Edited struct {
	// Values that he gave it.
	Values []Value
	// At is when the first of them was written, to the second.
	At time.Time
	// Behind says that something else was declared, or rendered, since what he edited was applied.
	Behind bool
}

// ValueOf is what an edit of a Component says of replicas, resources or parameters; false for any other edit.
func ValueOf(edit edits.Edit) (Value, bool) {
	value := Value{Value: edit.Is}
	if edit.Path[0].FieldName == nil || *edit.Path[0].FieldName != "spec" {
		return value, false
	}
	path := edit.Path[1:]
	if len(path) > 1 && path[0].FieldName != nil && *path[0].FieldName == fieldSets && path[1].Key != nil {
		for _, key := range *path[1].Key {
			value.Set = fmt.Sprint(key.Value.Unstructured())
		}
		path = path[2:]
	}
	var names []string
	for _, element := range path {
		if element.FieldName == nil {
			return value, false
		}
		names = append(names, *element.FieldName)
	}
	if len(names) == 0 {
		return value, false
	}
	value.Field, value.Path = names[0], names[1:]
	return value, value.known()
}

// ResourceOf is what a difference of a pod template says of the resources of a container; false for any other
// difference.
func ResourceOf(set, container string, difference opsflow.Difference) (Value, bool) {
	path, is := strings.CutPrefix(difference.Field, "spec.containers["+container+"]."+fieldResources+".")
	value := Value{Set: set, Field: fieldResources, Path: strings.SplitN(path, ".", 2), Value: difference.After}
	return value, is && value.known()
}

// Replicas is a number of pods that a set was given.
func Replicas(set string, replicas int32) Value {
	return Value{Set: set, Field: fieldReplicas, Value: int64(replicas)}
}

// known says whether the value is one that can be declared.
func (v Value) known() bool {
	switch v.Field {
	case fieldReplicas:
		return len(v.Path) == 0 && v.Value != nil
	case fieldResources:
		return len(v.Path) == 2 && (v.Path[0] == "limits" || v.Path[0] == "requests")
	case fieldParameters:
		return len(v.Path) == 1
	}
	return false
}

// Carry writes values of a component to the object that declares the Application, as one change. spec is the component
// as it is made from that, as far as is known. The refusal says why they cannot be had. Changed is empty where all of
// them are declared already, and come down by themselves.
func (e Editor) Carry(ctx context.Context, app *platformv1.Application, spec *platformv1.ComponentSpec, edited Edited) (
	change *Change, refusal string, err error) {
	before, kind, err := e.Read(ctx, app)
	if unserved, is := errors.AsType[*opsflow.Refusal](err); is {
		return nil, unserved.Message, nil
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Sprintf("%s is gone", NameOf(app)), nil
	}
	if err != nil {
		return nil, "", err
	}
	declared, now := e.declared(before, kind, app, spec)
	if change, refusal, err = e.think(ctx, app, before, kind,
		&opsflow.Edit{Fields: fieldsOf(declared, now, edited.Values)}); refusal != "" || err != nil {
		return nil, refusal, err
	}
	// What is declared by now may have yet to come down.
	edited.Behind = edited.Behind || slices.ContainsFunc(edited.Values,
		func(v Value) bool { return v.of(now) != v.of(spec) })
	if refusal = e.standsAgainst(change, kind, now, edited); refusal != "" {
		return nil, refusal, nil
	}
	if len(change.Changed) > 0 {
		err = e.Write(ctx, change)
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) {
		return nil, fmt.Sprintf("%s cannot be changed: %v", NameOf(app), err), nil
	}
	return change, "", err
}

// declared is the Application that the outermost object declares by now, and the component of it: what is given where
// neither can be told.
func (e Editor) declared(before *unstructured.Unstructured, kind typed.Registration, app *platformv1.Application,
	spec *platformv1.ComponentSpec) (*platformv1.Application, *platformv1.ComponentSpec) {
	compiled, err := e.Compile(before, kind, app)
	if err != nil {
		return app, spec
	}
	now, refusal := e.Component(compiled, spec.Component)
	if refusal != "" {
		return app, spec
	}
	return compiled, now
}

// standsAgainst says why values would not come out of a change, or are older than what is declared; empty when nothing
// does. now is the component as it is declared before the change.
func (e Editor) standsAgainst(change *Change, kind typed.Registration, now *platformv1.ComponentSpec,
	edited Edited) string {
	follows := change.Application
	if follows == nil {
		var err error
		if follows, err = e.Compile(change.After, kind, change.Live); err != nil {
			return err.Error()
		}
	}
	after, refusal := e.Component(follows, now.Component)
	if refusal != "" {
		return refusal
	}
	state, _ := e.Index.Get(follows.Spec.Plugin, follows.Spec.PluginVersion)
	declared, is := state.Bundle.Component(now.Component)
	for _, value := range edited.Values {
		if value.Field == fieldReplicas && is && !declared.Scales() && value.of(now) != value.of(after) {
			return fmt.Sprintf("component %q cannot be scaled once it is made: its plugin has scaling Fixed", now.Component)
		}
		if !value.In(after) {
			return fmt.Sprintf("%s is computed from another field of %s: change that",
				strings.Join(append([]string{value.Field}, value.Path...), "."), NameOf(change.Live))
		}
	}
	if len(change.Changed) == 0 || !edited.Behind {
		return ""
	}
	return e.declaredLater(change, edited.At)
}

// declaredLater says which field of a change somebody declared later than it was edited further down; empty for none.
// What this Editor wrote there came from an earlier edit.
func (e Editor) declaredLater(change *Change, at time.Time) string {
	entries := change.Before.GetManagedFields()
	for _, field := range change.fields {
		having := opsflow.EntriesOf(entries, field)
		if len(having) == 0 {
			// It may have been taken out, which leaves no trace but in who changed the spec.
			having = opsflow.EntriesOf(entries, "")
		}
		for _, entry := range having {
			if entry.Manager != e.Owner && entry.Time != nil && entry.Time.After(at) {
				return fmt.Sprintf("spec.%s of %s was declared later, by %s", opsflow.Plain(field), NameOf(change.Live),
					entry.Manager)
			}
		}
	}
	return ""
}

// Tell says, on what was edited and on the object that declares it, that the latter has what others edited.
func (e Editor) Tell(events *event.Recorder, edited client.Object, change *Change, by string) {
	if len(change.Changed) == 0 {
		return
	}
	events.Normal(change.After, eventTakenUp, "%s, edited in %s %s by %s", strings.Join(change.Changed, ", "),
		kindOf(edited), edited.GetName(), by)
	change.Warn(events, change.After)
}

// kindOf is the kind of what others edit.
func kindOf(edited client.Object) string {
	if _, is := edited.(*platformv1.Component); is {
		return "Component"
	}
	return "WorkloadSet"
}

// Component is one of those that an Application is made of, as it declares it. The refusal says why there is none.
func (e Editor) Component(app *platformv1.Application, name string) (spec *platformv1.ComponentSpec, refusal string) {
	state, _ := e.Index.Get(app.Spec.Plugin, app.Spec.PluginVersion)
	if state.Bundle == nil {
		return nil, fmt.Sprintf("plugin %s version %s is gone or broken: install it again", app.Spec.Plugin,
			app.Spec.PluginVersion)
	}
	specs, refused := render.Components(state.Bundle, app)
	if refused != nil {
		return nil, refused.Message
	}
	i := slices.IndexFunc(specs, func(spec platformv1.ComponentSpec) bool { return spec.Component == name })
	if i < 0 {
		return nil, fmt.Sprintf("component %q is no longer declared", name)
	}
	return &specs[i], ""
}

// In says whether a component has the value.
func (v Value) In(spec *platformv1.ComponentSpec) bool {
	wanted := present{has: v.Value != nil}
	if wanted.has {
		wanted.text = fmt.Sprint(v.Value)
	}
	if v.Field == fieldResources && wanted.has {
		quantity, err := resource.ParseQuantity(wanted.text)
		if err != nil {
			return false
		}
		wanted.text = spelt(quantity)
	}
	return v.of(spec) == wanted
}

// Known says whether the set that the value is of is one of the component's.
func (v Value) Known(spec *platformv1.ComponentSpec) bool {
	return v.Set == "" || slices.ContainsFunc(spec.Sets, func(s platformv1.ComponentSet) bool { return s.Name == v.Set })
}

// present is what a component has in the place of a value, in the one way that it is spelt.
type present struct {
	text string
	has  bool
}

// of returns what a component has in the place of the value.
func (v Value) of(spec *platformv1.ComponentSpec) present {
	set := &platformv1.ComponentSet{}
	if i := slices.IndexFunc(spec.Sets, func(s platformv1.ComponentSet) bool { return s.Name == v.Set }); i >= 0 {
		set = &spec.Sets[i]
	}
	switch v.Field {
	case fieldReplicas:
		return present{fmt.Sprint(spec.ReplicasOf(set)), true}
	case fieldResources:
		of := resourcesOf(spec, set)
		list := of.Limits
		if v.Path[0] == "requests" {
			list = of.Requests
		}
		if quantity, has := list[corev1.ResourceName(v.Path[1])]; has {
			return present{spelt(quantity), true}
		}
		return present{}
	}
	parameter, has := set.Parameters[v.Path[0]]
	if !has {
		parameter, has = spec.Parameters[v.Path[0]]
	}
	return present{string(parameter), has}
}

// spelt is a quantity in the one way that all of its value are spelt: 1Gi is 1024Mi, and 1073741824.
func spelt(quantity resource.Quantity) string {
	return resource.NewMilliQuantity(quantity.MilliValue(), resource.DecimalSI).String()
}

// resourcesOf are those of a set: its own, which replace those of the component.
func resourcesOf(spec *platformv1.ComponentSpec, set *platformv1.ComponentSet) corev1.ResourceRequirements {
	if len(set.Resources.Limits)+len(set.Resources.Requests) > 0 {
		return set.Resources
	}
	return spec.Resources
}

// Declared is the field of the Application's spec that says the value: at the set, or at the component when that has
// just one set and the Application does not speak of it.
func (v Value) Declared(app *platformv1.Application, spec *platformv1.ComponentSpec) string {
	field := v.place(setsOf(app, spec.Component), spec) + "." + v.Field
	for _, name := range v.Path {
		field += "." + opsflow.Name(name)
	}
	return field
}

// place is what of the Application a value belongs to. declared are the sets that the Application speaks of.
func (v Value) place(declared []string, spec *platformv1.ComponentSpec) string {
	at := componentField(spec)
	if v.Set != "" && (len(declared) > 0 || len(spec.Sets) > 1) {
		at += ".sets[" + v.Set + "]"
	}
	return at
}

func componentField(spec *platformv1.ComponentSpec) string {
	return "components[" + spec.Component + "]"
}

// fieldsOf are the fields of the Application that values go into. Resources are written as a whole, since what is
// declared of them replaces all that the plugin has by itself.
func fieldsOf(app *platformv1.Application, spec *platformv1.ComponentSpec, values []Value) []opsflow.FieldEdit {
	declared := setsOf(app, spec.Component)
	var fields []opsflow.FieldEdit
	if len(declared) == 0 && metav1.GetControllerOf(app) == nil &&
		slices.ContainsFunc(values, func(v Value) bool { return v.place(declared, spec) != componentField(spec) }) {
		// To speak of one set is to speak of all.
		for _, set := range spec.Sets {
			fields = append(fields, opsflow.FieldEdit{Field: componentField(spec) + ".sets[" + set.Name + "].name",
				Value: set.Name})
		}
	}
	whole := map[string]map[string]any{}
	for _, value := range values {
		if value.Field != fieldResources {
			fields = append(fields, opsflow.FieldEdit{Field: value.Declared(app, spec), Value: value.Value})
			continue
		}
		at := value.place(declared, spec) + "." + fieldResources
		if whole[at] == nil {
			whole[at] = asJSON(spec, value.Set)
			fields = append(fields, opsflow.FieldEdit{Field: at, Value: whole[at]})
		}
		put(whole[at], value)
	}
	return fields
}

// setsOf are the names of the sets of a component that the Application speaks of.
func setsOf(app *platformv1.Application, component string) []string {
	var names []string
	for _, c := range app.Spec.Components {
		for _, set := range c.Sets {
			if c.Name == component {
				names = append(names, set.Name)
			}
		}
	}
	return names
}

// asJSON are the resources of a component, or of one of its sets, as of JSON.
func asJSON(spec *platformv1.ComponentSpec, name string) map[string]any {
	set := &platformv1.ComponentSet{}
	if i := slices.IndexFunc(spec.Sets, func(s platformv1.ComponentSet) bool { return s.Name == name }); i >= 0 {
		set = &spec.Sets[i]
	}
	resources := resourcesOf(spec, set)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&resources)
	if err != nil {
		return map[string]any{}
	}
	return content
}

// put puts a quantity into resources, or takes it out.
func put(resources map[string]any, value Value) {
	list, _ := resources[value.Path[0]].(map[string]any)
	if list == nil {
		list = map[string]any{}
		resources[value.Path[0]] = list
	}
	if list[value.Path[1]] = value.Value; value.Value == nil {
		delete(list, value.Path[1])
	}
	if len(list) == 0 {
		delete(resources, value.Path[0])
	}
}
