// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/constraint"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// mayHoldPlaceholders accepts placeholders in the values of steps and the messages of preconditions alone. These are
// checked when all of the template is known.
func mayHoldPlaceholders(path document.Path, text string, _ reflect.Kind) (bool, error) {
	if len(path) == 3 && path[0] == "preconditions" && path[2] == "message" {
		return false, nil
	}
	if len(path) > 3 && path[0] == "steps" {
		for _, open := range []string{"parameters", "pod", "with", "name", "message", "content", "command"} {
			if path[3] == open && path[2] != "http" {
				return false, nil
			}
		}
		if path[2] == "operation" && path[3] == "template" {
			// It is checked as a template of its own.
			return false, nil
		}
		if placeholders := taskLeaf(path); placeholders {
			return false, nil
		}
		if path[2] == "job" && (path[len(path)-1] == "value" || path[3] == "resources" && len(path) == 6) {
			return false, nil
		}
	}
	return false, placeholder.Refuse(text)
}

// taskLeaf says whether a text of a container, a script or a call may hold placeholders, or is taken as it is.
func taskLeaf(path document.Path) bool {
	last := path[len(path)-1]
	switch path[2] {
	case "http":
		return path[3] == "url" || path[3] == "body" || last == "value"
	case "container", "script":
		return path[3] == "image" || path[3] == "source" || path[3] == "args" || path[3] == "command" || last == "value" ||
			last == "claim" ||
			path[3] == "resources" && len(path) == 6
	}
	return false
}

// Scope is what the steps of a template of a plugin can refer to. The zero value is for a template that belongs to no
// plugin.
type Scope struct {
	// Components of the plugin.
	Components []Component
	// Topologies of the plugin by name.
	Topologies []string
	// Supplied are the names of credentials that exist only where a user supplies them.
	Supplied []string
}

// Component is what the steps of a template can refer to in one component.
type Component struct {
	Name string
	// Actions that run in its pods.
	Actions []plan.Action
	// Reloads says that its process can reload its configuration.
	Reloads bool
	// PrimaryHasVolumes says that a primary is on record, and that its pod has volumes.
	PrimaryHasVolumes bool
	// Mounts by name, of those that take one volume.
	Mounts []string
	// Credentials by name.
	Credentials []string
}

// Decode reads a template of a plugin. It returns all problems; with none, the template is ready for Check.
func Decode(doc *document.Document) (Template, []document.Problem) {
	var template Template
	problems := constraint.Decode(doc, "#Operation", &template, mayHoldPlaceholders)
	return template, problems
}

// Check returns the problems of a template of a plugin, and compiles its expressions if there are none. doc is the
// document that it was read from.
func (t *Template) Check(doc *document.Document, scope Scope) []document.Problem {
	return t.check(doc, scope, ofPlugin, 0)
}

// Parse reads a template that belongs to no plugin: it can act on every component. The error is the first problem.
func Parse(text string) (Template, error) {
	template, problems := parse(text, ofEngine, 0)
	if len(problems) > 0 {
		return template, problems[0]
	}
	return template, nil
}

// parse reads a template that belongs to no plugin, and returns all its problems. depth is for an inline one.
func parse(text string, origin templateOrigin, depth int) (Template, []document.Problem) {
	doc, problems := document.Parse(text)
	if doc == nil {
		return Template{}, problems
	}
	template, more := Decode(doc)
	if problems = append(problems, more...); len(more) == 0 {
		problems = append(problems, template.check(doc, Scope{}, origin, depth)...)
	}
	return template, problems
}

// checker checks one template.
type checker struct {
	template *Template
	origin   templateOrigin
	// depth of an inline template, 1 for that of the Operation.
	depth int
	// scope has only the components that the template can act on.
	scope Scope
	fail  func(path document.Path, format string, args ...any)
}

func (t *Template) check(doc *document.Document, scope Scope, origin templateOrigin, depth int) []document.Problem {
	var problems []document.Problem
	c := checker{template: t, origin: origin, depth: depth, scope: scope,
		fail: func(path document.Path, format string, args ...any) {
			problems = append(problems, document.Problem{Line: doc.Line(path),
				Message: fmt.Sprintf("%s %s", path, fmt.Sprintf(format, args...))})
		}}
	for i, target := range t.Targets {
		if !slices.ContainsFunc(scope.Components, func(c Component) bool { return c.Name == target }) {
			c.fail(document.Path{"targets"}.Index(i), "names the component %q, which is not there", target)
		}
	}
	for i, topology := range t.Topologies {
		if !slices.Contains(scope.Topologies, topology) {
			c.fail(document.Path{"topologies"}.Index(i), "names the topology %q, which is not there", topology)
		}
	}
	c.scope.Components = slices.DeleteFunc(slices.Clone(scope.Components),
		func(component Component) bool { return !t.ActsOn(component.Name) })
	// The names above say nothing about the expressions.
	before := len(problems)
	if t.Timeout != "" && t.Timeout.Duration() <= 0 {
		c.fail(document.Path{"timeout"}, "is %s: it must be greater than 0 and at most 2562047h", t.Timeout)
	}
	if origin == inline {
		c.inline()
	}
	c.parameters()
	c.results()
	c.repository()
	c.steps()
	if len(problems) == before {
		formulaCompiler{template: t, outputs: c.outputs, tasks: origin == inline, fail: c.fail}.compile()
	}
	return problems
}

