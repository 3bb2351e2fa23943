// SPDX-License-Identifier: Apache-2.0

package plugin

import (
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

// Variables of expressions in templates.
const (
	variableParameters = "parameters"
	variableTarget     = "target"
	variableSteps      = "steps"
	variableEach       = "each"
	variableObject     = "object"
)

// targetShape is what expressions see of the target.
var targetShape = placeholder.Fields(map[string]placeholder.Shape{
	"kind": placeholder.TextShape, "name": placeholder.TextShape, "namespace": placeholder.TextShape,
	"application": placeholder.TextShape, "component": placeholder.TextShape,
	"version": placeholder.TextShape, "topology": placeholder.TextShape, "members": placeholder.TextShape,
	"pods": placeholder.IntShape, "writers": placeholder.IntShape,
})

// StepVariable is the name of a step in expressions.
func StepVariable(step string) string { return strings.ReplaceAll(step, "-", "_") }

// formulaCompiler compiles what a template says in CEL and notes every error.
type formulaCompiler struct {
	template *OperationTemplate
	// outputs of a step, by name.
	outputs func(*OperationStep) []string
	fail    func(path document.Path, format string, args ...any)
}

func (c formulaCompiler) compile() {
	c.template.formulas = map[formulaKey]*placeholder.Formula{}
	if language := c.language(nil); language != nil {
		for i, p := range c.template.Preconditions {
			c.expression(language, document.Path{"preconditions"}.Index(i).With("rule"), "", p.Rule, placeholder.Bool)
		}
	}
	for i := range c.template.Steps {
		c.step(document.Path{"steps"}.Index(i), &c.template.Steps[i])
	}
}

// language is what a step sees: what has ended for certain when it begins.
func (c formulaCompiler) language(step *OperationStep) *placeholder.Language {
	parameters := map[string]placeholder.Shape{}
	for name := range c.template.Parameters {
		parameters[name] = placeholder.TextShape
	}
	variables := map[string]placeholder.Shape{variableParameters: placeholder.Fields(parameters), variableTarget: targetShape}
	if step != nil {
		steps := map[string]placeholder.Shape{}
		for _, name := range c.template.Before(step.Name) {
			before, ok := c.template.Step(name)
			if !ok {
				continue
			}
			outputs := map[string]placeholder.Shape{}
			for _, output := range c.outputs(before) {
				outputs[output] = placeholder.TextShape
			}
			steps[StepVariable(name)] = placeholder.Fields(map[string]placeholder.Shape{
				"phase": placeholder.TextShape, "outputs": placeholder.Fields(outputs)})
		}
		variables[variableSteps] = placeholder.Fields(steps)
		if step.ForEach != "" {
			variables[variableEach] = placeholder.TextShape
		}
		if step.Wait != nil {
			variables[variableObject] = placeholder.AnyShape
		}
	}
	language, err := placeholder.NewLanguage(variables)
	if err != nil {
		c.fail(document.Path{"steps"}, "%v", err)
		return nil
	}
	return language
}

func (c formulaCompiler) step(path document.Path, s *OperationStep) {
	language := c.language(s)
	if language == nil {
		return
	}
	if s.When != "" {
		c.expression(language, path.With("when"), s.Name, s.When, placeholder.Bool)
	}
	if s.ForEach != "" {
		c.expression(language, path.With("forEach"), s.Name, s.ForEach, placeholder.List)
	}
	for at, text := range s.texts() {
		c.text(language, append(path[:len(path):len(path)], strings.Split(at, "\x00")...), s.Name, text)
	}
	if s.Wait != nil {
		c.expression(language, path.With("wait").With("until"), s.Name, s.Wait.Until, placeholder.Bool)
		for _, name := range slices.Sorted(maps.Keys(s.Wait.Outputs)) {
			c.expression(language, path.With("wait").With("outputs").With(name), s.Name, s.Wait.Outputs[name], placeholder.Text)
		}
	}
}

func (c formulaCompiler) expression(language *placeholder.Language, path document.Path, step, source string, kind placeholder.Kind) {
	formula, err := language.Expression(source, kind)
	if err != nil {
		c.fail(path, "is not a valid expression: %v", err)
		return
	}
	c.template.formulas[formulaKey{step, source, true}] = formula
}

func (c formulaCompiler) text(language *placeholder.Language, path document.Path, step, source string) {
	if !placeholder.In(source) {
		return
	}
	formula, err := language.Text(source)
	if err != nil {
		c.fail(path, "%v", err)
		return
	}
	c.template.formulas[formulaKey{step, source, false}] = formula
}

// texts are all that may hold placeholders, by path within the step, whose keys are joined by NUL.
func (s *OperationStep) texts() map[string]string {
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
	}
	for name, step := range map[string]*ObjectStep{"apply": s.Apply, "patch": s.Patch, "delete": s.Delete} {
		if step != nil {
			add(step.Name, name, "name")
			content(step.Content, document.Path{name, "content"}, texts)
		}
	}
	return texts
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

// Text fills in the placeholders of a text of a step.
func (t *OperationTemplate) Text(step, source string, variables map[string]any) (string, error) {
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
func (t *OperationTemplate) Truth(step, source string, variables map[string]any) (bool, error) {
	formula, err := t.formula(step, source, true)
	if err != nil {
		return false, err
	}
	return formula.Truth(variables)
}

// Texts evaluates the forEach of a step.
func (t *OperationTemplate) Texts(step, source string, variables map[string]any) ([]string, error) {
	formula, err := t.formula(step, source, true)
	if err != nil {
		return nil, err
	}
	return formula.Texts(variables)
}

// Value evaluates an expression of a step that gives a text.
func (t *OperationTemplate) Value(step, source string, variables map[string]any) (string, error) {
	formula, err := t.formula(step, source, true)
	if err != nil {
		return "", err
	}
	return formula.Text(variables)
}

func (t *OperationTemplate) formula(step, source string, expression bool) (*placeholder.Formula, error) {
	formula, ok := t.formulas[formulaKey{step, source, expression}]
	if !ok {
		return nil, fmt.Errorf("%q of step %q was not compiled", source, step)
	}
	return formula, nil
}
