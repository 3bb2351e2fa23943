// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
)

// Language is what expressions can see that differs from document to document, as the steps of an Operation do: each
// variable with its type. It is safe for concurrent use.
type Language struct {
	env   *cel.Env
	known []string
}

// Shape is the type of a variable or of a field of one.
type Shape struct {
	basic  *cel.Type
	fields map[string]Shape
}

// Shapes without fields. An AnyShape shows its type only when it is evaluated.
var (
	TextShape   = Shape{basic: cel.StringType}
	IntShape    = Shape{basic: cel.IntType}
	NumberShape = Shape{basic: cel.DoubleType}
	BoolShape   = Shape{basic: cel.BoolType}
	ItemsShape  = Shape{basic: cel.ListType(cel.DynType)}
	ObjectShape = Shape{basic: cel.MapType(cel.StringType, cel.DynType)}
	AnyShape    = Shape{basic: cel.DynType}
)

// Fields is the shape of an object with just these fields. Its values are maps from text.
func Fields(fields map[string]Shape) Shape { return Shape{fields: fields} }

// NewLanguage returns the language with these variables. Names must be those that CEL takes.
func NewLanguage(variables map[string]Shape) (*Language, error) {
	objects := map[string]map[string]*cel.Type{}
	options := []cel.EnvOption{ext.Strings(ext.StringsVersion(4)), ext.Math()}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		options = append(options, cel.Variable(name, variables[name].declare("operation."+name, objects)))
	}
	options = append(options, func(env *cel.Env) (*cel.Env, error) {
		return cel.CustomTypeProvider(objectTypes{env.CELTypeProvider(), objects})(env)
	})
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("cannot make the environment of expressions: %w", err)
	}
	return &Language{env: env, known: slices.Sorted(maps.Keys(variables))}, nil
}

// declare notes the types of objects and returns the type of the shape.
func (s Shape) declare(name string, objects map[string]map[string]*cel.Type) *cel.Type {
	if s.fields == nil {
		return s.basic
	}
	fields := map[string]*cel.Type{}
	for field, shape := range s.fields {
		fields[field] = shape.declare(name+"."+field, objects)
	}
	objects[name] = fields
	return cel.ObjectType(name)
}

// objectTypes adds the objects of a Language to the types that are known anyway. Their values are maps, which the
// evaluation looks into by itself.
type objectTypes struct {
	types.Provider
	objects map[string]map[string]*cel.Type
}

// FindStructType implements types.Provider.
func (o objectTypes) FindStructType(name string) (*types.Type, bool) {
	if _, ok := o.objects[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return o.Provider.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (o objectTypes) FindStructFieldNames(name string) ([]string, bool) {
	if fields, ok := o.objects[name]; ok {
		return slices.Sorted(maps.Keys(fields)), true
	}
	return o.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements types.Provider.
func (o objectTypes) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if fields, ok := o.objects[name]; ok {
		found, ok := fields[field]
		return &types.FieldType{Type: found}, ok
	}
	return o.Provider.FindStructFieldType(name, field)
}

// NewValue implements types.Provider: an expression cannot make an object.
func (o objectTypes) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if _, ok := o.objects[name]; ok {
		return types.NewErr("%s cannot be made in an expression", name)
	}
	return o.Provider.NewValue(name, fields)
}

// Formula is a compiled text or expression of a Language. It is safe for concurrent use.
type Formula struct{ segments []segment }

// Text compiles a text with placeholders.
func (l *Language) Text(text string) (*Formula, error) {
	pieces, err := scan(text)
	if err != nil {
		return nil, err
	}
	f := &Formula{}
	for _, p := range pieces {
		if !p.expression {
			f.segments = append(f.segments, segment{literal: p.text})
			continue
		}
		compiled, _, err := l.compile(p.text, scalars...)
		if err != nil {
			return nil, fmt.Errorf("placeholder %q: %w", opening+p.text+"}", err)
		}
		f.segments = append(f.segments, compiled)
	}
	return f, nil
}

// Expression compiles an expression that stands alone, without "${" and "}", and gives one of these kinds.
func (l *Language) Expression(source string, kinds ...Kind) (*Formula, error) {
	formula, _, err := l.Typed(source, kinds...)
	return formula, err
}

// Typed is like Expression and says which of the kinds it gives; empty when only its evaluation shows that.
func (l *Language) Typed(source string, kinds ...Kind) (*Formula, Kind, error) {
	compiled, kind, err := l.compile(source, kinds...)
	if err != nil {
		return nil, "", err
	}
	return &Formula{segments: []segment{compiled}}, kind, nil
}

func (l *Language) compile(source string, kinds ...Kind) (segment, Kind, error) {
	if len(source) > maxTextLength {
		return segment{}, "", fmt.Errorf("the expression has %d characters: at most %d are allowed", len(source),
			maxTextLength)
	}
	checked, issues := l.env.Compile(source)
	if issues.Err() != nil {
		return segment{}, "", fmt.Errorf("%s; known here: %s", Explain(issues), strings.Join(l.known, ", "))
	}
	kind, err := givenKind(checked.OutputType(), kinds)
	if err != nil {
		return segment{}, "", err
	}
	program, err := l.env.Program(checked, cel.CostLimit(peersCostLimit))
	if err != nil {
		return segment{}, "", err
	}
	return segment{source: source, program: program, longest: maxPeersText}, kind, nil
}

func oneOf(kinds []Kind) string {
	words := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		words = append(words, string(kind))
	}
	return strings.Join(words, " or ")
}

// Text evaluates a formula as text.
func (f *Formula) Text(variables map[string]any) (string, error) {
	var out strings.Builder
	for _, s := range f.segments {
		if s.source == "" {
			out.WriteString(s.literal)
			continue
		}
		value, err := s.eval(variables)
		if err != nil {
			return "", err
		}
		switch value.(type) {
		case string, int64, float64, bool:
			out.WriteString(text(value))
		default:
			return "", fmt.Errorf("placeholder %q gives no text, number or truth value", opening+s.source+"}")
		}
	}
	return out.String(), nil
}

// Truth evaluates an expression that gives true or false.
func (f *Formula) Truth(variables map[string]any) (bool, error) {
	value, err := f.segments[0].eval(variables)
	if err != nil {
		return false, err
	}
	truth, ok := value.(bool)
	if !ok {
		return false, fmt.Errorf("expression %q gives neither true nor false", f.segments[0].source)
	}
	return truth, nil
}

// Texts evaluates an expression that gives a list of texts.
func (f *Formula) Texts(variables map[string]any) ([]string, error) {
	value, err := f.segments[0].eval(variables)
	if err != nil {
		return nil, err
	}
	texts, ok := value.([]string)
	if !ok {
		return nil, fmt.Errorf("expression %q gives no list of texts", f.segments[0].source)
	}
	return texts, nil
}
