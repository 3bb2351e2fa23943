// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"regexp"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

// checkPatterns warns of patterns that are no regular expressions. CUE takes them, and then allows no value at all.
func (l *loader) checkPatterns(key, source string) {
	file, err := parser.ParseFile(key, source)
	if err != nil {
		// Compiling has said so.
		return
	}
	check := func(operator token.Token, operand ast.Expr) {
		pattern, ok := operand.(*ast.BasicLit)
		if operator != token.MAT && operator != token.NMAT || !ok || pattern.Kind != token.STRING {
			return
		}
		text, err := literal.Unquote(pattern.Value)
		if err == nil {
			_, err = regexp.Compile(text)
		}
		if err != nil {
			l.warn(PartParams, key, pattern.Pos().Line(), "the pattern %s is no regular expression: %v", pattern.Value, err)
		}
	}
	ast.Walk(file, func(node ast.Node) bool {
		switch expression := node.(type) {
		case *ast.UnaryExpr:
			check(expression.Op, expression.X)
		case *ast.BinaryExpr:
			check(expression.Op, expression.Y)
		}
		return true
	}, nil)
}
