// SPDX-License-Identifier: Apache-2.0

package taskgraph

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// Prepare is the checked template of a run.
func Prepare(from Source, parallelism *int32, check func(string) error) (string, error) {
	if err := checkParameters(from.Parameters); err != nil {
		return "", err
	}
	text, err := compile(from, parallelism)
	if err != nil {
		return "", err
	}
	if err := check(text); err != nil {
		return "", located(err, from)
	}
	return text, nil
}

var (
	lineAt = regexp.MustCompile(`line \d+: `)
	stepAt = regexp.MustCompile(`steps\[(\d+)\]`)
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
	return errors.New(Said(text))
}

// Said is what an Operation says in the words of a Workflow.
func Said(text string) string {
	return strings.TrimSuffix(strings.ReplaceAll(text, "step \"", "task \""), ": ")
}
