// SPDX-License-Identifier: Apache-2.0

// Package reportexpr compiles and evaluates the CEL expressions of a plugin over what one pod reports: its role and its
// attributes. It is pure but for a cache of what it has compiled.
package reportexpr

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// maxCost limits what an expression may compute.
const maxCost = 100_000

// environment declares the variables of expressions.
var environment = sync.OnceValue(func() *cel.Env {
	env, err := cel.NewEnv(
		cel.Variable("role", cel.StringType),
		cel.Variable("attributes", cel.MapType(cel.StringType, cel.StringType)),
		ext.Strings(ext.StringsVersion(4)),
		ext.Math(),
	)
	if err != nil {
		// The variables are constants of this package.
		panic(fmt.Sprintf("cannot make the environment of expressions over reports: %v", err))
	}
	return env
})

// programs by source. There are as many as plugins declare.
var programs sync.Map

// Compile checks an expression. Known are role and attributes.
func Compile(source string) (*cel.Ast, *cel.Issues) { return environment().Compile(source) }

// Number evaluates an expression that gives a whole number.
func Number(source, role string, attributes map[string]string) (int64, error) {
	value, err := evaluate(source, role, attributes)
	if err != nil {
		return 0, err
	}
	number, ok := value.(int64)
	if !ok {
		return 0, fmt.Errorf("expression %q gives %T: it must give a whole number", source, value)
	}
	return number, nil
}

// Truth evaluates an expression that gives true or false.
func Truth(source, role string, attributes map[string]string) (bool, error) {
	value, err := evaluate(source, role, attributes)
	if err != nil {
		return false, err
	}
	truth, ok := value.(bool)
	if !ok {
		return false, fmt.Errorf("expression %q gives %T: it must give true or false", source, value)
	}
	return truth, nil
}

// Text evaluates an expression that gives text.
func Text(source, role string, attributes map[string]string) (string, error) {
	value, err := evaluate(source, role, attributes)
	if err != nil {
		return "", err
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("expression %q gives %T: it must give text", source, value)
	}
	return text, nil
}

func evaluate(source, role string, attributes map[string]string) (any, error) {
	program, err := programOf(source)
	if err != nil {
		return nil, err
	}
	if attributes == nil {
		attributes = map[string]string{}
	}
	out, _, err := program.Eval(map[string]any{"role": role, "attributes": attributes})
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", source, err)
	}
	return out.Value(), nil
}

func programOf(source string) (cel.Program, error) {
	if known, found := programs.Load(source); found {
		return known.(cel.Program), nil
	}
	checked, issues := Compile(source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("expression %q: %w", source, issues.Err())
	}
	program, err := environment().Program(checked, cel.CostLimit(maxCost))
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", source, err)
	}
	programs.Store(source, program)
	return program, nil
}