func (c checker) parameters() {
	for _, name := range slices.Sorted(maps.Keys(c.template.Parameters)) {
		p, path := c.template.Parameters[name], document.Path{"parameters"}.With(name)
		if err := constraint.CheckTextConstraint(p.Schema); err != nil {
			c.fail(path.With("schema"), "%v", err)
			continue
		}
		if p.Default != nil && *p.Default != "" {
			if err := constraint.CheckText(p.Schema, *p.Default); err != nil {
				c.fail(path.With("default"), "%v", err)
			}
		}
	}
}

func (c checker) steps() {
	seen, approvals := map[string]bool{}, 0
	for i := range c.template.Steps {
		step, path := &c.template.Steps[i], document.Path{"steps"}.Index(i)
		if variable := StepVariable(step.Name); seen[variable] {
			c.fail(path.With("name"), "is %q, which another step has: names must differ, and not just in dashes", step.Name)
		} else {
			seen[variable] = true
		}
		if step.Approval != nil {
			if approvals++; approvals > 1 {
				c.fail(path, "is the second that waits for an approval: an Operation has one approval at most")
			}
		}
		c.references(path, step, c.template.Steps[i+1:])
		c.kind(path, step)
		c.types(path, step)
		c.artifacts(path, step)
	}
	c.point()
	unknown := func(need string) bool { _, known := c.template.Step(need); return !known }
	if slices.ContainsFunc(c.template.Steps, func(s Step) bool { return slices.ContainsFunc(s.Needs, unknown) }) {
		// What needs a step that is not there has no place in the order, and is no cycle.
		return
	}
	if order := c.template.Order(); len(order) < len(c.template.Steps) {
		for i, step := range c.template.Steps {
			if !slices.Contains(order, step.Name) {
				c.fail(document.Path{"steps"}.Index(i).With("needs"), "waits for itself, by way of what it needs")
				return
			}
		}
	}
}

// point checks the point of no return: there is one at most, it can be reached and touches something, and what does not
// end before it can neither be undone nor be forbidden.
func (c checker) point() {
	var point *Step
	for i := range c.template.Steps {
		step, path := &c.template.Steps[i], document.Path{"steps"}.Index(i).With("commits")
		switch {
		case step.Commits == "":
			continue
		case point != nil:
			c.fail(path, "makes it a second point of no return after step %q: an Operation has one at most", point.Name)
		case c.template.Compensates(step.Name), step.When == "false":
			c.fail(path, "stands at a step that is never reached on the way: a step that is taken only to compensate, or "+
				"never, is no point of no return")
		case step.Approval != nil, step.Wait != nil, step.Engine != nil &&
			(step.Engine.Do == EngineApply || step.Engine.Do == EnginePlan):
			c.fail(path, "stands at a step that touches nothing: mark the one that cannot be undone")
		default:
			point = step
		}
	}
	if point == nil {
		return
	}
	before := c.template.Before(point.Name)
	for i, step := range c.template.Steps {
		path := document.Path{"steps"}.Index(i)
		switch {
		case slices.Contains(before, step.Name):
		case len(step.Compensate) > 0:
			c.fail(path.With("compensate"), "undoes a step that does not end before step %q, the point of no return: from "+
				"there on nothing is undone", point.Name)
		case step.Approval != nil:
			c.fail(path, "waits for an approval that does not come before step %q, the point of no return: from there on "+
				"nobody can say no", point.Name)
		}
	}
}

