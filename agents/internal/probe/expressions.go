// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// costLimit ends an expression that would use the processor for long: about a tenth of a second.
const costLimit = 1_000_000

// defaultHealthy is what plan.Probe promises.
const defaultHealthy = "exitCode == 0"

// Expressions are a probe's, compiled once.
type Expressions struct {
	healthy    expression
	role       *expression
	version    *expression
	attributes map[string]expression
}

// expression is one of them with its name in messages.
type expression struct {
	name    string
	program cel.Program
}

// Compile checks and compiles the expressions of a probe.
func Compile(p plan.Probe) (*Expressions, error) {
	env, err := cel.NewEnv(
		cel.Variable("stdout", cel.StringType),
		cel.Variable("stderr", cel.StringType),
		cel.Variable("exitCode", cel.IntType),
		cel.Variable("fields", cel.MapType(cel.StringType, cel.StringType)),
	)
	if err != nil {
		return nil, fmt.Errorf("cannot make the environment of the expressions: %w", err)
	}
	healthy := p.Healthy
	if healthy == "" {
		healthy = defaultHealthy
	}
	x := &Expressions{attributes: map[string]expression{}}
	if x.healthy, err = compile(env, "healthy", healthy, cel.BoolType); err != nil {
		return nil, err
	}
	if x.role, err = compileOptional(env, "role", p.Role); err != nil {
		return nil, err
	}
	if x.version, err = compileOptional(env, "version", p.Version); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(p.Attributes)) {
		if x.attributes[name], err = compile(env, fmt.Sprintf("attributes[%q]", name), p.Attributes[name], cel.StringType); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func compileOptional(env *cel.Env, name, source string) (*expression, error) {
	if source == "" {
		return nil, nil
	}
	x, err := compile(env, name, source, cel.StringType)
	if err != nil {
		return nil, err
	}
	return &x, nil
}

func compile(env *cel.Env, name, source string, want *cel.Type) (expression, error) {
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		return expression{}, fmt.Errorf("cannot compile expression %s %q: %s", name, source, firstLine(issues.Errors()[0].Message))
	}
	if !ast.OutputType().IsExactType(want) {
		return expression{}, fmt.Errorf("cannot compile expression %s %q: it gives %s, not %s", name, source, ast.OutputType(), want)
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit))
	if err != nil {
		return expression{}, fmt.Errorf("cannot compile expression %s %q: %w", name, source, err)
	}
	return expression{name: name, program: program}, nil
}

// evaluate returns the value, which has the type that compile checked.
func evaluate[T any](x expression, vars map[string]any) (T, error) {
	var none T
	value, _, err := x.program.Eval(vars)
	if err != nil {
		return none, fmt.Errorf("cannot evaluate expression %s: %s", x.name, firstLine(err.Error()))
	}
	typed, ok := value.Value().(T)
	if !ok {
		return none, fmt.Errorf("cannot evaluate expression %s: it gave %s", x.name, value.Type().TypeName())
	}
	return typed, nil
}

// fields reads the lines "key:value" and "key=value" of a command's output,
// whichever separator comes first, trimmed.
func fields(output string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(output) {
		at := strings.IndexAny(line, ":=")
		if at < 0 {
			continue
		}
		if key := strings.TrimSpace(line[:at]); key != "" {
			all[key] = strings.TrimSpace(line[at+1:])
		}
	}
	return all
}
