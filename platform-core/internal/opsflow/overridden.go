// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// outputOverridden is the time, in RFC 3339, since when the spec does not have any more what a step has set.
const outputOverridden = "overridden"

// overriddenPatience is how long that may seem so: the Application is read before the object that declares it, and may
// be from before the edit.
const overriddenPatience = 15 * time.Second

// kept is done when what a step has set at a generation of the outermost object is in the spec that this is Ready with
// by now. What another edit has overridden is not set again: two parties would fight.
func (r *run) kept(t *optemplate.Step, step *platformv1.StepStatus, generation string) verdict {
	app, d := r.facts.Application, r.facts.Declared
	if app == nil || strconv.FormatInt(d.ObservedGeneration, 10) == generation {
		return verdict{}
	}
	values, why := r.values(t)
	if why != "" {
		return verdict{failed: why}
	}
	verb := t.Engine.Do
	if verb == optemplate.EngineUpgrade {
		// That the version is a later one by now is no attempt to go back.
		verb = optemplate.EngineDowngrade
	}
	what := ""
	fields, err := r.facts.fields(verb, values)
	if err == nil {
		what, err = lost(app, fields)
	}
	if err != nil {
		// What it is about is not there any more.
		what = err.Error()
	}
	if what == "" {
		delete(step.Outputs, outputOverridden)
		return verdict{}
	}
	if left := r.since(step, outputOverridden).Add(overriddenPatience).Sub(r.facts.Now); left > 0 {
		return verdict{waiting: fmt.Sprintf("%s to have what was asked for: %s", d.Object, what), retry: left}
	}
	return verdict{final: yes, failed: fmt.Sprintf("another edit of %s has overridden that of this step: %s; change it "+
		"where that edit comes from, or run the Operation again", d.Object, what)}
}

// lost says in words which fields an Application does not have as they were set; empty for none. Values are compared as
// the Application has them: 1024Mi is 1Gi.
func lost(app *platformv1.Application, fields []FieldEdit) (string, error) {
	now, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&app.Spec)
	if err != nil {
		return "", err
	}
	var words []string
	fields = slices.DeleteFunc(slices.Clone(fields), func(field FieldEdit) bool {
		component := SetCountOf(field.Field)
		if has := declaredSets(&app.Spec, component); component != "" && has != field.Value {
			words = append(words, fmt.Sprintf("Application %q has %d sets of component %q, and %v were asked for", app.Name,
				has, component, field.Value))
		}
		return component != ""
	})
	asked, before := now, make([]any, len(fields))
	for i, field := range fields {
		if before[i], err = SetField(asked, field.Field, field.Value); err != nil {
			return "", err
		}
	}
	spec := platformv1.ApplicationSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(asked, &spec); err != nil {
		return "", err
	}
	if asked, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&spec); err != nil {
		return "", err
	}
	for i, field := range fields {
		after, err := SetField(asked, field.Field, field.Value)
		if err != nil {
			return "", err
		}
		if !equal(before[i], after) {
			words = append(words, fmt.Sprintf("spec.%s of Application %q is %s, and %s was asked for", Plain(field.Field),
				app.Name, display(before[i]), display(after)))
		}
	}
	return strings.Join(words, ", "), nil
}
