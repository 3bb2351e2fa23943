// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/constraint"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// operationFile is a "<Name>.yaml" of the operations part as it was read.
type operationFile struct {
	OperationTemplate
	key      string
	document *document.Document
	// origin of the template; the zero value is a plugin.
	origin templateOrigin
	// depth of an inline template, 1 for that of the Operation.
	depth int
}

func (l *loader) loadOperations() {
	data := l.part(PartOperations)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name, ok := strings.CutSuffix(key, ".yaml")
		if !ok {
			l.fail(PartOperations, key, 0, "the key is not known: this part has keys <Name>.yaml")
			continue
		}
		doc := l.parse(PartOperations, key, data[key])
		if doc == nil {
			continue
		}
		file := operationFile{key: key, document: doc}
		if !l.decode(PartOperations, key, doc, "#Operation", &file.OperationTemplate, operationLeaf) {
			continue
		}
		if file.Name != name {
			l.fail(PartOperations, key, doc.Line(document.Path{"name"}), "name is %q: it must be %q as in the key", file.Name,
				name)
		}
		l.operations[name] = file
	}
}

// operationLeaf refuses placeholders but in the values of steps and the messages of preconditions, which are checked
// when all of the template is known.
func operationLeaf(path document.Path, text string, _ reflect.Kind) (bool, error) {
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
	return false, refusePlaceholder(text)
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

// ParseOperation reads a template that belongs to no plugin: it can act on every component. The error names each line
// that is wrong.
func ParseOperation(text string) (OperationTemplate, error) {
	template, errs := parseOperation(text, ofEngine, 0)
	if len(errs) > 0 {
		return template, errs[0]
	}
	return template, nil
}

// parseOperation reads a template that belongs to no plugin, and returns all that is wrong with it. depth is for an
// inline one.
func parseOperation(text string, origin templateOrigin, depth int) (OperationTemplate, []LoadError) {
	l := &loader{sources: map[Part]Source{}}
	doc := l.parse(PartOperations, "", text)
	var template OperationTemplate
	if doc != nil && l.decode(PartOperations, "", doc, "#Operation", &template, operationLeaf) {
		l.checkOperation(&operationFile{OperationTemplate: template, document: doc, origin: origin, depth: depth}, &template)
	}
	return template, l.errs
}

func (l *loader) checkOperations() {
	for _, name := range slices.Sorted(maps.Keys(l.operations)) {
		file := l.operations[name]
		l.checkOperation(&file, &file.OperationTemplate)
		l.operations[name] = file
	}
	for _, name := range slices.Sorted(maps.Keys(l.operations)) {
		file := l.operations[name]
		if circle := l.circle(name, nil); circle != "" {
			l.fail(PartOperations, file.key, file.document.Line(document.Path{"steps"}), "runs itself: %s", circle)
		}
	}
}

// circle says which templates run each other in a circle.
func (l *loader) circle(name string, above []string) string {
	above = append(slices.Clone(above), name)
	for _, step := range l.operations[name].Steps {
		switch {
		case step.Operation == nil:
		case step.Operation.TemplateRef == above[0]:
			return strings.Join(append(above, above[0]), " runs ")
		case !slices.Contains(above, step.Operation.TemplateRef):
			if circle := l.circle(step.Operation.TemplateRef, above); circle != "" {
				return circle
			}
		}
	}
	return ""
}

// operationCheck checks one template; components are those that it can act on.
type operationCheck struct {
	template   *OperationTemplate
	origin     templateOrigin
	depth      int
	components []Component
	// supplied are the names of credentials that are not always there.
	supplied []string
	fail     func(path document.Path, format string, args ...any)
}

func (l *loader) checkOperation(file *operationFile, template *OperationTemplate) {
	check := operationCheck{template: template, origin: file.origin, depth: file.depth,
		fail: func(path document.Path, format string, args ...any) {
			l.fail(PartOperations, file.key, file.document.Line(path), "%s %s", path, fmt.Sprintf(format, args...))
		}}
	for _, c := range l.components.Credentials {
		if c.Supplied {
			check.supplied = append(check.supplied, c.Name)
		}
	}
	known := names(l.components.Components.Components, func(c Component) string { return c.Name })
	for i, target := range template.Targets {
		if !slices.Contains(known, target) {
			check.fail(document.Path{"targets"}.Index(i), "names the component %q, which is not there", target)
		}
	}
	topologies := names(l.components.Topologies, func(t Topology) string { return t.Name })
	for i, topology := range template.Topologies {
		if !slices.Contains(topologies, topology) {
			check.fail(document.Path{"topologies"}.Index(i), "names the topology %q, which is not there", topology)
		}
	}
	for _, c := range l.components.Components.Components {
		if template.acts(c.Name) {
			check.components = append(check.components, c)
		}
	}
	before := len(l.errs)
	if template.Timeout != "" && template.Timeout.Duration() <= 0 {
		check.fail(document.Path{"timeout"}, "is %s: it must be greater than 0 and at most 2562047h", template.Timeout)
	}
	if file.origin == inline {
		check.inline()
	}
	check.parameters()
	check.results()
	check.steps()
	if len(l.errs) == before {
		formulaCompiler{template: template, outputs: check.outputs, tasks: file.origin == inline, fail: check.fail}.compile()
	}
}

func (c operationCheck) parameters() {
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

func (c operationCheck) steps() {
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
	}
	c.point()
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
func (c operationCheck) point() {
	var point *OperationStep
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
func (c operationCheck) references(path document.Path, step *OperationStep, later []OperationStep) {
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
		if !slices.ContainsFunc(later, func(s OperationStep) bool { return s.Name == name }) {
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

func (c operationCheck) agent(path document.Path, step *AgentStep) {
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
	for i := range c.components {
		component := &c.components[i]
		switch {
		case step.Call == AgentReload && component.Process.Reload == nil:
			c.fail(path[:len(path)-1], "calls Reload, and component %q has no process.reload", component.Name)
		case step.Action != "":
			c.action(path, step, component)
		}
	}
}

func (c operationCheck) action(path document.Path, step *AgentStep, component *Component) {
	i := slices.IndexFunc(component.Actions, func(a plan.Action) bool { return a.Name == step.Action })
	if i < 0 {
		c.fail(path.With("action"), "names the action %q, which component %q has not: it has %s; name the components that "+
			"have it in targets", step.Action,
			component.Name, strings.Join(names(component.Actions, func(a plan.Action) string { return a.Name }), ", "))
		return
	}
	action := &component.Actions[i]
	for _, name := range slices.Sorted(maps.Keys(step.Parameters)) {
		if _, ok := action.Parameters[name]; !ok {
			c.fail(path.With("parameters").With(name), "is no parameter of action %q: it takes %s", action.Name,
				parameterNames(action))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(action.Parameters)) {
		if _, ok := step.Parameters[name]; !ok {
			c.fail(path, "lacks the parameter %q, which action %q takes: add it", name, action.Name)
		}
	}
}

func (c operationCheck) engine(path document.Path, step *EngineStep) {
	if step.Do.OnlyEngine() && len(c.components) > 0 {
		c.fail(path.With("do"), "is %s, which is for the engine's own templates: a template of a plugin acts on an "+
			"instance that is there, with the volumes that it has", step.Do)
	}
	known := EngineValues[step.Do]
	for _, name := range slices.Sorted(maps.Keys(step.With)) {
		if !slices.Contains(known, name) {
			c.fail(path.With("with").With(name), "is no value that %s takes: it takes %s", step.Do,
				cmpNone(strings.Join(known, ", ")))
		}
	}
}

func cmpNone(list string) string {
	if list == "" {
		return "none"
	}
	return list
}

// acts says whether an Operation can act on a component.
func (t *OperationTemplate) acts(component string) bool {
	return len(t.Targets) == 0 || slices.Contains(t.Targets, component)
}

// CheckParameters returns the values of the parameters, defaults included; the error is a sentence that names what is
// wrong.
func (t *OperationTemplate) CheckParameters(given map[string]string) (map[string]string, error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := t.Parameters[name]; !ok {
			return nil, fmt.Errorf("template %q has no parameter %q: it takes %s", t.Name, name,
				cmpNone(strings.Join(slices.Sorted(maps.Keys(t.Parameters)), ", ")))
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

func described(p OperationParameter) string {
	if p.Description == "" {
		return ""
	}
	return ": " + p.Description
}
