// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A field below spec is written as components[redis].storage.size: names separated by dots, and after the name of a
// list whose elements have names, the name of one in brackets. A name that has dots or brackets of its own has a
// backslash before each, see Name.

// FieldPluginVersion is the field with the version of the plugin. A typed kind that has none for it keeps an annotation
// in its place.
const FieldPluginVersion = "pluginVersion"

// element is one step on the way to a field: a name, and the name of an element where it is a list.
type element struct{ name, key string }

func elementsOf(field string) []element {
	var path []element
	var at element
	var part strings.Builder
	take := func() string {
		defer part.Reset()
		return part.String()
	}
	for i := 0; i < len(field); i++ {
		switch c := field[i]; {
		case c == '\\' && i+1 < len(field):
			i++
			part.WriteByte(field[i])
		case c == '[':
			at.name = take()
		case c == ']':
			at.key = take()
		case c == '.':
			path, at = append(path, at.named(take())), element{}
		default:
			part.WriteByte(c)
		}
	}
	return append(path, at.named(take()))
}

// named is the step with a name, where it did not get one before the brackets.
func (e element) named(name string) element {
	if e.name == "" {
		e.name = name
	}
	return e
}

// special are the characters that mean something in a field.
const special = `\.[]`

// Name is a name as it stands in a field, for one that may have dots or brackets: that of a parameter.
func Name(name string) string {
	var quoted strings.Builder
	for _, c := range name {
		if strings.ContainsRune(special, c) {
			quoted.WriteByte('\\')
		}
		quoted.WriteRune(c)
	}
	return quoted.String()
}

// Plain is a field for a person, without what Name put there.
func Plain(field string) string { return strings.ReplaceAll(field, `\`, "") }

// SetField sets a field of a spec as it is in JSON, or takes it out when the value is nil. What is on the way and not
// there is made. It returns the value that was there before; nil for none.
func SetField(spec map[string]any, field string, value any) (before any, err error) {
	path := elementsOf(field)
	at := spec
	for i, e := range path {
		last := i == len(path)-1
		if last && e.key == "" {
			before = at[e.name]
			if at[e.name] = value; value == nil {
				delete(at, e.name)
			}
			return before, nil
		}
		if e.key != "" {
			at, err = elementOf(at, e)
		} else {
			at, err = childOf(at, e.name)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot set %s: %w", field, err)
		}
	}
	return nil, fmt.Errorf("cannot set %s: it is an element of a list", field)
}

func childOf(parent map[string]any, name string) (map[string]any, error) {
	switch child := parent[name].(type) {
	case map[string]any:
		return child, nil
	case nil:
		made := map[string]any{}
		parent[name] = made
		return made, nil
	}
	return nil, fmt.Errorf("%s is no object", name)
}

func elementOf(parent map[string]any, e element) (map[string]any, error) {
	list, ok := parent[e.name].([]any)
	if !ok && parent[e.name] != nil {
		return nil, fmt.Errorf("%s is no list", e.name)
	}
	for _, one := range list {
		if object, ok := one.(map[string]any); ok && object["name"] == e.key {
			return object, nil
		}
	}
	made := map[string]any{"name": e.key}
	parent[e.name] = append(list, made)
	return made, nil
}

// WriteThrough returns the field of the object that declares an Application which a field of that comes from. mapping
// is what the kind says of it; the longest of its fields that fits counts.
func WriteThrough(field string, mapping map[string]string) (string, bool) {
	best, found := "", false
	for from := range mapping {
		if (field == from || strings.HasPrefix(field, from+".") || strings.HasPrefix(field, from+"[")) &&
			(!found || len(from) > len(best)) {
			best, found = from, true
		}
	}
	if !found {
		return "", false
	}
	return mapping[best] + strings.TrimPrefix(field, best), true
}

// OwnersOf names those who own a field of a spec, or something within it, in order. own are ourselves, who do not
// count.
func OwnersOf(entries []metav1.ManagedFieldsEntry, field string, own ...string) []string {
	var owners []string
	for _, entry := range EntriesOf(entries, field) {
		if entry.Subresource == "" && !slices.Contains(own, entry.Manager) && !slices.Contains(owners, entry.Manager) {
			owners = append(owners, entry.Manager)
		}
	}
	slices.Sort(owners)
	return owners
}

// FieldManagersOf names those who write anything of the first list on the way to a field of a spec other than by
// server-side apply, in order: they replace such a list of a custom resource as a whole, and with it what of the field
// is not theirs.
func FieldManagersOf(entries []metav1.ManagedFieldsEntry, field string) []string {
	path := elementsOf(field)
	i := slices.IndexFunc(path, func(e element) bool { return e.key != "" })
	if i < 0 {
		return nil
	}
	var names []string
	for _, e := range path[:i+1] {
		names = append(names, Name(e.name))
	}
	updates := slices.DeleteFunc(slices.Clone(entries), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Operation == metav1.ManagedFieldsOperationApply
	})
	return OwnersOf(updates, strings.Join(names, "."))
}

// EntriesOf are those of managed fields that have a field of a spec, or something within it; without a field those that
// have anything of the spec.
func EntriesOf(entries []metav1.ManagedFieldsEntry, field string) []metav1.ManagedFieldsEntry {
	path := []element{{name: "spec"}}
	if field != "" {
		path = append(path, elementsOf(field)...)
	}
	var having []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		var fields map[string]json.RawMessage
		if entry.FieldsV1 != nil && entry.Subresource != "status" &&
			json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && owns(fields, path) {
			having = append(having, entry)
		}
	}
	return having
}

// owns says whether a set of managed fields has a path, or something below it. Of an object it has what it lists: one
// that has nothing but the object itself made that, and has none of what is in it. Of a list that it ends at it has the
// whole.
func owns(fields map[string]json.RawMessage, path []element) bool {
	for _, e := range path {
		next, ok := within(fields, "f:"+e.name)
		if !ok {
			return false
		}
		if fields = next; e.key == "" {
			continue
		}
		if len(fields) == 0 {
			return true
		}
		if fields, ok = within(fields, fmt.Sprintf(`k:{"name":%q}`, e.key)); !ok {
			return false
		}
	}
	return true
}

func within(fields map[string]json.RawMessage, key string) (map[string]json.RawMessage, bool) {
	raw, ok := fields[key]
	if !ok {
		return nil, false
	}
	var next map[string]json.RawMessage
	if json.Unmarshal(raw, &next) != nil {
		return nil, true
	}
	return next, true
}
