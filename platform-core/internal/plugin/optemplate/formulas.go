// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// formulaKey names a text or an expression of a step; the step is empty for a precondition.
type formulaKey struct {
	step, source string
	expression   bool
}

// resultStep is the step of outputs of the template. No step has this name.
const resultStep = "/"

// Variables of expressions in templates.
const (
	variableParameters = "parameters"
	variableTarget     = "target"
	variableSteps      = "steps"
	variableTasks      = "tasks"
	variableEach       = "each"
	variableObject     = "object"
	variableResponse   = "response"
)

// targetShape is what expressions see of the target.
var targetShape = placeholder.Fields(map[string]placeholder.Shape{
	"kind": placeholder.TextShape, "name": placeholder.TextShape, "namespace": placeholder.TextShape,
	"application": placeholder.TextShape, "component": placeholder.TextShape,
	"version": placeholder.TextShape, "topology": placeholder.TextShape, "members": placeholder.TextShape,
	"pods": placeholder.IntShape, "writers": placeholder.IntShape, "healthy": placeholder.IntShape,
	"following": placeholder.IntShape,
	"amiss":     placeholder.TextShape,
})

// StepVariable is the name of a step in expressions.
func StepVariable(step string) string { return strings.ReplaceAll(step, "-", "_") }

// formulaCompiler compiles what a template says in CEL and notes every error.
type formulaCompiler struct {
	template *Template
	// outputs of a step with their types, as far as its expressions do not say them.
	outputs func(*Step) outputTypes
	// tasks says that steps have this name in expressions as well.
	tasks bool
	fail  func(path document.Path, format string, args ...any)
}

func (c formulaCompiler) compile() {
	c.template.formulas, c.template.outputs = map[formulaKey]*placeholder.Formula{}, map[string]outputTypes{}
	c.template.lists = map[string][]string{}
	if language := c.language(nil); language != nil {
		for i, p := range c.template.Preconditions {
			path := document.Path{"preconditions"}.Index(i)
			c.expression(language, path.With("rule"), "", p.Rule, placeholder.Bool)
			c.text(language.Text, path.With("message"), "", p.Message)
		}
	}
	// A step sees the outputs of those before it: their types are known when its turn comes.
	for _, name := range c.template.Order() {
		i := slices.IndexFunc(c.template.Steps, func(s Step) bool { return s.Name == name })
		c.template.outputs[name] = c.outputs(&c.template.Steps[i])
		c.step(document.Path{"steps"}.Index(i), &c.template.Steps[i])
	}
	c.results()
}

// results compiles the outputs of the template. Each has the type of its expression.
func (c formulaCompiler) results() {
	c.template.results = outputTypes{}
	if len(c.template.Outputs) == 0 {
		return
	}
	language := c.languageOf(c.after(c.template.OnTheWay()))
	if language == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.template.Outputs)) {
		source := c.template.Outputs[name]
		formula, kind, err := language.Typed(source, anyKind...)
		if err != nil {
			c.fail(document.Path{"outputs"}.With(name), "is not a valid expression: %v", err)
			continue
		}
		c.template.results[name] = ofKind[kind]
		c.template.formulas[formulaKey{resultStep, source, true}] = formula
	}
}

// language is what a step sees: what has ended for certain when it begins.
func (c formulaCompiler) language(step *Step) *placeholder.Language {
	return c.languageWith(step, nil)
}

// languageWith is the language of a step with more variables.
func (c formulaCompiler) languageWith(step *Step, more map[string]placeholder.Shape) *placeholder.Language {
	if step == nil {
		return c.languageOf(more)
	}
	variables := c.after(c.template.Before(step.Name))
	maps.Copy(variables, more)
	if step.ForEach != "" {
		variables[variableEach] = placeholder.TextShape
	}
	if step.Wait != nil {
		variables[variableObject] = placeholder.AnyShape
	}
	return c.languageOf(variables)
}

// after has the steps that have ended as variables.
func (c formulaCompiler) after(names []string) map[string]placeholder.Shape {
	steps := map[string]placeholder.Shape{}
	for _, name := range names {
		outputs := map[string]placeholder.Shape{}
		for output, kind := range c.template.outputs[name] {
			outputs[output] = shapes[kind]
		}
		steps[StepVariable(name)] = placeholder.Fields(map[string]placeholder.Shape{
			"phase": placeholder.TextShape, "outputs": placeholder.Fields(outputs)})
	}
	variables := map[string]placeholder.Shape{variableSteps: placeholder.Fields(steps)}
	if c.tasks {
		variables[variableTasks] = variables[variableSteps]
	}
	return variables
}

