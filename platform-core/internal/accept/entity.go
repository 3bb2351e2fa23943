// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"fmt"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
)

// EntityWanted is what an Entity asks for, as its plugin has it.
type EntityWanted struct {
	// Type that the plugin declares.
	Type *schema.Entity
	// Roles of the pods that are asked; any pod when empty.
	Roles []string
	// Parameters are all that it is to have.
	Parameters map[string]string
}

// Entity returns what an Entity of an Application asks for, or each thing that is wrong with what it asks.
func Entity(entity *platformv1.Entity, app *platformv1.Application, bundle *plugin.Bundle) (*EntityWanted,
	[]*render.Refusal) {
	bundle = bundle.In(app.Spec.Topology)
	declared, roles, ok := bundle.Entity(entity.Spec.Type)
	if !ok {
		known := "it has none"
		if types := bundle.EntityTypes(); len(types) > 0 {
			known = "it has " + strings.Join(types, ", ")
		}
		return nil, []*render.Refusal{refuse(platformv1.ReasonTypeNotFound,
			"plugin %s of Application %q has no entities of type %q: %s with topology %q",
			bundle.Manifest.Name, app.Name, entity.Spec.Type, known, app.Spec.Topology)}
	}
	var refusals []*render.Refusal
	if err := declared.CheckEntityName(entity.Spec.Name); err != nil {
		refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec, "name %v", err))
	}
	switch from := entity.Spec.PasswordFrom; {
	case declared.Password == schema.PasswordRequired && from == nil:
		refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec,
			"an entity of type %q has a password: name the Secret that holds it in passwordFrom", declared.Type))
	case declared.Password == "" && from != nil:
		refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec,
			"an entity of type %q has no password: take passwordFrom out", declared.Type))
	}
	if owner := credentialOf(entity, declared, bundle); owner != "" {
		refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec,
			"the password of %s %q is that of credential %q of the Application: set it there, and take passwordFrom out",
			declared.Type, entity.Spec.Name, owner))
	}
	parameters, errs := bundle.EntityParameters(declared, placeholder.App{
		Name: app.Name, Namespace: app.Namespace, Version: app.Spec.Version, Topology: app.Spec.Topology,
		TLS: app.Spec.TLS.On(),
	}, entity.Spec.Parameters)
	for _, err := range errs {
		refusals = append(refusals, refuse(platformv1.ReasonInvalidParameters, "%v", err))
	}
	if len(refusals) > 0 {
		return nil, refusals
	}
	return &EntityWanted{Type: declared, Roles: roles, Parameters: parameters}, nil
}

// credentialOf is the credential that has the password which an Entity asks for; empty where there is none.
func credentialOf(entity *platformv1.Entity, declared *schema.Entity, bundle *plugin.Bundle) string {
	if declared.Password == "" || entity.Spec.PasswordFrom == nil {
		return ""
	}
	for _, c := range bundle.Components.Credentials {
		if c.Username == entity.Spec.Name && !c.Supplied {
			return c.Name
		}
	}
	return ""
}

// JudgeEntity decides about an Entity of an Application that is about to be created, or changed from old, which is nil
// at creation: as Judge does about an Application. While the plugin cannot be used, it waits.
func JudgeEntity(entity, old *platformv1.Entity, app *platformv1.Application, state plugin.State) Verdict {
	if !entity.DeletionTimestamp.IsZero() {
		return Verdict{}
	}
	if r := Plugin(app, state); r != nil {
		return Verdict{Warnings: []string{held(r)}}
	}
	_, refusals := Entity(entity, app, state.Bundle)
	if old == nil || len(refusals) == 0 {
		return Verdict{Refused: refusals}
	}
	_, before := Entity(old, app, state.Bundle)
	return unlessBefore(refusals, before)
}

// JudgeInside decides about what a typed object declares inside its middleware: before is nil at creation. Each thing
// that is wrong is told with its type and name. While the plugin cannot be used, nothing is said: that is said of the
// Application.
func JudgeInside(now, before []platformv1.EntitySpec, app *platformv1.Application, state plugin.State) Verdict {
	var all Verdict
	if Plugin(app, state) != nil {
		return all
	}
	entities := map[string]*platformv1.Entity{}
	for _, spec := range before {
		entities[inside(&spec)] = &platformv1.Entity{Spec: spec}
	}
	for _, spec := range now {
		v := JudgeEntity(&platformv1.Entity{Spec: spec}, entities[inside(&spec)], app, state)
		for _, refusal := range v.Refused {
			all.Refused = append(all.Refused, refuse(refusal.Reason, "%s: %s", inside(&spec), refusal.Message))
		}
		for _, warning := range v.Warnings {
			all.Warnings = append(all.Warnings, inside(&spec)+": "+warning)
		}
	}
	return all
}

// inside is what something in a middleware is called.
func inside(spec *platformv1.EntitySpec) string { return fmt.Sprintf("%s %q", spec.Type, spec.Name) }
