// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"
)

// Violation is one value that a schema does not allow.
type Violation struct {
	// Path of the value: keys, and indices as decimal text.
	Path []string
	// Message is what follows the path in a sentence, for example `is "x": it must be a whole number`.
	Message string
}

// Schema is a compiled CUE schema. It is safe for concurrent use.
type Schema struct {
	mu   sync.Mutex
	ctx  *cue.Context
	root cue.Value
}

// Compile reads a schema.
func Compile(source, name string) (*Schema, error) {
	ctx := cuecontext.New()
	root := ctx.CompileString(source, cue.Filename(name))
	if err := root.Err(); err != nil {
		return nil, err
	}
	return &Schema{ctx: ctx, root: root}, nil
}

// Validate checks a value of maps, lists and scalars against a definition, for
// example "#Components". Each path is reported once.
func (s *Schema) Validate(definition string, value any) []Violation {
	s.mu.Lock()
	defer s.mu.Unlock()
	schema := s.root.LookupPath(cue.MakePath(cue.Def(definition)))
	err := schema.Unify(s.ctx.Encode(value)).Validate(cue.Concrete(true))
	violations := missing(schema, value, nil)
	seen := map[string]bool{}
	for _, v := range violations {
		seen[strings.Join(v.Path, "\x00")] = true
	}
	for _, one := range errors.Errors(err) {
		path := unquote(one.Path())
		if len(path) > 0 && path[0] == definition {
			path = path[1:]
		}
		key := strings.Join(path, "\x00")
		if seen[key] {
			continue
		}
		seen[key] = true
		violations = append(violations, Violation{Path: path, Message: message(schema, value, path, one)})
	}
	return violations
}

func message(schema cue.Value, value any, path []string, err errors.Error) string {
	allowed := "as the schema says"
	if constraint := lookup(schema, path); constraint.Exists() {
		allowed = Describe(constraint)
	}
	got, ok := at(value, path)
	switch {
	case !ok:
		return "is missing: it must be " + allowed
	case lookup(schema, path).Exists():
		return fmt.Sprintf("is %s: it must be %s", got, allowed)
	default:
		return fmt.Sprintf("is not allowed here (%v)", err)
	}
}

// missing lists the required fields that are absent. CUE itself names them only once nothing else is wrong.
func missing(schema cue.Value, value any, path []string) []Violation {
	var found []Violation
	switch node := value.(type) {
	case map[string]any:
		fields, err := schema.Fields(cue.Optional(true))
		for err == nil && fields.Next() {
			name := fields.Selector().Unquoted()
			if _, ok := node[name]; !ok && fields.FieldType()&cue.RequiredConstraint != 0 {
				found = append(found, Violation{
					Path:    append(slices.Clone(path), name),
					Message: "is missing: it must be " + Describe(fields.Value()),
				})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(node)) {
			if child := lookup(schema, []string{name}); child.Exists() {
				found = append(found, missing(child, node[name], append(slices.Clone(path), name))...)
			}
		}
	case []any:
		for i, element := range node {
			index := strconv.Itoa(i)
			if child := lookup(schema, []string{index}); child.Exists() {
				found = append(found, missing(child, element, append(slices.Clone(path), index))...)
			}
		}
	}
	return found
}

// lookup finds the constraint of a path: an element of a list, a value of a map, or a field.
func lookup(schema cue.Value, path []string) cue.Value {
	for _, key := range path {
		next := schema.LookupPath(cue.MakePath(cue.Str(key)))
		if !next.Exists() {
			next = schema.LookupPath(cue.MakePath(cue.Str(key).Optional()))
		}
		if !next.Exists() {
			next = schema.LookupPath(cue.MakePath(cue.Str(key).Required()))
		}
		if index, err := strconv.Atoi(key); err == nil && !next.Exists() {
			next = schema.LookupPath(cue.MakePath(cue.Index(index)))
			if !next.Exists() {
				next = schema.LookupPath(cue.MakePath(cue.AnyIndex))
			}
		}
		if !next.Exists() {
			next = schema.LookupPath(cue.MakePath(cue.AnyString))
		}
		if !next.Exists() {
			return next
		}
		schema = next
	}
	return schema
}

// at returns the value at a path as JSON.
func at(value any, path []string) (string, bool) {
	for _, key := range path {
		switch node := value.(type) {
		case map[string]any:
			child, ok := node[key]
			if !ok {
				return "", false
			}
			value = child
		case []any:
			index, err := strconv.Atoi(key)
			if err != nil || index >= len(node) {
				return "", false
			}
			value = node[index]
		default:
			return "", false
		}
	}
	switch node := value.(type) {
	case map[string]any:
		return "this map", true
	case []any:
		if len(node) == 0 {
			return "an empty list", true
		}
		return "this list", true
	}
	text, err := json.Marshal(value)
	return string(text), err == nil
}

// unquote takes the quotes off keys that are no CUE identifiers.
func unquote(path []string) []string {
	plain := make([]string, len(path))
	for i, key := range path {
		plain[i] = key
		if text, err := strconv.Unquote(key); err == nil {
			plain[i] = text
		}
	}
	return plain
}
