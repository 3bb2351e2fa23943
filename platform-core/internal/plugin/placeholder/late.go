// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
)

// programs keeps compiled expressions that are evaluated without their bundle: pods of all sets share a handful of
// them.
var programs = struct {
	sync.Mutex
	bySource map[expressionKey]cel.Program
}{bySource: map[expressionKey]cel.Program{}}

type expressionKey struct {
	scope  Scope
	source string
}

// ExpandPod fills in what waits for the pod, in every text of a tree of maps, lists and
// scalars such as encoding/json makes, in place, and returns the tree.
func ExpandPod(tree any, pod Pod) (any, error) {
	switch node := tree.(type) {
	case map[string]any:
		for key, child := range node {
			value, err := ExpandPod(child, pod)
			if err != nil {
				return nil, err
			}
			node[key] = value
		}
	case []any:
		for i, child := range node {
			value, err := ExpandPod(child, pod)
			if err != nil {
				return nil, err
			}
			node[i] = value
		}
	case string:
		if In(node) {
			return expandText(node, Late, map[string]any{"pod": pod})
		}
	}
	return tree, nil
}

// expandText always gives text: what waits for the pod is only allowed where the field is text.
func expandText(source string, scope Scope, bindings map[string]any) (string, error) {
	pieces, err := scan(source)
	if err != nil {
		return "", fmt.Errorf("cannot expand %q: %w", source, err)
	}
	out := ""
	for _, p := range pieces {
		if !p.expression {
			out += p.text
			continue
		}
		program, err := cachedProgram(p.text, scope)
		if err != nil {
			return "", err
		}
		value, err := segment{source: p.text, program: program, longest: maxTextLength}.eval(bindings)
		if err != nil {
			return "", err
		}
		out += text(value)
	}
	return out, nil
}

func cachedProgram(source string, scope Scope) (cel.Program, error) {
	programs.Lock()
	defer programs.Unlock()
	key := expressionKey{scope, source}
	if program, ok := programs.bySource[key]; ok {
		return program, nil
	}
	env := environments[scope]()
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("cannot compile placeholder %q: %s", "${"+source+"}", Explain(issues))
	}
	program, err := env.Program(checked, cel.CostLimit(costLimit))
	if err != nil {
		return nil, fmt.Errorf("cannot compile placeholder %q: %w", "${"+source+"}", err)
	}
	if len(programs.bySource) < maxExpressions {
		programs.bySource[key] = program
	}
	return program, nil
}
