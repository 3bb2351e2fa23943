// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Leaf looks at a text within a document; kind is that of the Go field. It says whether the
// text is a value of that kind that is only known later.
type Leaf func(path Path, text string, kind reflect.Kind) (later bool, err error)

// Check compares the document with a Go type (by its json tags) and returns every
// unknown field and every value of a wrong type. Leaf may be nil.
func (d *Document) Check(t reflect.Type, leaf Leaf) []Problem {
	c := checker{document: d, leaf: leaf}
	c.check(d.value, t, nil)
	return c.problems
}

// Decode fills target, a pointer, from a document that Check has passed.
func (d *Document) Decode(target any) error { return DecodeValue(d.value, target) }

// DecodeValue fills target from maps, lists and scalars; an unknown field is an error.
func DecodeValue(value, target any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(target)
}

type checker struct {
	document *Document
	leaf     Leaf
	problems []Problem
}

func (c *checker) problem(path Path, format string, args ...any) {
	c.problems = append(c.problems, Problem{Line: c.document.Line(path), Message: fmt.Sprintf(format, args...)})
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	quantity    = reflect.TypeFor[resource.Quantity]()
)

func (c *checker) check(value any, t reflect.Type, path Path) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if text, ok := value.(string); ok && c.leaf != nil {
		later, err := c.leaf(path, text, t.Kind())
		if err != nil {
			c.problem(path, "%s: %v", path, err)
			return
		}
		if later {
			return
		}
	}
	if value == nil {
		c.problem(path, "%s has no value: leave the field out instead", path)
		return
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		c.checkCustom(value, t, path)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		c.checkStruct(value, t, path)
	case reflect.Map:
		values, ok := value.(map[string]any)
		if !ok {
			c.wrong(value, "a map", path)
			return
		}
		for _, key := range sortedKeys(values) {
			c.check(values[key], t.Elem(), path.With(key))
		}
	case reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			c.wrong(value, "a list", path)
			return
		}
		for i, element := range list {
			c.check(element, t.Elem(), path.Index(i))
		}
	case reflect.Interface:
		c.checkAny(value, t, path)
	default:
		c.checkScalar(value, t, path)
	}
}

// checkAny takes every value, and has the texts within it looked at.
func (c *checker) checkAny(value any, t reflect.Type, path Path) {
	switch node := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(node) {
			c.check(node[key], t, path.With(key))
		}
	case []any:
		for i, element := range node {
			c.check(element, t, path.Index(i))
		}
	}
}

func (c *checker) checkStruct(value any, t reflect.Type, path Path) {
	values, ok := value.(map[string]any)
	if !ok {
		c.wrong(value, "a map", path)
		return
	}
	fields := map[string]reflect.Type{}
	fieldsOf(t, fields)
	for _, key := range sortedKeys(values) {
		field, ok := fields[key]
		if !ok {
			c.problem(path.With(key), "field %q is not known%s", path.With(key).String(), suggestion(key, fields))
			continue
		}
		c.check(values[key], field, path.With(key))
	}
}

// fieldsOf collects the fields of a struct by their names in JSON.
func fieldsOf(t reflect.Type, fields map[string]reflect.Type) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous:
			fieldsOf(field.Type, fields)
		case name != "" && field.IsExported():
			fields[name] = field.Type
		}
	}
}

func (c *checker) checkScalar(value any, t reflect.Type, path Path) {
	switch kind := t.Kind(); kind {
	case reflect.String:
		if _, ok := value.(string); !ok {
			c.wrong(value, "text (put it in quotes)", path)
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			c.wrong(value, "true or false", path)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		number, ok := value.(int64)
		if !ok || reflect.Zero(t).OverflowInt(number) {
			c.wrong(value, "a whole number", path)
		}
	case reflect.Float32, reflect.Float64:
		switch value.(type) {
		case int64, float64:
		default:
			c.wrong(value, "a number", path)
		}
	default:
		c.problem(path, "%s cannot be set in a plugin", path)
	}
}

// checkCustom lets a type that reads itself, such as a quantity, say whether it can.
func (c *checker) checkCustom(value any, t reflect.Type, path Path) {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil && t == quantity {
		c.problem(path, "%s: %s is not allowed: it must be a quantity such as 500m, 2, 512Mi or 8Gi", path, data)
		return
	}
	if err != nil {
		c.problem(path, "%s: %s is not allowed: %v", path, data, err)
	}
}

func (c *checker) wrong(value any, want string, path Path) {
	c.problem(path, "%s is %s: it must be %s", path, describe(value), want)
}

func describe(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "a map"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("the text %q", v)
	default:
		return fmt.Sprintf("%v", v)
	}
}

func sortedKeys(values map[string]any) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
