// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// DefaultFailoverSeconds is how long a writer is gone before another takes over, when neither user nor plugin say.
const DefaultFailoverSeconds = 2

// Failover says how another pod becomes the writer of a component whose authority is the engine. It is declared and checked;
// what carries it out comes with a later engine.
type Failover struct {
	// Order is a CEL expression over role and attributes, as the probe of a candidate reports them, that gives a whole
	// number. Of the candidates whose data is safe, the one with the largest becomes the writer.
	Order string `json:"order"`
	// LagAttribute of the probe is how many bytes a candidate is behind the writer, as text of a whole number.
	LagAttribute string `json:"lagAttribute,omitempty"`
	// AfterSeconds that the writer has been gone. Default DefaultFailoverSeconds.
	AfterSeconds int `json:"afterSeconds,omitempty"`
	// Promote is the action that makes a pod the writer.
	Promote string `json:"promote"`
	// Follow is the action that has a pod follow the writer.
	Follow string `json:"follow"`
	// Rejoin is the action that has a former writer follow the new one, with what it wrote beyond it undone. Default Follow.
	Rejoin string `json:"rejoin,omitempty"`
}

// Seconds that the writer has been gone.
func (f *Failover) Seconds() int { return cmp.Or(f.AfterSeconds, DefaultFailoverSeconds) }

// RejoinAction is the action for a former writer.
func (f *Failover) RejoinAction() string { return cmp.Or(f.Rejoin, f.Follow) }

// orderEnvironment declares what the order of candidates is computed from.
var orderEnvironment = sync.OnceValue(func() *cel.Env {
	env, err := cel.NewEnv(
		cel.Variable("role", cel.StringType),
		cel.Variable("attributes", cel.MapType(cel.StringType, cel.StringType)),
		ext.Strings(ext.StringsVersion(4)),
		ext.Math(),
	)
	if err != nil {
		// The variables are constants of this package.
		panic(fmt.Sprintf("cannot make the environment of failovers: %v", err))
	}
	return env
})

func (l *loader) checkFailover(at document.Path, c *Component) {
	f, path := c.Failover, at.With("failover")
	if f == nil {
		return
	}
	if c.Authority != AuthorityEngine {
		l.wrong(path, "is for a component whose authority is engine: with authority %s the members elect a writer themselves", c.Authority)
	}
	if !slices.ContainsFunc(c.Roles, func(r Role) bool { return r.Access == platformv1.RoleReadWrite }) {
		l.wrong(path, "is for a component with a role that takes writes: give one of the roles the access ReadWrite")
	}
	if !slices.ContainsFunc(c.Roles, func(r Role) bool { return r.Access != platformv1.RoleReadWrite }) {
		l.wrong(path, "is for a component with a role for the pods that follow: give one of the roles the access ReadOnly or None")
	}
	l.checkOrder(path.With("order"), c, f.Order)
	l.checkActionName(path.With("promote"), c, f.Promote)
	l.checkActionName(path.With("follow"), c, f.Follow)
	if f.Rejoin != "" {
		l.checkActionName(path.With("rejoin"), c, f.Rejoin)
	}
	if f.LagAttribute != "" {
		l.oneOf(path.With("lagAttribute"), f.LagAttribute, "attribute of the probe", slices.Collect(maps.Keys(c.Probe.Attributes)))
	}
}

// checkActionName: what is to be done is an action of the component.
func (l *loader) checkActionName(path document.Path, c *Component, name string) {
	l.oneOf(path, name, "action of component \""+c.Name+"\"", names(c.Actions, func(a plan.Action) string { return a.Name }))
}

func (l *loader) checkOrder(path document.Path, c *Component, source string) {
	checked, issues := orderEnvironment().Compile(source)
	if issues.Err() != nil {
		l.wrong(path, "is not a valid expression: %s; known here: role, attributes", issues.Errors()[0].Message)
		return
	}
	if !checked.OutputType().IsExactType(cel.IntType) {
		l.wrong(path, "gives %s: it must give a whole number, for example int(attributes['offset'])", checked.OutputType())
	}
	keys, exact := placeholder.KeysUsed(checked, "attributes")
	if !exact {
		l.wrong(path, "must name each attribute that it looks at, as in attributes['offset']")
	}
	for _, key := range keys {
		l.oneOf(path, key, "attribute of the probe", slices.Collect(maps.Keys(c.Probe.Attributes)))
	}
}
