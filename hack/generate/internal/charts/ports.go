// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
)

// planFile declares the ports of the agents.
const planFile = "platform-core/agentproto/plan/plan.go"

// operatorPorts are the constants of those ports of the agents that the operator calls. The status agent answers the
// kubelet only.
var operatorPorts = []string{"ProcessPort", "OpsPort"}

// agentPorts reads their values from the code, so that a NetworkPolicy lets the operator through to where it calls.
func agentPorts(root string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, planFile), nil, 0)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is || len(spec.Names) != 1 || len(spec.Values) != 1 || !slices.Contains(operatorPorts, spec.Names[0].Name) {
			return true
		}
		if value, is := spec.Values[0].(*ast.BasicLit); is && value.Kind == token.INT {
			values[spec.Names[0].Name] = value.Value
		}
		return true
	})
	var ports []string
	for _, name := range operatorPorts {
		if values[name] == "" {
			return nil, fmt.Errorf("%s declares no number %s", planFile, name)
		}
		ports = append(ports, values[name])
	}
	return ports, nil
}
