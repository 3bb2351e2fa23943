// SPDX-License-Identifier: Apache-2.0

package layer

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// patchKey of a map says what is done with it other than that it is merged.
const patchKey = "$patch"

// Values of patchKey.
const (
	patchReplace = "replace"
	patchDelete  = "delete"
)

// nameFields are what the elements of a list are known by, by the list's own key, where that is not their field "name".
var nameFields = map[string][]string{
	"files":        {"path"},
	"conditions":   {"type"},
	"entities":     {"type", "component"},
	"also":         {"prefix"},
	"volumeMounts": {"mountPath"},
}

// fieldsOf says what the elements of the list at a path are known by.
func fieldsOf(path document.Path) []string {
	if len(path) > 0 {
		if fields := nameFields[path[len(path)-1]]; fields != nil {
			return fields
		}
	}
	return []string{"name"}
}

// merger puts one document over another.
type merger struct {
	places   map[*yaml.Node]Place
	problems []Problem
}

func (m *merger) fail(at *yaml.Node, format string, args ...any) {
	m.problems = append(m.problems, Problem{m.places[at], fmt.Sprintf(format, args...)})
}

// node merges two values of the same path.
func (m *merger) node(base, change *yaml.Node, path document.Path) *yaml.Node {
	switch {
	case base.Kind == yaml.MappingNode && change.Kind == yaml.MappingNode:
		return m.maps(base, change, path)
	case base.Kind == yaml.SequenceNode && change.Kind == yaml.SequenceNode:
		return m.lists(base, change, path)
	}
	return m.whole(change, path)
}

// whole takes a value as it is, where there is nothing below it that it could change.
func (m *merger) whole(value *yaml.Node, path document.Path) *yaml.Node {
	if value.ShortTag() == "!!null" {
		m.fail(value, "%s: there is nothing to take away in the version that this one extends: leave it out", path)
	}
	if value.Kind == yaml.MappingNode {
		if i := find(value, patchKey); i >= 0 {
			m.fail(value.Content[i], "%s: there is nothing to take away or to replace in the version that this one extends: "+
				"leave %s out", path, patchKey)
		}
	}
	for i, child := range value.Content {
		switch {
		case value.Kind == yaml.SequenceNode:
			m.whole(child, path.Index(i))
		case i%2 == 1:
			m.whole(child, path.With(value.Content[i-1].Value))
		}
	}
	return value
}

func (m *merger) maps(base, change *yaml.Node, path document.Path) *yaml.Node {
	if i := find(change, patchKey); i >= 0 {
		if how := change.Content[i+1].Value; how != patchReplace {
			m.fail(change.Content[i], "%s: %s is %q: it must be %q here; a field is taken away by the value null, and an "+
				"element of a list of named things by %s: %s",
				path, patchKey, how, patchReplace, patchKey, patchDelete)
			return base
		}
		return m.whole(m.without(change, i), path)
	}
	merged := m.clone(base)
	for i := 0; i+1 < len(change.Content); i += 2 {
		key, value := change.Content[i], change.Content[i+1]
		at, below := find(merged, key.Value), path.With(key.Value)
		switch {
		case at < 0 && value.ShortTag() == "!!null":
			m.fail(key, "%s is not in the version that this one extends: there is nothing to take away", below)
		case at < 0:
			merged.Content = append(merged.Content, key, m.whole(value, below))
		case value.ShortTag() == "!!null":
			merged.Content = slices.Delete(merged.Content, at, at+2)
		default:
			merged.Content[at+1] = m.node(merged.Content[at+1], value, below)
			if merged.Content[at+1] == value {
				// What is said of the value that is gone is not said of this one.
				merged.Content[at] = key
			}
		}
	}
	return merged
}

func (m *merger) lists(base, change *yaml.Node, path document.Path) *yaml.Node {
	if len(change.Content) > 0 && replaces(change.Content[0]) {
		return m.whole(m.without(change, 0), path)
	}
	fields := fieldsOf(path)
	if !named(base, fields) {
		return m.whole(change, path)
	}
	merged, done := m.clone(base), map[string]bool{}
	for i, element := range change.Content {
		name, known := nameOf(element, fields)
		if !known {
			m.fail(element, "%s has no %s: that says which element of the version that this one extends it changes; a list "+
				"that begins with %s: %s takes the place of the whole",
				path.Index(i), strings.Join(fields, " and "), patchKey, patchReplace)
			continue
		}
		if done[name] {
			m.fail(element, "%s: %q is there twice", path.Index(i), name)
			continue
		}
		done[name] = true
		m.element(merged, element, name, path)
	}
	return merged
}

// element puts one element over that of its name.
func (m *merger) element(merged, element *yaml.Node, name string, path document.Path) {
	fields := fieldsOf(path)
	same := func(n *yaml.Node) bool { known, _ := nameOf(n, fields); return known == name }
	at := slices.IndexFunc(merged.Content, same)
	patch := find(element, patchKey)
	deletes := patch >= 0 && element.Content[patch+1].Value == patchDelete
	switch {
	case at >= 0 && slices.IndexFunc(merged.Content[at+1:], same) >= 0:
		m.fail(element, "%s has %q more than once in the version that this one extends: say the whole list, beginning with "+
			"%s: %s", path, name, patchKey, patchReplace)
	case at < 0 && deletes:
		m.fail(element, "%s has no %q in the version that this one extends: there is nothing to take away", path, name)
	case at < 0:
		merged.Content = append(merged.Content, m.whole(element, path.Index(len(merged.Content))))
	case deletes && len(element.Content) > 2*(len(fields)+1):
		m.fail(element, "%s: %q is taken away: leave its other fields out", path, name)
	case deletes:
		merged.Content = slices.Delete(merged.Content, at, at+1)
	default:
		merged.Content[at] = m.maps(merged.Content[at], element, path.Index(at))
	}
}

// named says whether the elements of a list are known by fields.
func named(list *yaml.Node, fields []string) bool {
	unnamed := func(element *yaml.Node) bool { _, known := nameOf(element, fields); return !known }
	return len(list.Content) > 0 && !slices.ContainsFunc(list.Content, unnamed)
}

// nameOf returns what an element is known by.
func nameOf(element *yaml.Node, fields []string) (string, bool) {
	if element.Kind != yaml.MappingNode {
		return "", false
	}
	var parts []string
	for _, field := range fields {
		i := find(element, field)
		if i < 0 || element.Content[i+1].Kind != yaml.ScalarNode {
			return "", false
		}
		parts = append(parts, element.Content[i+1].Value)
	}
	return strings.Join(parts, " "), true
}

// replaces says whether the first element of a list has it take the place of another one.
func replaces(element *yaml.Node) bool {
	return element.Kind == yaml.MappingNode && len(element.Content) == 2 && element.Content[0].Value == patchKey &&
		element.Content[1].Value == patchReplace
}

// find returns the index of a key of a map, or -1.
func find(node *yaml.Node, key string) int {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// clone copies a node but for its children. What is changed is written in block style, so that a remark can be anywhere
// in it.
func (m *merger) clone(node *yaml.Node) *yaml.Node {
	copied := *node
	copied.Style &^= yaml.FlowStyle
	copied.Content = slices.Clone(node.Content)
	m.places[&copied] = m.places[node]
	return &copied
}

// without copies a map without the key at an index, or a list without that element.
func (m *merger) without(node *yaml.Node, at int) *yaml.Node {
	copied, width := m.clone(node), 1
	if node.Kind == yaml.MappingNode {
		width = 2
	}
	copied.Content = slices.Delete(copied.Content, at, at+width)
	return copied
}
