// SPDX-License-Identifier: Apache-2.0

package taskgraph

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const (
	// maxDepth is how many Workflows run each other, the first one included. The engine has the same limit.
	maxDepth = 4
	// maxTemplate is the longest template of an Operation, in bytes.
	maxTemplate = 262144
)

// nested is the template that a step runs.
type nested struct {
	Template   string            `json:"template"`
	Parameters map[string]string `json:"parameters,omitempty"`
}

// Library has the Workflows that tasks run, by name. One that does not exist is not in it.
type Library map[string]*batchv1.Workflow

// Collect reads the Workflows that tasks run, and those that these run. read returns nil for one that does not exist.
func Collect(tasks []batchv1.WorkflowTask, read func(name string) (*batchv1.Workflow, error)) (Library, error) {
	library, todo := Library{}, Uses(tasks)
	for range maxDepth {
		var next []string
		for _, name := range todo {
			if _, known := library[name]; known {
				continue
			}
			wf, err := read(name)
			if err != nil {
				return nil, fmt.Errorf("cannot read Workflow %q: %w", name, err)
			}
			if wf != nil {
				library[name] = wf
				next = append(next, Uses(wf.Spec.Tasks)...)
			}
		}
		todo = next
	}
	return library, nil
}

// Uses returns the names of the Workflows that tasks run, each once.
func Uses(tasks []batchv1.WorkflowTask) []string {
	var names []string
	for i := range tasks {
		if run := tasks[i].Workflow; run != nil && !slices.Contains(names, run.TemplateFrom.Name) {
			names = append(names, run.TemplateFrom.Name)
		}
	}
	return names
}

// Approves says whether a Workflow of the library has an approval, by name; empty for none.
func (l Library) Approves() string {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if slices.ContainsFunc(l[name].Spec.Tasks, func(t batchv1.WorkflowTask) bool { return t.Approval != nil }) {
			return name
		}
	}
	return ""
}

// checkDepth says which Workflows run each other in a cycle, or are too many deep; nil for none. path are those on the
// way to the tasks, and deepest is how deep each was looked at.
func (l Library) checkDepth(tasks []batchv1.WorkflowTask, path []string, deepest map[string]int) error {
	for i := range tasks {
		run := tasks[i].Workflow
		if run == nil {
			continue
		}
		name := run.TemplateFrom.Name
		way := append(slices.Clone(path), name)
		switch at := slices.Index(path, name); {
		case at >= 0:
			return fmt.Errorf("Workflows run each other in a cycle: %s", strings.Join(way[at:], " runs "))
		case len(way) > maxDepth:
			return fmt.Errorf("Workflows run each other too deep: %s; at most %d are allowed", strings.Join(way, " runs "),
				maxDepth)
		case l[name] == nil || deepest[name] >= len(way):
			continue
		}
		deepest[name] = len(way)
		if err := l.checkDepth(l[name].Spec.Tasks, way, deepest); err != nil {
			return err
		}
	}
	return nil
}

// compiler makes templates.
type compiler struct {
	library Library
	check   func(text string) error
	// texts are the templates that were made, by Workflow and parallelism.
	texts map[string]string
}

// nested is what a task runs.
func (c compiler) nested(run *batchv1.NestedRun) (*nested, error) {
	name := run.TemplateFrom.Name
	wf := c.library[name]
	if err := CheckTemplate(run.TemplateFrom, wf); err != nil {
		return nil, fmt.Errorf("workflow.templateFrom: %w", err)
	}
	if !wf.Spec.TemplateOnly {
		return nil, fmt.Errorf("workflow.templateFrom: Workflow %q is a run: name one with templateOnly", name)
	}
	if err := checkCall(wf.Spec.Parameters, run.Arguments); err != nil {
		return nil, fmt.Errorf("workflow.arguments%w", err)
	}
	key := name
	if run.Parallelism != nil {
		key = fmt.Sprintf("%s/%d", name, *run.Parallelism)
	}
	text, made := c.texts[key]
	if !made {
		var err error
		if text, err = c.prepare(SourceOf(wf), run.Parallelism); err != nil {
			return nil, fmt.Errorf("workflow: Workflow %q cannot be run: %w", name, err)
		}
		c.texts[key] = text
	}
	parameters := make(map[string]string, len(run.Arguments))
	for parameter, value := range run.Arguments {
		parameters[parameter] = string(value)
	}
	return &nested{Template: text, Parameters: parameters}, nil
}

// checkCall says what is wrong with the arguments of a task; nil for nothing. Values with placeholders are known later.
func checkCall(parameters []batchv1.WorkflowParameter, arguments map[string]batchv1.Argument) error {
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		i := slices.IndexFunc(parameters, func(p batchv1.WorkflowParameter) bool { return p.Name == name })
		if i < 0 {
			return fmt.Errorf("[%s]: there is no such parameter: there are %s", name, namesOf(parameters))
		}
		if strings.Contains(string(arguments[name]), "${") {
			continue
		}
		if err := checkValue(parameters[i], string(arguments[name])); err != nil {
			return fmt.Errorf("[%s] %w", name, err)
		}
	}
	for _, p := range parameters {
		if _, given := arguments[p.Name]; !given && p.Default == nil {
			return fmt.Errorf(": parameter %q has no default and needs an argument", p.Name)
		}
	}
	return nil
}
