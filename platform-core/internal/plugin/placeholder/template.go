// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Kind is the type of what a Template gives.
type Kind string

// Kinds.
const (
	Text   Kind = "text"
	Int    Kind = "a whole number"
	Number Kind = "a number"
	Bool   Kind = "true or false"
	// List of texts, in a plan.
	List Kind = "a list of texts"
)

// Template is one compiled text. It is safe for concurrent use.
type Template struct {
	scope    Scope
	segments []segment
	kind     Kind
	usesFQDN bool
	// usesExternal: see UsesExternal.
	usesExternal bool
	// usesZone: see UsesZone.
	usesZone bool
	// usesSource: see UsesSource.
	usesSource bool
	// params is what the expressions look at among the parameters.
	params paramsUse
}

// segment is a literal, or an expression with its program; the program of a late one is compiled by Late.
type segment struct {
	literal string
	source  string
	program cel.Program
	late    bool
	// longest is the length of text that the program may give.
	longest int
}

// Compile parses and type-checks a text.
func Compile(text string, scope Scope) (*Template, error) {
	pieces, err := scan(text)
	if err != nil {
		return nil, err
	}
	t := &Template{scope: scope, kind: Text}
	for _, p := range pieces {
		if !p.expression {
			t.segments = append(t.segments, segment{literal: p.text})
			continue
		}
		compiled, kind, err := t.compile(p.text, scope)
		if err != nil {
			return nil, fmt.Errorf("placeholder %q: %w", "${"+p.text+"}", err)
		}
		if kind == List && len(pieces) > 1 {
			return nil, fmt.Errorf("placeholder %q: it gives %s, and cannot be a part of a text", "${"+p.text+"}", kind)
		}
		if len(pieces) == 1 {
			t.kind = kind
		}
		t.segments = append(t.segments, compiled)
	}
	return t, nil
}

// CompileExpression compiles an expression that stands alone, without "${" and "}".
func CompileExpression(source string, scope Scope) (*Template, error) {
	t := &Template{scope: scope}
	compiled, kind, err := t.compile(source, scope)
	if err != nil {
		return nil, err
	}
	t.segments, t.kind = []segment{compiled}, kind
	return t, nil
}

// Kind of the outcome: that of the expression when the text is just one, else Text.
func (t *Template) Kind() Kind { return t.kind }

// Late says whether a part of the text waits for the pod.
func (t *Template) Late() bool {
	for _, s := range t.segments {
		if s.late {
			return true
		}
	}
	return false
}

// Fixed says whether the text is the same for every instance but for what waits for the pod.
func (t *Template) Fixed() bool {
	return !slices.ContainsFunc(t.segments, func(s segment) bool { return s.program != nil })
}

// Parameters lists the parameters that the expressions look at. It says false when one may look at all of them.
func (t *Template) Parameters() ([]string, bool) {
	return slices.Clone(t.params.names), !t.params.all
}

// UsesFQDN says whether the text needs the pod's DNS name.
func (t *Template) UsesFQDN() bool { return t.usesFQDN }

// UsesExternal says whether the text needs the address that clients outside of the cluster have for the pod.
func (t *Template) UsesExternal() bool { return t.usesExternal }

// UsesZone says whether the text needs the zone of the pod's node.
func (t *Template) UsesZone() bool { return t.usesZone }

// UsesSource says whether the text is another one for each pod that data is taken from.
func (t *Template) UsesSource() bool { return t.usesSource }

func (t *Template) compile(source string, scope Scope) (segment, Kind, error) {
	if len(source) > maxTextLength {
		return segment{}, "", fmt.Errorf("the expression has %d characters: at most %d are allowed", len(source),
			maxTextLength)
	}
	if scope == Plan && ofPod[source] {
		t.usesFQDN = t.usesFQDN || source == "pod.fqdn"
		t.usesExternal = t.usesExternal || strings.HasPrefix(source, "pod.external.")
		t.usesZone = t.usesZone || source == "pod.zone"
		return segment{source: source, late: true}, Text, nil
	}
	env := environments[scope]()
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		return segment{}, "", fmt.Errorf("%s; known here: %s", Explain(issues), known(scope))
	}
	kind, err := kindOf(checked.OutputType())
	if err != nil {
		return segment{}, "", err
	}
	if kind == List && scope != Plan {
		return segment{}, "", fmt.Errorf("it gives %s, which only the plan of the agents takes", kind)
	}
	uses := usesOf(checked)
	if kind == List && (uses.params.all || len(uses.params.names) > 0) {
		return segment{}, "", errors.New(
			"a list cannot be made of parameters: what a user writes is never more than one text")
	}
	if scope == PodTemplate && uses.replicas {
		return segment{}, "", errors.New("a pod template cannot use component.replicas or set.replicas: scaling would " +
			"replace every pod")
	}
	t.usesFQDN = t.usesFQDN || uses.pod && uses.fqdn
	t.usesSource = t.usesSource || uses.source
	t.params.names = append(t.params.names, uses.params.names...)
	t.params.all = t.params.all || uses.params.all
	if scope == PodTemplate && uses.pod {
		if _, issues := environments[Late]().Compile(source); issues.Err() != nil {
			return segment{}, "", errors.New("an expression that uses pod cannot use anything else: write two placeholders")
		}
		return segment{source: source, late: true}, kind, nil
	}
	limit, longest := uint64(costLimit), maxTextLength
	if uses.peers {
		limit, longest = peersCostLimit, maxPeersText
	}
	estimate, err := env.EstimateCost(checked, sizes{})
	if err != nil {
		return segment{}, "", fmt.Errorf("cannot estimate its cost: %w", err)
	}
	if estimate.Max > limit {
		return segment{}, "", fmt.Errorf("it may cost %d steps: at most %d are allowed", estimate.Max, limit)
	}
	program, err := env.Program(checked, cel.CostLimit(limit))
	if err != nil {
		return segment{}, "", err
	}
	return segment{source: source, program: program, longest: longest}, kind, nil
}

