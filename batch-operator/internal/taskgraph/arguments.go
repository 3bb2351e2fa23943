// SPDX-License-Identifier: Apache-2.0

package taskgraph

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// CheckArguments says what is wrong with the arguments of a Workflow; nil for nothing. Templates have none.
func CheckArguments(parameters []batchv1.WorkflowParameter, arguments map[string]batchv1.Argument) error {
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		if !slices.ContainsFunc(parameters, func(p batchv1.WorkflowParameter) bool { return p.Name == name }) {
			return fmt.Errorf("spec.arguments[%s]: there is no such parameter: there are %s", name, namesOf(parameters))
		}
	}
	for _, p := range parameters {
		value, given := arguments[p.Name]
		if !given && p.Default == nil {
			return fmt.Errorf("spec.arguments: parameter %q has no default and needs an argument", p.Name)
		}
		if !given {
			continue
		}
		if err := checkValue(p, string(value)); err != nil {
			return fmt.Errorf("spec.arguments[%s] %w", p.Name, err)
		}
	}
	return nil
}

// checkParameters says what is wrong with the definitions of parameters; nil for nothing.
func checkParameters(parameters []batchv1.WorkflowParameter) error {
	for _, p := range parameters {
		if _, err := regexp.Compile(p.Pattern); err != nil {
			return fmt.Errorf("spec.parameters[%s].pattern is not a regular expression: %w", p.Name, err)
		}
		if p.Default == nil {
			continue
		}
		if err := checkValue(p, string(*p.Default)); err != nil {
			return fmt.Errorf("spec.parameters[%s].default %w", p.Name, err)
		}
	}
	return nil
}

// patterns of values by type.
var patterns = map[string]*regexp.Regexp{
	"int": regexp.MustCompile(`^-?[0-9]+$`), "number": regexp.MustCompile(`^-?[0-9]+([.][0-9]+)?$`),
	"bool": regexp.MustCompile(`^(true|false)$`),
}

func checkValue(p batchv1.WorkflowParameter, value string) error {
	if pattern := patterns[p.Type]; pattern != nil && !pattern.MatchString(value) {
		return fmt.Errorf("is %q: it must be of type %s", value, p.Type)
	}
	if p.Pattern == "" {
		return nil
	}
	pattern, err := regexp.Compile("^(?:" + p.Pattern + ")$")
	if err == nil && !pattern.MatchString(value) {
		return fmt.Errorf("is %q: it must match %s", value, p.Pattern)
	}
	return err
}

func namesOf(parameters []batchv1.WorkflowParameter) string {
	if len(parameters) == 0 {
		return "none"
	}
	names := make([]string, 0, len(parameters))
	for _, p := range parameters {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}
