// SPDX-License-Identifier: Apache-2.0

package taskgraph

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// CheckTemplate says why a Workflow cannot be the one that tasks are taken from; nil when it can. template is nil when
// it does not exist.
func CheckTemplate(ref batchv1.WorkflowTemplate, template *batchv1.Workflow) error {
	switch {
	case template == nil:
		return fmt.Errorf("there is no Workflow %q in this namespace", ref.Name)
	case template.Spec.TemplateFrom != nil:
		return fmt.Errorf("Workflow %q has its tasks from Workflow %q: name that one", ref.Name,
			template.Spec.TemplateFrom.Name)
	}
	return nil
}

// Prepare is the checked template of a run. library has the Workflows that its tasks run.
func Prepare(from Source, parallelism *int32, library Library, check func(string) error) (string, error) {
	if err := library.checkDepth(from.Tasks, []string{from.Name}, map[string]int{}); err != nil {
		return "", fmt.Errorf("spec.tasks: %w", err)
	}
	return compiler{library: library, check: check, texts: map[string]string{}}.prepare(from, parallelism)
}

// prepare is the checked template of one Workflow.
func (c compiler) prepare(from Source, parallelism *int32) (string, error) {
	if err := checkParameters(from.Parameters); err != nil {
		return "", err
	}
	text, err := c.compile(from, parallelism)
	if err != nil {
		return "", err
	}
	if err := c.check(text); err != nil {
		return "", located(err, from)
	}
	return text, nil
}

var (
	lineAt = regexp.MustCompile(`line \d+: `)
	stepAt = regexp.MustCompile(`steps\[(\d+)\]`)
	// outputAt and argumentAt are outputs of the template, and parameters of one that a step runs.
	outputAt = regexp.MustCompile(`(^|; )outputs\.`)
	// artifactsAt is where artifacts are kept.
	artifactsAt = regexp.MustCompile(`(^|; )artifacts([. ])`)
	argumentAt  = regexp.MustCompile(`\.operation\.parameters\.`)
)

// located has an error about a template name the path in the spec of the Workflow.
func located(err error, from Source) error {
	text := stepAt.ReplaceAllStringFunc(lineAt.ReplaceAllString(err.Error(), ""), func(at string) string {
		i, _ := strconv.Atoi(stepAt.FindStringSubmatch(at)[1])
		switch {
		case i < len(from.Tasks):
			return "spec.tasks[" + from.Tasks[i].Name + "]"
		case i < len(from.Tasks)+len(from.OnExit):
			return "spec.onExit[" + from.OnExit[i-len(from.Tasks)].Name + "]"
		}
		return at
	})
	text = artifactsAt.ReplaceAllString(text, "${1}spec.artifacts${2}")
	text = argumentAt.ReplaceAllString(outputAt.ReplaceAllString(text, "${1}spec.outputs."), ".workflow.arguments.")
	return errors.New(Said(text))
}

// Said is what an Operation says in the words of a Workflow.
func Said(text string) string {
	return strings.TrimSuffix(strings.ReplaceAll(text, "step \"", "task \""), ": ")
}
