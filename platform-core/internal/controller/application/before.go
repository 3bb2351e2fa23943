// SPDX-License-Identifier: Apache-2.0

package application

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/edits"
	"github.com/zeroinfra/platform-core/internal/render"
)

// declaredBefore are the Components as they were made from the Application, which says what it may change to. What
// others made of them since does not count: where the spec was taken up already it stands, and they follow from it;
// where a newer one waits, what they edited is as that asks, and the sets say how many pods there are.
func declaredBefore(app *platformv1.Application, f *facts) map[string]*platformv1.Component {
	if !slices.ContainsFunc(slices.Collect(maps.Values(f.components)), isEdited) {
		return f.components
	}
	specs, refusals := render.CheckedComponents(f.state.Bundle, app)
	if len(refusals) > 0 {
		return f.components
	}
	before := specBefore
	if f.taken > 0 && f.taken >= app.Generation {
		before = specTakenUp
	}
	components := maps.Clone(f.components)
	for name, live := range components {
		if isEdited(live) {
			components[name] = live.DeepCopy()
			before(components[name], f, specs)
		}
	}
	return components
}

// specTakenUp gives a Component the spec that it was made with, which is the one that it is wanted with.
func specTakenUp(component *platformv1.Component, _ *facts, specs []platformv1.ComponentSpec) {
	if wanted := specOf(specs, component.Spec.Component); wanted != nil {
		restore, archive := component.Spec.RestoreFrom, component.Spec.Archive
		component.Spec = *wanted
		component.Spec.RestoreFrom, component.Spec.Archive = restore, archive
	}
}

// specBefore takes what others wrote out of the spec of a Component that may be wanted with another one now.
func specBefore(component *platformv1.Component, f *facts, specs []platformv1.ComponentSpec) {
	if wanted := specOf(specs, component.Spec.Component); wanted != nil {
		component.Spec = withoutEdits(component, wanted)
	}
	if made := f.made[component.Spec.Component]; len(made) > 0 {
		component.Spec.Sets = made
	}
}

// withoutEdits is the spec of a Component with each field in which somebody else wrote as it is wanted: what the engine
// had there nobody knows any more, so it is no reason to refuse what is wanted. One that cannot be read is as it is.
func withoutEdits(live *platformv1.Component, wanted *platformv1.ComponentSpec) platformv1.ComponentSpec {
	found, err := edits.In(live, &platformv1.Component{Spec: *wanted}, owner, none)
	if err != nil {
		return live.Spec
	}
	is, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&live.Spec)
	if err != nil {
		return live.Spec
	}
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return live.Spec
	}
	for _, edit := range found.Edits {
		if field := edit.Path[1].FieldName; field != nil && edit.Within("spec") {
			delete(is, *field)
			if value, has := want[*field]; has {
				is[*field] = value
			}
		}
	}
	var before platformv1.ComponentSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(is, &before); err != nil {
		return live.Spec
	}
	return before
}

func specOf(specs []platformv1.ComponentSpec, component string) *platformv1.ComponentSpec {
	for i := range specs {
		if specs[i].Component == component {
			return &specs[i]
		}
	}
	return nil
}

// isEdited says whether somebody else wrote to a Component: of others the cache does not keep who did.
func isEdited(component *platformv1.Component) bool { return len(component.ManagedFields) > 0 }