// references checks the names of other steps.
func (c checker) references(path document.Path, step *Step, later []Step) {
	for i, need := range step.Needs {
		switch _, ok := c.template.Step(need); {
		case !ok:
			c.fail(path.With("needs").Index(i), "names the step %q, which is not there", need)
		case c.template.Compensates(need):
			c.fail(path.With("needs").Index(i), "names the step %q, which is taken only to compensate", need)
		case c.template.Finally(need) && !step.Finally:
			c.fail(path.With("needs").Index(i), "names the step %q, which is taken finally, once all others have ended", need)
		}
	}
	for i, name := range step.Compensate {
		if !slices.ContainsFunc(later, func(s Step) bool { return s.Name == name }) {
			c.fail(path.With("compensate").Index(i), "names the step %q, which does not stand after this one", name)
		}
	}
	if step.Finally && (c.template.Compensates(step.Name) || len(step.Compensate) > 0 || step.Commits != "" ||
		step.Approval != nil) {
		c.fail(path, "is taken finally: it can neither compensate nor be compensated, and have neither commits nor an "+
			"approval")
	}
	if c.template.Compensates(step.Name) && (len(step.Needs) > 0 || len(step.Compensate) > 0 || step.Approval != nil) {
		c.fail(path, "is taken to compensate: it can have no needs, no compensate and no approval")
	}
}

func (c checker) agent(path document.Path, step *AgentStep) {
	switch {
	case (step.Call == "") == (step.Action == ""):
		c.fail(path, "must have exactly one of call and action")
	case step.Action == "" && len(step.Parameters) > 0:
		c.fail(path.With("parameters"), "are for an action")
	case (step.Call == AgentSignal) != (step.Signal != ""):
		c.fail(path, "must have a signal for the call Signal, and for no other")
	case step.Pods != "" && step.Pod != "":
		c.fail(path, "must have at most one of pods and pod")
	}
	for i := range c.scope.Components {
		component := &c.scope.Components[i]
		switch {
		case step.Call == AgentReload && !component.Reloads:
			c.fail(path[:len(path)-1], "calls Reload, and component %q has no process.reload", component.Name)
		case step.Action != "":
			c.action(path, step, component)
		}
	}
}

func (c checker) action(path document.Path, step *AgentStep, component *Component) {
	i := slices.IndexFunc(component.Actions, func(a plan.Action) bool { return a.Name == step.Action })
	if i < 0 {
		var known []string
		for _, action := range component.Actions {
			known = append(known, action.Name)
		}
		c.fail(path.With("action"), "names the action %q, which component %q has not: it has %s; name the components that "+
			"have it in targets", step.Action, component.Name, strings.Join(known, ", "))
		return
	}
	action := &component.Actions[i]
	for _, name := range slices.Sorted(maps.Keys(step.Parameters)) {
		if _, ok := action.Parameters[name]; !ok {
			c.fail(path.With("parameters").With(name), "is no parameter of action %q: it takes %s", action.Name,
				cmp.Or(strings.Join(slices.Sorted(maps.Keys(action.Parameters)), ", "), "none"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(action.Parameters)) {
		if _, ok := step.Parameters[name]; !ok {
			c.fail(path, "lacks the parameter %q, which action %q takes: add it", name, action.Name)
		}
	}
}

func (c checker) engine(path document.Path, step *EngineStep) {
	if step.Do.OnlyEngine() && len(c.scope.Components) > 0 {
		c.fail(path.With("do"), "is %s, which is for the engine's own templates: a template of a plugin acts on an "+
			"instance that is there, with the volumes that it has", step.Do)
	}
	known := EngineValues[step.Do]
	for _, name := range slices.Sorted(maps.Keys(step.With)) {
		if !slices.Contains(known, name) {
			c.fail(path.With("with").With(name), "is no value that %s takes: it takes %s", step.Do,
				cmp.Or(strings.Join(known, ", "), "none"))
		}
	}
}

// ActsOn says whether an Operation of the template can act on a component.
func (t *Template) ActsOn(component string) bool {
	return len(t.Targets) == 0 || slices.Contains(t.Targets, component)
}

// CheckParameters returns the values of the parameters, defaults included; the error is a sentence that names what is
// wrong.
func (t *Template) CheckParameters(given map[string]string) (map[string]string, error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := t.Parameters[name]; !ok {
			return nil, fmt.Errorf("template %q has no parameter %q: it takes %s", t.Name, name,
				cmp.Or(strings.Join(slices.Sorted(maps.Keys(t.Parameters)), ", "), "none"))
		}
	}
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(t.Parameters)) {
		p := t.Parameters[name]
		value, ok := given[name]
		switch {
		case ok:
			if err := constraint.CheckText(p.Schema, value); err != nil {
				return nil, fmt.Errorf("parameter %q of template %q %w", name, t.Name, err)
			}
			values[name] = value
		case p.Default != nil:
			values[name] = *p.Default
		default:
			return nil, fmt.Errorf("parameter %q of template %q is missing%s", name, t.Name, described(p))
		}
	}
	return values, nil
}

func described(p Parameter) string {
	if p.Description == "" {
		return ""
	}
	return ": " + p.Description
}
