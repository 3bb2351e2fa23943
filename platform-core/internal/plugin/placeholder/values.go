// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/util/json"
)

// Kinds that an expression of a Language can give beside the others.
const (
	// Items is a list of whatever.
	Items Kind = "a list"
	// Object is a map from text.
	Object Kind = "an object"
)

// scalars are what can be a part of a text.
var scalars = []Kind{Text, Int, Number, Bool}

// givenKind says which of the wanted kinds a type is; empty for one that shows only when it is evaluated, as what is
// read out of an object does.
func givenKind(given *cel.Type, wanted []Kind) (Kind, error) {
	var kind Kind
	switch given.Kind() {
	case cel.DynKind:
		return "", nil
	case cel.ListKind:
		kind = Items
		if element := given.Parameters()[0].Kind(); element == cel.StringKind || element == cel.DynKind &&
			slices.Contains(wanted, List) {
			kind = List
		}
	case cel.MapKind:
		if given.Parameters()[0].Kind() == cel.StringKind || given.Parameters()[0].Kind() == cel.DynKind {
			kind = Object
		}
	}
	if kind == "" {
		var err error
		if kind, err = kindOf(given); err != nil {
			return "", err
		}
	}
	if kind == List && slices.Contains(wanted, Items) && !slices.Contains(wanted, List) {
		kind = Items
	}
	if !slices.Contains(wanted, kind) {
		return "", fmt.Errorf("it gives %s: it must give %s", kind, oneOf(wanted))
	}
	return kind, nil
}

// Leaf compiles a text that stands for a whole value: one that is a single placeholder may give a list or an object,
// too.
func (l *Language) Leaf(text string) (*Formula, error) {
	pieces, err := scan(text)
	if err != nil || len(pieces) != 1 || !pieces[0].expression {
		return l.Text(text)
	}
	compiled, _, err := l.compile(pieces[0].text, append(slices.Clone(scalars), Items, Object)...)
	if err != nil {
		return nil, fmt.Errorf("placeholder %q: %w", opening+pieces[0].text+"}", err)
	}
	return &Formula{segments: []segment{compiled}}, nil
}

// Value evaluates a formula of Leaf: a single placeholder keeps the type of what it gives, as encoding/json would make
// it, but for whole numbers, which are int64; all else is text.
func (f *Formula) Value(variables map[string]any) (any, error) {
	if len(f.segments) != 1 || f.segments[0].source == "" {
		return f.Text(variables)
	}
	s := f.segments[0]
	out, _, err := s.program.Eval(variables)
	if err != nil {
		return nil, fmt.Errorf("placeholder %q cannot be evaluated: %w", opening+s.source+"}", err)
	}
	switch value := out.Value().(type) {
	case string:
		if len(value) > s.longest {
			return nil, fmt.Errorf("placeholder %q gives %d characters: at most %d are allowed", opening+s.source+"}",
				len(value), s.longest)
		}
		return value, nil
	case bool, int64, float64:
		return value, nil
	}
	native, err := out.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, fmt.Errorf("placeholder %q gives nothing that can be written as JSON: %w", opening+s.source+"}", err)
	}
	text, err := json.Marshal(native.(*structpb.Value).AsInterface())
	switch {
	case err != nil:
		return nil, fmt.Errorf("placeholder %q gives nothing that can be written as JSON: %w", opening+s.source+"}", err)
	case len(text) > s.longest:
		return nil, fmt.Errorf("placeholder %q gives %d characters: at most %d are allowed", opening+s.source+"}", len(text),
			s.longest)
	}
	var value any
	err = json.Unmarshal(text, &value)
	return value, err
}

// FormatAny writes a value of Value as text: a list or an object as JSON, with the keys in order.
func FormatAny(value any) (string, error) {
	switch value.(type) {
	case []any, map[string]any, nil:
		data, err := json.Marshal(value)
		return string(data), err
	}
	return text(value), nil
}