// languageOf is the language with parameters, the target and more variables.
func (c formulaCompiler) languageOf(more map[string]placeholder.Shape) *placeholder.Language {
	parameters := map[string]placeholder.Shape{}
	for name := range c.template.Parameters {
		parameters[name] = placeholder.TextShape
	}
	variables := map[string]placeholder.Shape{variableParameters: placeholder.Fields(parameters),
		variableTarget: targetShape}
	maps.Copy(variables, more)
	language, err := placeholder.NewLanguage(variables)
	if err != nil {
		c.fail(document.Path{"steps"}, "%v", err)
		return nil
	}
	return language
}

func (c formulaCompiler) step(path document.Path, s *Step) {
	language := c.language(s)
	if language == nil {
		return
	}
	if s.When != "" {
		c.expression(language, path.With("when"), s.Name, s.When, placeholder.Bool)
	}
	if list, literal := literalList(s.ForEach); literal {
		c.template.lists[s.Name] = list
	} else if s.ForEach != "" {
		c.expression(language, path.With("forEach"), s.Name, s.ForEach, placeholder.List)
	}
	for at, text := range s.texts() {
		within, compile := strings.Split(at, "\x00"), language.Text
		if within[1] == "content" && !s.object(within[0]).TextAt(within[2:]) {
			compile = language.Leaf
		}
		c.text(compile, append(path[:len(path):len(path)], within...), s.Name, text)
	}
	if s.Wait != nil {
		c.expression(language, path.With("wait").With("until"), s.Name, s.Wait.Until, placeholder.Bool)
		if s.Wait.Fail != "" {
			c.expression(language, path.With("wait").With("fail"), s.Name, s.Wait.Fail, placeholder.Bool)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Wait.Outputs)) {
			c.output(language, path.With("wait").With("outputs").With(name), s, name, s.Wait.Outputs[name])
		}
	}
	if s.HTTP != nil {
		c.http(path, s)
	}
}

// literalList reads a list of texts in JSON, which is taken as it is and may be longer than an expression.
func literalList(source string) ([]string, bool) {
	var list []string
	if !strings.HasPrefix(source, "[") || json.Unmarshal([]byte(source), &list) != nil {
		return nil, false
	}
	return list, true
}

// output compiles the expression of an output of a wait or of a call. Where no type is declared, it is that of the
// expression.
func (c formulaCompiler) output(language *placeholder.Language, path document.Path, s *Step, name,
	source string) {
	declared, ok := s.Types[name]
	wanted := anyKind
	if ok {
		wanted = kinds[declared]
	}
	formula, kind, err := language.Typed(source, wanted...)
	switch {
	case err != nil && ok:
		c.fail(path, "is declared as %s, and its expression does not fit: %v", declared, err)
		return
	case err != nil:
		c.fail(path, "is not a valid expression: %v", err)
		return
	case !ok:
		c.template.outputs[s.Name][name] = ofKind[kind]
	}
	c.template.formulas[formulaKey{s.Name, source, true}] = formula
}

func (c formulaCompiler) expression(language *placeholder.Language, path document.Path, step, source string,
	kind placeholder.Kind) {
	formula, err := language.Expression(source, kind)
	if err != nil {
		c.fail(path, "is not a valid expression: %v", err)
		return
	}
	c.template.formulas[formulaKey{step, source, true}] = formula
}

func (c formulaCompiler) text(compile func(string) (*placeholder.Formula, error), path document.Path, step,
	source string) {
	if !placeholder.In(source) {
		return
	}
	formula, err := compile(source)
	if err != nil {
		c.fail(path, "%v", err)
		return
	}
	c.template.formulas[formulaKey{step, source, false}] = formula
}

