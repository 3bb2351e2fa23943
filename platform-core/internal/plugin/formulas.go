// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
)

// formulas of failovers that were used before.
var formulas compiled

// compiled expressions over a candidate, by their source. There are as many as plugins declare.
type compiled struct{ programs sync.Map }

func (c *compiled) program(source string) (cel.Program, error) {
	if known, found := c.programs.Load(source); found {
		return known.(cel.Program), nil
	}
	checked, issues := orderEnvironment().Compile(source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("expression %q: %w", source, issues.Err())
	}
	program, err := orderEnvironment().Program(checked, cel.CostLimit(formulaCost))
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", source, err)
	}
	c.programs.Store(source, program)
	return program, nil
}

// formulaCost limits what an expression may compute.
const formulaCost = 100_000

func (c *compiled) eval(source, role string, attributes map[string]string) (any, error) {
	program, err := c.program(source)
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

func (c *compiled) number(source, role string, attributes map[string]string) (int64, error) {
	value, err := c.eval(source, role, attributes)
	if err != nil {
		return 0, err
	}
	number, ok := value.(int64)
	if !ok {
		return 0, fmt.Errorf("expression %q gives %T: it must give a whole number", source, value)
	}
	return number, nil
}
