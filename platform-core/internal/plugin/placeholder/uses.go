// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// paramsUse is what expressions look at among the parameters.
type paramsUse struct {
	names []string
	all   bool
}

// uses says what an expression looks at.
type uses struct {
	pod, fqdn, replicas, peers bool
	params                     paramsUse
}

func usesOf(checked *cel.Ast) uses {
	var u uses
	named, seen := 0, 0
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			u.pod = u.pod || e.AsIdent() == "pod"
			u.peers = u.peers || e.AsIdent() == "peers"
			if e.AsIdent() == "params" {
				seen++
			}
		case ast.SelectKind:
			field := e.AsSelect().FieldName()
			u.fqdn = u.fqdn || field == "fqdn"
			u.replicas = u.replicas || field == "replicas"
			if operand := e.AsSelect().Operand(); isParams(operand) {
				u.params.names = append(u.params.names, field)
				named++
			}
		case ast.CallKind:
			if name, ok := namesParameter(e.AsCall()); ok {
				u.params.names = append(u.params.names, name)
				named++
			}
		}
	}))
	// Each use must name the parameter: params.x, params['x'] or 'x' in params.
	u.params.all = seen > named
	return u
}

func isParams(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "params" }

// namesParameter returns x of params['x'] and of 'x' in params.
func namesParameter(call ast.CallExpr) (string, bool) {
	args := call.Args()
	if len(args) != 2 {
		return "", false
	}
	var name ast.Expr
	switch {
	case call.FunctionName() == operators.Index && isParams(args[0]):
		name = args[1]
	case call.FunctionName() == operators.In && isParams(args[1]):
		name = args[0]
	default:
		return "", false
	}
	if name.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := name.AsLiteral().Value().(string)
	return text, ok
}
