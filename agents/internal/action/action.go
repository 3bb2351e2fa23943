// SPDX-License-Identifier: Apache-2.0

// Package action runs the actions of a plan: each call once, whatever becomes of the caller or of the container.
package action

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zeroinfra/agents/internal/expression"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// maxParameter is the longest value of a parameter, in bytes.
const maxParameter = 4096

// defaultSuccess is what plan.Action promises.
const defaultSuccess = "exitCode == 0"

// Errors that a caller gets to see, beside those of package callrecord.
var (
	// ErrUnknown says that the plan has no such action.
	ErrUnknown = errors.New("the plugin declares no such action")
	// ErrParameters says that the parameters are not those that the action takes.
	ErrParameters = errors.New("the parameters do not fit")
	// ErrBusy says that enough actions run already.
	ErrBusy = errors.New("too many actions run already: try again when one has ended")
	// ErrPlan says that there is no plan, or one that cannot be used.
	ErrPlan = errors.New("no action can be run")
)

// compiled is an action ready to be run with parameters.
type compiled struct {
	*plan.Action
	success expression.Expression[bool]
	outputs map[string]expression.Expression[string]
}

func compile(a *plan.Action) (*compiled, error) {
	env, err := expression.Actions()
	if err != nil {
		return nil, err
	}
	source := a.Success
	if source == "" {
		source = defaultSuccess
	}
	c := &compiled{Action: a, outputs: map[string]expression.Expression[string]{}}
	if c.success, err = expression.Compile[bool](env, "success", source); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(a.Outputs)) {
		path := fmt.Sprintf("outputs[%q]", name)
		if c.outputs[name], err = expression.Compile[string](env, path, a.Outputs[name]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// check refuses parameters that the action does not take, lacks, or that could be read as something else.
func check(a *plan.Action, parameters map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(a.Parameters)) {
		if _, given := parameters[name]; !given {
			return fmt.Errorf("%w: %q is missing", ErrParameters, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		value := parameters[name]
		switch _, declared := a.Parameters[name]; {
		case !declared:
			return fmt.Errorf("%w: action %q has no parameter %q", ErrParameters, a.Name, name)
		case len(value) > maxParameter:
			return fmt.Errorf("%w: %q has %d bytes: at most %d are allowed", ErrParameters, name, len(value), maxParameter)
		case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			return fmt.Errorf("%w: %q is no text", ErrParameters, name)
		case strings.HasPrefix(value, "-") && isWord(a.Command, name):
			return fmt.Errorf("%w: %q begins with a dash, and the command would take it as an option", ErrParameters, name)
		}
	}
	return nil
}

// isWord says whether a parameter is a word of the command.
func isWord(command []string, parameter string) bool {
	return slices.ContainsFunc(command, func(word string) bool {
		name, ok := plan.ParameterOf(word)
		return ok && name == parameter
	})
}