// texts are all that may hold placeholders, by path within the step, whose keys are joined by NUL.
func (s *Step) texts() map[string]string {
	texts := map[string]string{}
	add := func(text string, path ...string) { texts[document.Path(path).Key()] = text }
	each := func(values map[string]string, path ...string) {
		for name, text := range values {
			add(text, append(slices.Clone(path), name)...)
		}
	}
	switch {
	case s.Agent != nil:
		each(s.Agent.Parameters, "agent", "parameters")
		add(s.Agent.Pod, "agent", "pod")
	case s.Engine != nil:
		each(s.Engine.With, "engine", "with")
	case s.Wait != nil:
		add(s.Wait.Name, "wait", "name")
	case s.Operation != nil:
		each(s.Operation.Parameters, "operation", "parameters")
	case s.Approval != nil:
		add(s.Approval.Message, "approval", "message")
	case s.Job != nil:
		for i, word := range s.Job.Command {
			add(word, document.Path{"job", "command"}.Index(i)...)
		}
		for i, env := range s.Job.Env {
			add(env.Value, document.Path{"job", "env"}.Index(i).With("value")...)
		}
		s.Job.Resources.texts(func(text string, path ...string) {
			add(text, append([]string{"job", "resources"}, path...)...)
		})
	}
	switch {
	case s.Task() != nil:
		s.taskTexts(add)
	case s.HTTP != nil:
		s.HTTP.httpTexts(add)
	}
	for _, name := range []string{"apply", "patch", "delete"} {
		if step := s.object(name); step != nil {
			add(step.Name, name, "name")
			content(step.Content, document.Path{name, "content"}, texts)
		}
	}
	return texts
}

// object is what a step applies, patches or deletes; nil when it does something else.
func (s *Step) object(verb string) *ObjectStep {
	return map[string]*ObjectStep{"apply": s.Apply, "patch": s.Patch, "delete": s.Delete}[verb]
}

// TextAt says whether the API has text alone at a path of the content, whatever a placeholder there gives: in labels
// and annotations, and in what ConfigMaps and Secrets hold.
func (o *ObjectStep) TextAt(path []string) bool {
	if n := len(path); n >= 3 && path[n-3] == "metadata" && (path[n-2] == "labels" || path[n-2] == "annotations") {
		return true
	}
	holds := o.APIVersion == "v1" && (o.Kind == "ConfigMap" || o.Kind == "Secret")
	return holds && len(path) == 2 && (path[0] == "data" || path[0] == "stringData" || path[0] == "binaryData")
}

// content collects the texts of a tree of maps and lists.
func content(value any, path document.Path, texts map[string]string) {
	switch node := value.(type) {
	case map[string]any:
		for key, child := range node {
			content(child, path.With(key), texts)
		}
	case []any:
		for i, child := range node {
			content(child, path.Index(i), texts)
		}
	case string:
		texts[path.Key()] = node
	}
}

// Text fills in the placeholders of a text of a step, or of the message of a precondition when step is empty.
func (t *Template) Text(step, source string, variables map[string]any) (string, error) {
	if !placeholder.In(source) {
		return source, nil
	}
	formula, err := t.formula(step, source, false)
	if err != nil {
		return "", err
	}
	return formula.Text(variables)
}

// Truth evaluates an expression of a step, or of a precondition when step is empty, that gives true or false.
func (t *Template) Truth(step, source string, variables map[string]any) (bool, error) {
	formula, err := t.formula(step, source, true)
	if err != nil {
		return false, err
	}
	return formula.Truth(variables)
}

// Texts evaluates the forEach of a step.
func (t *Template) Texts(step, source string, variables map[string]any) ([]string, error) {
	if list, literal := t.lists[step]; literal {
		return list, nil
	}
	formula, err := t.formula(step, source, true)
	if err != nil {
		return nil, err
	}
	return formula.Texts(variables)
}

// Leaf fills in a text of the content of a step that may be any value: one that is a single placeholder keeps the type
// of what it gives.
func (t *Template) Leaf(step, source string, variables map[string]any) (any, error) {
	if !placeholder.In(source) {
		return source, nil
	}
	formula, err := t.formula(step, source, false)
	if err != nil {
		return nil, err
	}
	return formula.Value(variables)
}

// Value evaluates the expression of an output of a step, in the form in which that is kept on record.
func (t *Template) Value(step, name, source string, variables map[string]any) (string, error) {
	formula, err := t.formula(step, source, true)
	if err != nil {
		return "", err
	}
	value, err := formula.Value(variables)
	if err != nil {
		return "", err
	}
	text, err := placeholder.FormatAny(value)
	if err != nil {
		return "", err
	}
	return t.RecordOutput(step, name, text)
}

// Result evaluates an output of the template, in the form in which it is kept on record.
func (t *Template) Result(name string, variables map[string]any) (string, error) {
	formula, err := t.formula(resultStep, t.Outputs[name], true)
	if err != nil {
		return "", err
	}
	value, err := formula.Value(variables)
	if err != nil {
		return "", err
	}
	return placeholder.FormatAny(value)
}

func (t *Template) formula(step, source string, expression bool) (*placeholder.Formula, error) {
	formula, ok := t.formulas[formulaKey{step, source, expression}]
	if !ok {
		return nil, fmt.Errorf("%q of step %q was not compiled", source, step)
	}
	return formula, nil
}
