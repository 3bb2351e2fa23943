// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/constraint"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// CheckActionParameters says whether an action takes these parameters; the error is a sentence.
func CheckActionParameters(action *plan.Action, parameters map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if _, ok := action.Parameters[name]; !ok {
			return fmt.Errorf("action %q has no parameter %q: it takes %s", action.Name, name, parameterNames(action))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(action.Parameters)) {
		value, ok := parameters[name]
		if !ok {
			return fmt.Errorf("parameter %q of action %q is missing: it takes %s", name, action.Name, parameterNames(action))
		}
		if err := constraint.CheckText(action.Parameters[name], value); err != nil {
			return fmt.Errorf("parameter %q of action %q %w", name, action.Name, err)
		}
	}
	return nil
}

func parameterNames(action *plan.Action) string {
	if len(action.Parameters) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(action.Parameters)), ", ")
}

// standsForParameter says whether a text of an action is one of its parameters, as a whole.
func standsForParameter(path document.Path, text string) bool {
	if len(path) < 6 || path[2] != "actions" {
		return false
	}
	_, ok := plan.ParameterOf(text)
	return ok && perPod(path)
}

// ofSwitchover says whether a path leads to components[i].switchover.parameters.
func ofSwitchover(path document.Path) bool {
	return len(path) == 5 && path[0] == "components" && path[2] == "switchover" && path[3] == "parameters"
}

// checkSwitchoverText checks a parameter, which is filled in when it is known who hands over to whom.
func checkSwitchoverText(text string) error {
	if !placeholder.In(text) {
		return nil
	}
	_, err := placeholder.Compile(text, placeholder.Switchover)
	return err
}

func (l *loader) checkActions(path document.Path, c *schema.Component) {
	unique(l, path, c.Actions, func(a plan.Action) string { return a.Name })
	for i := range c.Actions {
		l.checkAction(path.Index(i), c, &c.Actions[i])
	}
}

func (l *loader) checkAction(path document.Path, c *schema.Component, a *plan.Action) {
	l.checkEnv(path.With("env"), c, a.Env)
	used := map[string]bool{}
	use := func(at document.Path, text string) {
		name, ok := plan.ParameterOf(text)
		if _, declared := a.Parameters[name]; ok && !declared {
			l.wrong(at, "stands for the parameter %q, which is not declared: it takes %s", name, parameterNames(a))
		}
		used[name] = true
	}
	for i, word := range a.Command {
		use(path.With("command").Index(i), word)
	}
	if a.Query != nil {
		for i, word := range a.Query.Arguments {
			use(path.With("query").With("arguments").Index(i), word)
		}
	}
	for i, v := range a.Env {
		use(path.With("env").Index(i).With("value"), v.Value)
	}
	l.checkRun(path, c, a)
	for _, name := range slices.Sorted(maps.Keys(a.Parameters)) {
		at := path.With("parameters").With(name)
		if err := constraint.CheckTextConstraint(a.Parameters[name]); err != nil {
			l.wrong(at, "%v", err)
		}
		if !used[name] {
			l.wrong(at, "is used nowhere: put ${parameters.%s} as a whole word into the command or the arguments of the "+
				"query, or as a whole value into env", name)
		}
	}
	l.checkResultExpression(path.With("success"), a.Success, cel.BoolType)
	for _, name := range slices.Sorted(maps.Keys(a.Outputs)) {
		l.checkResultExpression(path.With("outputs").With(name), a.Outputs[name], cel.StringType)
	}
}

// checkRun: what is run is a command or a query, and never for the caller to say.
func (l *loader) checkRun(path document.Path, c *schema.Component, a *plan.Action) {
	switch {
	case (len(a.Command) == 0) == (a.Query == nil):
		l.wrong(path, "must have either a command or a query")
	case a.Query == nil:
		if _, ok := plan.ParameterOf(a.Command[0]); ok {
			l.wrong(path.With("command").Index(0), "is a parameter: what is run is never for the caller to say")
		}
	case c.Driver == nil:
		l.wrong(path.With("query"), "needs a driver of component %q: add it there", c.Name)
	case len(a.Env) > 0:
		l.wrong(path.With("env"), "is for a command: a query has none, take it out")
	}
}

func (l *loader) checkResultExpression(path document.Path, source string, want *cel.Type) {
	if source == "" {
		return
	}
	checked, issues := actionEnvironment().Compile(source)
	if issues.Err() != nil {
		l.wrong(path, "is not a valid expression: %s; known here: stdout, stderr, exitCode, fields, json, and the standard "+
			"functions of CEL", placeholder.Explain(issues))
		return
	}
	// What is read out of JSON shows its type only when the action runs.
	if got := checked.OutputType(); !got.IsExactType(want) && got.Kind() != cel.DynKind {
		l.wrong(path, "gives %s: it must give %s", got, want)
	}
}

func (l *loader) checkSwitchover(path document.Path, c *schema.Component) {
	s := c.Switchover
	if s == nil {
		return
	}
	if !slices.ContainsFunc(c.Roles, func(r schema.Role) bool { return r.Access == platformv1.RoleReadWrite }) {
		l.wrong(path, "is for a component with a role that takes writes: give one of the roles access ReadWrite")
	}
	for i, name := range s.Roles {
		at := path.With("roles").Index(i)
		l.oneOf(at, name, "role", names(c.Roles, func(r schema.Role) string { return r.Name }))
		isPrimary := func(r schema.Role) bool { return r.Name == name && r.Access == platformv1.RoleReadWrite }
		if slices.ContainsFunc(c.Roles, isPrimary) {
			l.wrong(at, "is %q, which takes writes already: name the roles that can take over", name)
		}
	}
	if s.When != "" {
		if err := checkWhen(s.When); err != nil {
			l.wrong(path.With("when"), "is not a valid expression: %v", err)
		}
	}
	index := slices.IndexFunc(c.Actions, func(a plan.Action) bool { return a.Name == s.Action })
	if index < 0 {
		l.oneOf(path.With("action"), s.Action, "action", names(c.Actions, func(a plan.Action) string { return a.Name }))
		return
	}
	l.checkGiven(path.With("parameters"), &c.Actions[index], s.Parameters)
}

func checkWhen(source string) error {
	template, err := placeholder.CompileExpression(source, placeholder.Switchover)
	if err != nil {
		return err
	}
	if template.Kind() != placeholder.Bool {
		return errors.New("it must give true or false")
	}
	return nil
}
