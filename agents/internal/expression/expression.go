// SPDX-License-Identifier: Apache-2.0

// Package expression judges by CEL what a command of a plan did.
package expression

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"

	"github.com/zeroinfra/agents/internal/command"
)

const (
	// costLimit ends an expression that would use the processor for long: about a tenth of a second.
	costLimit = 1_000_000
	// maxLine is the longest line of output in a message, in characters.
	maxLine = 200
)

// Env is what expressions can look at.
type Env struct{ env *cel.Env }

// Probes have stdout, stderr, exitCode and fields.
func Probes() (Env, error) { return newEnv() }

// Actions have json, too: standard output read as JSON, or null when it is none.
func Actions() (Env, error) { return newEnv(cel.Variable("json", cel.DynType)) }

func newEnv(more ...cel.EnvOption) (Env, error) {
	env, err := cel.NewEnv(append(more,
		cel.Variable("stdout", cel.StringType),
		cel.Variable("stderr", cel.StringType),
		cel.Variable("exitCode", cel.IntType),
		cel.Variable("fields", cel.MapType(cel.StringType, cel.StringType)),
	)...)
	if err != nil {
		return Env{}, fmt.Errorf("cannot make the environment of the expressions: %w", err)
	}
	return Env{env}, nil
}

// Variables are what an expression of Probes and of Actions sees of a result.
func Variables(result command.Result) map[string]any {
	return map[string]any{
		"stdout": result.Stdout, "stderr": result.Stderr, "exitCode": int64(result.Exit.ShellCode()),
		"fields": fields(result.Stdout),
	}
}

// WithJSON adds what Actions see besides.
func WithJSON(vars map[string]any) map[string]any {
	var value any
	if err := json.Unmarshal([]byte(vars["stdout"].(string)), &value); err != nil {
		value = nil
	}
	vars["json"] = value
	return vars
}

// Expression gives a value of one type. It is compiled once, and safe for concurrent use.
type Expression[T bool | string] struct {
	name    string
	program cel.Program
}

// Compile checks and compiles an expression. The name is for messages.
func Compile[T bool | string](env Env, name, source string) (Expression[T], error) {
	var none T
	want := cel.StringType
	if _, ok := any(none).(bool); ok {
		want = cel.BoolType
	}
	ast, issues := env.env.Compile(source)
	if issues.Err() != nil {
		return Expression[T]{}, fmt.Errorf("cannot compile expression %s %q: %s", name, source,
			FirstLine(issues.Errors()[0].Message))
	}
	// What is read out of JSON shows its type only then.
	if got := ast.OutputType(); !got.IsExactType(want) && got.Kind() != cel.DynKind {
		return Expression[T]{}, fmt.Errorf("cannot compile expression %s %q: it gives %s, not %s", name, source,
			ast.OutputType(), want)
	}
	program, err := env.env.Program(ast, cel.CostLimit(costLimit))
	if err != nil {
		return Expression[T]{}, fmt.Errorf("cannot compile expression %s %q: %w", name, source, err)
	}
	return Expression[T]{name: name, program: program}, nil
}

// Evaluate returns the value, which has the type that Compile checked.
func (x Expression[T]) Evaluate(vars map[string]any) (T, error) {
	var none T
	value, _, err := x.program.Eval(vars)
	if err != nil {
		return none, fmt.Errorf("cannot evaluate expression %s: %s", x.name, FirstLine(err.Error()))
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

// WithOutput adds to a message the first line that the command said.
func WithOutput(message string, result command.Result) string {
	for _, output := range []string{result.Stderr, result.Stdout} {
		if line := FirstLine(output); line != "" {
			return message + ": " + line
		}
	}
	return message
}

// FirstLine is the first line that is not blank, as valid text of a bounded length.
func FirstLine(text string) string {
	for line := range strings.Lines(text) {
		line = strings.ToValidUTF8(strings.TrimSpace(line), "?")
		if line == "" {
			continue
		}
		if utf8.RuneCountInString(line) > maxLine {
			line = string([]rune(line)[:maxLine]) + "…"
		}
		return line
	}
	return ""
}
