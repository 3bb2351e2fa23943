// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// Entity is a type of objects that live inside the middleware, such as topics or users. It is declared and checked; what
// keeps such objects comes with a later engine.
type Entity struct {
	// Type is its name, for example topic.
	Type string `json:"type"`
	// Component that the actions are run in, in a pod of it.
	Component string `json:"component"`
	// Role of that pod; any pod when empty.
	Role string `json:"role,omitempty"`
	// Actions of the component by what they do.
	Actions EntityActions `json:"actions"`
	// Parameters is the key of the parameter set that says what can be said of such an object.
	Parameters string `json:"parameters,omitempty"`
}

// EntityActions are the names of a component's actions.
type EntityActions struct {
	// Observe reads the object, and says when there is none.
	Observe string `json:"observe"`
	// Create makes it.
	Create string `json:"create"`
	// Update changes it; without it, a change of parameters is refused.
	Update string `json:"update,omitempty"`
	// Delete removes it.
	Delete string `json:"delete"`
}

func (l *loader) checkEntities() {
	all := l.components.Components.Components
	unique(l, document.Path{"entities"}, l.components.Entities, func(e Entity) string { return e.Type })
	for i, entity := range l.components.Entities {
		path := document.Path{"entities"}.Index(i)
		l.oneOf(path.With("component"), entity.Component, "component", names(all, func(c Component) string { return c.Name }))
		index := slices.IndexFunc(all, func(c Component) bool { return c.Name == entity.Component })
		if index >= 0 && entity.Role != "" {
			l.oneOf(path.With("role"), entity.Role, "role", names(all[index].Roles, func(r Role) string { return r.Name }))
		}
		if index >= 0 {
			l.checkEntityActions(path.With("actions"), &all[index], entity.Actions)
		}
		if entity.Parameters == "" {
			continue
		}
		set, ok := l.parameters[entity.Parameters]
		if _, broken := l.part(PartParams)[entity.Parameters+".yaml"]; !ok && !broken {
			l.oneOf(path.With("parameters"), entity.Parameters, "parameter set", l.parameterSetNames())
		}
		if slices.ContainsFunc(all, func(c Component) bool { return c.Parameters == entity.Parameters }) {
			l.wrong(path.With("parameters"), "names the parameter set %q, which a component has: give the entity one of its own", entity.Parameters)
		}
		if ok && len(set.set.Dynamic) > 0 {
			l.fail(PartParams, set.file, set.document.Line(document.Path{"dynamic"}), "dynamic is for a component, and this set is of the entity %q: take it out", entity.Type)
		}
	}
}

func (l *loader) checkEntityActions(path document.Path, c *Component, actions EntityActions) {
	l.checkActionName(path.With("observe"), c, actions.Observe)
	l.checkActionName(path.With("create"), c, actions.Create)
	l.checkActionName(path.With("delete"), c, actions.Delete)
	if actions.Update != "" {
		l.checkActionName(path.With("update"), c, actions.Update)
	}
}