// ofPod are the expressions of a plan that the agents fill in. They know no others.
var ofPod = map[string]bool{
	"pod.name": true, "pod.ordinal": true, "pod.fqdn": true, "pod.zone": true, "pod.external.host": true,
	"pod.external.port": true,
}

// canPrecede refuses a text right before what the agents fill in: in a plan, a "$" there would make a literal of that.
func (t *Template) canPrecede(text string) error {
	if t.scope == Plan && strings.HasSuffix(text, "$") {
		return errors.New("a $ cannot stand right before a placeholder of the pod")
	}
	return nil
}

// Eval gives the value of a text: string, int64, float64 or bool. Parts that
// wait for the pod make it an error; Partial keeps them.
func (t *Template) Eval(v Values) (any, error) {
	return t.run(func(s segment) (any, error) {
		if s.late {
			return nil, fmt.Errorf("placeholder %q: pod is not known yet", "${"+s.source+"}")
		}
		return s.eval(v.bindings())
	})
}

// Partial fills in all but what waits for the pod. Text comes out escaped: ready to be compiled for scope Late, or, of
// a plan, for the agents (package podtext).
func (t *Template) Partial(v Values) (any, error) {
	if len(t.segments) == 1 && !t.segments[0].late {
		value, err := t.Eval(v)
		switch typed := value.(type) {
		case string:
			return Escape(typed), err
		case []string:
			for i := range typed {
				typed[i] = Escape(typed[i])
			}
		}
		return value, err
	}
	var out, run strings.Builder
	for _, s := range t.segments {
		switch {
		case s.late:
			if err := t.canPrecede(run.String()); err != nil {
				return nil, fmt.Errorf("placeholder %q: %w", "${"+s.source+"}", err)
			}
			out.WriteString(escapeBefore(run.String()))
			run.Reset()
			out.WriteString(opening + s.source + "}")
		case s.program == nil:
			run.WriteString(s.literal)
		default:
			value, err := s.eval(v.bindings())
			if err != nil {
				return nil, err
			}
			run.WriteString(text(value))
		}
	}
	out.WriteString(Escape(run.String()))
	return out.String(), nil
}

// escapeBefore escapes a text that a placeholder follows: a "$" at its end would
// make a literal of that, and becomes a placeholder of its own.
func escapeBefore(text string) string {
	rest := strings.TrimRight(text, "$")
	if dollars := text[len(rest):]; dollars != "" {
		return Escape(rest) + opening + strconv.Quote(dollars) + "}"
	}
	return Escape(text)
}

func (t *Template) run(eval func(segment) (any, error)) (any, error) {
	var out strings.Builder
	for _, s := range t.segments {
		if s.source == "" {
			out.WriteString(s.literal)
			continue
		}
		value, err := eval(s)
		if err != nil {
			return nil, err
		}
		if len(t.segments) == 1 {
			return value, nil
		}
		out.WriteString(text(value))
	}
	return out.String(), nil
}

func (s segment) eval(bindings map[string]any) (any, error) {
	out, _, err := s.program.Eval(bindings)
	if err != nil {
		return nil, fmt.Errorf("placeholder %q cannot be evaluated: %w", "${"+s.source+"}", err)
	}
	if _, ok := out.(traits.Lister); ok {
		return s.list(out)
	}
	value := out.Value()
	if str, ok := value.(string); ok && len(str) > s.longest {
		return nil, fmt.Errorf("placeholder %q gives %d characters: at most %d are allowed", "${"+s.source+"}", len(str),
			s.longest)
	}
	return value, nil
}

// list gives the texts of a list.
func (s segment) list(out ref.Val) (any, error) {
	native, err := out.ConvertToNative(reflect.TypeFor[[]string]())
	if err != nil {
		return nil, fmt.Errorf("placeholder %q cannot be evaluated: %w", "${"+s.source+"}", err)
	}
	texts := slices.Clone(native.([]string))
	for _, text := range texts {
		if len(text) > s.longest {
			return nil, fmt.Errorf("placeholder %q gives %d characters: at most %d are allowed", "${"+s.source+"}", len(text),
				s.longest)
		}
	}
	return texts, nil
}

func (v Values) bindings() map[string]any {
	params := v.Params
	if params == nil {
		params = map[string]string{}
	}
	return map[string]any{"app": v.App, "component": v.Component, "set": v.Set, "params": params, "peers": v.Peers,
		"sets": v.Sets}
}

// FormatValue writes a value of Eval as text.
func FormatValue(value any) string { return text(value) }

func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

func kindOf(t *cel.Type) (Kind, error) {
	switch t.Kind() {
	case cel.StringKind:
		return Text, nil
	case cel.IntKind:
		return Int, nil
	case cel.DoubleKind:
		return Number, nil
	case cel.BoolKind:
		return Bool, nil
	case cel.ListKind:
		if parameters := t.Parameters(); len(parameters) == 1 && parameters[0].Kind() == cel.StringKind {
			return List, nil
		}
	}
	return "", fmt.Errorf("it gives %s: a placeholder gives a string, an int, a double or a bool", t)
}
