// SPDX-License-Identifier: Apache-2.0

// Package objectdiff says how one tree of YAML differs from another one, in the shape of the tree itself, for people to
// read: a map has the fields that differ, and a list whose elements have names has the elements that do. What it says
// is exact: Apply(from, Diff(from, to)) is to.
package objectdiff

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Markers in a difference. Kubernetes and plugins have no field or value of such a name.
const (
	// removed is the value of a field that is gone, and true in an element of a list that is gone.
	removed = "$removed"
	// after is the element that a new one comes after, empty for the first. Without it the first new one comes last, and
	// another one after the new one before.
	after = "$after"
	// order has all elements of a list in another order than before.
	order = "$order"
	// replaced is true in the first element of a list that stands in place of all that was there.
	replaced = "$replaced"
)

// Object is a map of a tree, such as a whole Kubernetes object.
type Object = map[string]any

// Diff returns what makes a tree of another one, and whether anything does.
func Diff(from, to any) (patch any, differs bool) {
	if reflect.DeepEqual(from, to) {
		return nil, false
	}
	switch was := from.(type) {
	case Object:
		if is, ok := to.(Object); ok {
			return diffMaps(was, is), true
		}
	case []any:
		if is, ok := to.([]any); ok {
			return diffLists(was, is), true
		}
	case string:
		if is, ok := to.(string); ok {
			if patch, less := diffText(was, is); less {
				return patch, true
			}
		}
	}
	return escaped(to), true
}

func diffMaps(from, to Object) Object {
	patch := Object{}
	for field, was := range from {
		name := escapedName(field)
		if is, kept := to[field]; !kept {
			patch[name] = removed
		} else if p, differs := Diff(was, is); differs {
			patch[name] = p
		}
	}
	for field, is := range to {
		if _, was := from[field]; !was {
			patch[escapedName(field)] = escaped(is)
		}
	}
	return patch
}

func diffLists(from, to []any) any {
	names := namesOf(from)
	if names == nil {
		if patch, less := diffItems(from, to); less {
			return patch
		}
		return escaped(to)
	}
	if patch, ok := names.diff(from, to); ok {
		return patch
	}
	return append([]any{Object{replaced: true}}, escaped(to).([]any)...)
}

// Apply returns what a difference makes of a tree. Neither is changed.
func Apply(from, patch any) any {
	switch p := patch.(type) {
	case Object:
		switch was := from.(type) {
		case Object:
			return applyMap(was, p)
		case string:
			if to, ok := applyText(was, p); ok {
				return to
			}
		case []any:
			if differ, ok := p[items].(Object); ok {
				return applyItems(was, differ)
			}
		}
	case []any:
		if was, ok := from.([]any); ok {
			return applyList(was, p)
		}
	}
	return unescaped(patch)
}

func applyMap(from, patch Object) Object {
	to := maps.Clone(from)
	for name, p := range patch {
		field := strings.TrimPrefix(name, mark)
		if was, there := from[field]; p == removed {
			delete(to, field)
		} else if there {
			to[field] = Apply(was, p)
		} else {
			to[field] = unescaped(p)
		}
	}
	return to
}

func applyList(from, patch []any) any {
	if len(patch) > 0 && reflect.DeepEqual(patch[0], Object{replaced: true}) {
		return unescaped(patch[1:])
	}
	if names := namesOf(from); names != nil {
		return names.apply(from, patch)
	}
	return unescaped(patch)
}

// naming tells the elements of a list apart.
type naming struct {
	// name of an element; empty where it has none.
	name func(Object) string
	// stub is what an element needs for its name.
	stub func(Object) Object
}

// fields that name elements of lists in Kubernetes objects and plans, in the order in which they are tried.
var fields = []string{"name", "key", "path", "mountPath", "type", "containerPort", "port"}

// namesOf returns how the elements of a list are told apart; nil where they are not.
func namesOf(list []any) *naming {
	for _, field := range fields {
		n := &naming{
			name: func(o Object) string {
				if value, ok := o[field]; ok {
					return fmt.Sprint(value)
				}
				return ""
			},
			stub: func(o Object) Object { return Object{field: o[field]} },
		}
		if _, ok := n.all(list); ok && len(list) > 0 {
			return n
		}
	}
	return nil
}

// all are the names of a list, if each element has one of its own.
func (n *naming) all(list []any) ([]string, bool) {
	var all []string
	for _, element := range list {
		object, ok := element.(Object)
		if !ok {
			return nil, false
		}
		name := n.name(object)
		if name == "" || slices.Contains(all, name) {
			return nil, false
		}
		all = append(all, name)
	}
	return all, true
}

// diff fails where elements of the new list are not told apart.
func (n *naming) diff(from, to []any) ([]any, bool) {
	was, _ := n.all(from)
	is, ok := n.all(to)
	if !ok {
		return nil, false
	}
	patch, kept := []any{}, []string{}
	for i, name := range was {
		if slices.Contains(is, name) {
			kept = append(kept, name)
			continue
		}
		gone := n.stub(from[i].(Object))
		gone[removed] = true
		patch = append(patch, gone)
	}
	if still := slices.DeleteFunc(slices.Clone(is),
		func(name string) bool { return !slices.Contains(was, name) }); !slices.Equal(still, kept) {
		patch = append(patch, Object{order: texts(is)})
	}
	last := ""
	for i, name := range is {
		element := to[i].(Object)
		if j := slices.Index(was, name); j >= 0 {
			if p, differs := Diff(from[j], element); differs {
				patch = append(patch, named(p.(Object), n.stub(element)))
			}
			continue
		}
		before := ""
		if i > 0 {
			before = is[i-1]
		}
		// One that is neither the last nor behind the new one before says where it is.
		later := slices.ContainsFunc(is[i:], func(name string) bool { return slices.Contains(was, name) })
		element = escaped(element).(Object)
		if last == "" && later || last != "" && last != before {
			element[after] = before
		}
		patch, last = append(patch, element), name
	}
	return patch, true
}

// named is a difference of an element with what names it.
func named(patch, stub Object) Object {
	for field, value := range stub {
		if inner, ok := patch[field].(Object); ok {
			patch[field] = named(inner, value.(Object))
		} else {
			patch[field] = value
		}
	}
	return patch
}

func texts(names []string) []any {
	var all []any
	for _, name := range names {
		all = append(all, name)
	}
	return all
}

func (n *naming) apply(from, patch []any) []any {
	names, _ := n.all(from)
	list := slices.Clone(from)
	var ordered []any
	last := ""
	for _, p := range patch {
		change, ok := p.(Object)
		if !ok {
			return patch
		}
		if all, ok := change[order].([]any); ok {
			ordered = all
			continue
		}
		name := n.name(change)
		i := slices.Index(names, name)
		switch {
		case i >= 0 && change[removed] == true:
			names, list = slices.Delete(names, i, i+1), slices.Delete(list, i, i+1)
		case i >= 0:
			list[i] = Apply(list[i], change)
		default:
			at := len(list)
			if previous, ok := change[after]; ok {
				at = slices.Index(names, fmt.Sprint(previous)) + 1
				change = maps.Clone(change)
				delete(change, after)
			} else if last != "" {
				at = slices.Index(names, last) + 1
			}
			names, list, last = slices.Insert(names, at, name), slices.Insert(list, at, unescaped(change)), name
		}
	}
	if ordered == nil {
		return list
	}
	sorted := []any{}
	for _, name := range ordered {
		if i := slices.Index(names, fmt.Sprint(name)); i >= 0 {
			sorted = append(sorted, list[i])
		}
	}
	return sorted
}
