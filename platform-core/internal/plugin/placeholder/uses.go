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
	pod, fqdn, replicas, peers, source bool
	params                             paramsUse
}

func usesOf(checked *cel.Ast) uses {
	var u uses
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			u.pod = u.pod || e.AsIdent() == "pod"
			u.peers = u.peers || e.AsIdent() == "peers"
			u.source = u.source || e.AsIdent() == "source"
		case ast.SelectKind:
			field := e.AsSelect().FieldName()
			u.fqdn = u.fqdn || field == "fqdn"
			u.replicas = u.replicas || field == "replicas"
		}
	}))
	names, exact := KeysUsed(checked, "params")
	u.params = paramsUse{names: names, all: !exact}
	return u
}

// KeysUsed lists the keys of a map variable that an expression looks at: x of variable.x, variable['x'] and 'x' in
// variable. It is exact unless the expression uses the variable in another way, too.
func KeysUsed(checked *cel.Ast, variable string) (keys []string, exact bool) {
	seen := 0
	is := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == variable }
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			if is(e) {
				seen++
			}
		case ast.SelectKind:
			if is(e.AsSelect().Operand()) {
				keys = append(keys, e.AsSelect().FieldName())
			}
		case ast.CallKind:
			if key, ok := keyOf(e.AsCall(), is); ok {
				keys = append(keys, key)
			}
		}
	}))
	return keys, seen == len(keys)
}

// keyOf returns x of variable['x'] and of 'x' in variable.
func keyOf(call ast.CallExpr, isVariable func(ast.Expr) bool) (string, bool) {
	args := call.Args()
	if len(args) != 2 {
		return "", false
	}
	var key ast.Expr
	switch {
	case call.FunctionName() == operators.Index && isVariable(args[0]):
		key = args[1]
	case call.FunctionName() == operators.In && isVariable(args[1]):
		key = args[0]
	default:
		return "", false
	}
	if key.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := key.AsLiteral().Value().(string)
	return text, ok
}
