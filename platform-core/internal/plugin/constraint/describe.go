// SPDX-License-Identifier: Apache-2.0

// Package constraint turns CUE constraints, and what CUE says when they are not
// met, into plain sentences.
package constraint

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue"
)

// Attribute on a field or a definition of CUE says in words what is allowed, for
// example @allowed("a size such as 100mb").
const Attribute = "allowed"

// maxListed is the number of alternatives that are listed before the list is cut.
const maxListed = 40

// maxDepth ends the walk through constraints that refer to themselves.
const maxDepth = 8

// Describe says in words what a constraint allows, for example "a whole number from 0 to 100".
func Describe(v cue.Value) string { return describe(v, 0) }

func describe(v cue.Value, depth int) string {
	if depth > maxDepth {
		return describeKind(v.IncompleteKind())
	}
	if text, ok := attribute(v); ok {
		return text
	}
	if root, path := v.ReferencePath(); len(path.Selectors()) > 0 {
		if text, ok := attribute(root.LookupPath(path)); ok {
			return text
		}
		v = cue.Dereference(v)
	}
	if kind := v.IncompleteKind(); kind == cue.StructKind || kind == cue.ListKind {
		return describeKind(kind)
	}
	op, args := v.Expr()
	switch op {
	case cue.OrOp:
		return describeAlternatives(v, depth+1)
	case cue.AndOp, cue.GreaterThanEqualOp, cue.GreaterThanOp, cue.LessThanEqualOp, cue.LessThanOp, cue.NotEqualOp:
		return describeAll(v, depth+1)
	case cue.RegexMatchOp:
		return fmt.Sprintf("text that matches %v", args[0])
	case cue.NotRegexMatchOp:
		return fmt.Sprintf("text that does not match %v", args[0])
	case cue.NoOp, cue.SelectorOp:
		if v.IsConcrete() {
			return fmt.Sprint(v)
		}
		return describeKind(v.IncompleteKind())
	}
	return fmt.Sprintf("%s that meets %v", describeKind(v.IncompleteKind()), v)
}

func attribute(v cue.Value) (string, bool) {
	a := v.Attribute(Attribute)
	if a.Err() != nil {
		return "", false
	}
	text, err := a.String(0)
	return text, err == nil && text != ""
}

func describeAlternatives(v cue.Value, depth int) string {
	var constants, others []string
	for _, arg := range flatten(cue.OrOp, v, depth) {
		text := describe(arg, depth)
		if slices.Contains(constants, text) || slices.Contains(others, text) {
			continue
		}
		if arg.IsConcrete() {
			constants = append(constants, text)
		} else {
			others = append(others, text)
		}
	}
	if rest := len(constants) - maxListed; rest > 0 {
		constants = append(constants[:maxListed], fmt.Sprintf("%d more", rest))
	}
	if len(constants) > 1 && len(others) == 0 {
		return "one of " + join(constants)
	}
	return join(append(constants, others...))
}

// flatten lists the operands of nested uses of one operator, looking through references
// that do not say in words what they allow.
func flatten(op cue.Op, v cue.Value, depth int) []cue.Value {
	if depth > maxDepth {
		return nil
	}
	if _, ok := attribute(v); ok {
		return []cue.Value{v}
	}
	if root, path := v.ReferencePath(); len(path.Selectors()) > 0 {
		if _, ok := attribute(root.LookupPath(path)); ok {
			return []cue.Value{v}
		}
		v = cue.Dereference(v)
	}
	got, args := v.Expr()
	if got != op {
		return []cue.Value{v}
	}
	var all []cue.Value
	for _, arg := range args {
		all = append(all, flatten(op, arg, depth+1)...)
	}
	return all
}

// bounds collects what a conjunction says about a number.
type bounds struct {
	kind        cue.Kind
	low, high   string
	open, close string
	except      []string
	others      []string
}

func describeAll(v cue.Value, depth int) string {
	b := bounds{kind: v.IncompleteKind()}
	for _, arg := range flatten(cue.AndOp, v, depth) {
		op, args := arg.Expr()
		switch op {
		case cue.GreaterThanEqualOp:
			b.low, b.open = tighter(b.low, args[0], cue.GreaterThanOp), "from"
		case cue.GreaterThanOp:
			b.low, b.open = tighter(b.low, args[0], cue.GreaterThanOp), "above"
		case cue.LessThanEqualOp:
			b.high, b.close = tighter(b.high, args[0], cue.LessThanOp), "to"
		case cue.LessThanOp:
			b.high, b.close = tighter(b.high, args[0], cue.LessThanOp), "below"
		case cue.NotEqualOp:
			b.except = append(b.except, fmt.Sprint(args[0]))
		default:
			if text := describe(arg, depth); text != describeKind(arg.IncompleteKind()) {
				b.others = append(b.others, text)
			}
		}
	}
	return b.String()
}

// tighter keeps the narrower of a bound seen before and another one.
func tighter(before string, value cue.Value, narrower cue.Op) string {
	text := fmt.Sprint(value)
	var a, c float64
	if _, err := fmt.Sscan(before, &a); err != nil {
		return text
	}
	if _, err := fmt.Sscan(text, &c); err != nil {
		return text
	}
	if (narrower == cue.GreaterThanOp) == (c > a) {
		return text
	}
	return before
}

func (b bounds) String() string {
	text := describeKind(b.kind)
	if b.low != "" || b.high != "" || len(b.others) == 0 || len(b.except) > 0 {
		switch {
		case b.low != "" && b.high != "":
			text += fmt.Sprintf(" %s %s and %s %s", b.open, b.low, b.close, b.high)
			text = strings.NewReplacer(" from "+b.low+" and to ", " from "+b.low+" to ").Replace(text)
		case b.low != "" && b.open == "from":
			text += " of at least " + b.low
		case b.low != "":
			text += " above " + b.low
		case b.high != "" && b.close == "to":
			text += " of at most " + b.high
		case b.high != "":
			text += " below " + b.high
		}
		if len(b.except) > 0 {
			text += " other than " + join(b.except)
		}
		b.others = append([]string{text}, b.others...)
	}
	slices.Sort(b.others[1:])
	return strings.Join(slices.Compact(b.others), ", and ")
}

func describeKind(kind cue.Kind) string {
	switch kind {
	case cue.StringKind:
		return "text"
	case cue.IntKind:
		return "a whole number"
	case cue.NumberKind, cue.FloatKind:
		return "a number"
	case cue.BoolKind:
		return "true or false"
	case cue.ListKind:
		return "a list"
	case cue.StructKind:
		return "a map"
	}
	return kind.String()
}

func join(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}
