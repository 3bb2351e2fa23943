// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// tree is a document whose texts may be templates, by the key of their path.
type tree struct {
	value     any
	templates map[string]leafTemplate
}

// leafTemplate is a compiled text; asText when the field that it is for is text.
type leafTemplate struct {
	*placeholder.Template
	path   document.Path
	asText bool
}

// leafError is an evaluation that failed, and where.
type leafError struct {
	path document.Path
	err  error
}

func (e *leafError) Error() string { return fmt.Sprintf("%s: %v", e.path, e.err) }
func (e *leafError) Unwrap() error { return e.err }

// below are the texts below a path, in order of their paths.
func (t *tree) below(at document.Path) []leafTemplate {
	var below []leafTemplate
	for _, key := range slices.Sorted(maps.Keys(t.templates)) {
		if text := t.templates[key]; len(text.path) > len(at) && slices.Equal(text.path[:len(at)], at) {
			below = append(below, text)
		}
	}
	return below
}

func newTree() *tree { return &tree{templates: map[string]leafTemplate{}} }

// compile notes the template of a text. It says whether its value is of the field's kind, and known only later.
func (t *tree) compile(path document.Path, text string, kind reflect.Kind, scope placeholder.Scope) (bool, error) {
	if !placeholder.In(text) {
		return false, nil
	}
	template, err := placeholder.Compile(text, scope)
	if err != nil {
		return false, err
	}
	if template.Kind() == placeholder.List && !inList(path) {
		return false, errors.New("the placeholder gives a list of texts: only a command and the arguments of an entry take " +
			"one, as an element")
	}
	if err := fits(template, kind); err != nil {
		return false, err
	}
	t.templates[path.Key()] = leafTemplate{Template: template, path: path, asText: kind == reflect.String}
	return true, nil
}

// compileCondition notes the expression that says whether an element is wanted.
func (t *tree) compileCondition(path document.Path, text string) error {
	template, err := placeholder.CompileExpression(text, scopeOf(path))
	if err != nil {
		return err
	}
	if template.Late() || template.Kind() != placeholder.Bool {
		return errors.New("the expression must give true or false, and cannot look at the pod")
	}
	t.templates[path.Key()] = leafTemplate{Template: template, path: path}
	return nil
}

// fits says whether a template gives what a field of this kind takes.
func fits(template *placeholder.Template, kind reflect.Kind) error {
	want := placeholder.Kind("")
	switch kind {
	case reflect.String:
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		want = placeholder.Int
	case reflect.Float32, reflect.Float64:
		want = placeholder.Number
	case reflect.Bool:
		want = placeholder.Bool
	case reflect.Map, reflect.Slice:
		return errors.New("a placeholder cannot give a map or a list")
	}
	if template.Late() {
		return errors.New("a placeholder that uses pod is only allowed where the field is text")
	}
	if want != "" && template.Kind() != want {
		return fmt.Errorf("the placeholder gives %s: the field takes %s", template.Kind(), want)
	}
	return nil
}

// at returns the part of a tree below a path; nil when there is none.
func (t *tree) at(path document.Path) any {
	value := t.value
	for _, key := range path {
		switch node := value.(type) {
		case map[string]any:
			value = node[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(node) {
				return nil
			}
			value = node[i]
		default:
			return nil
		}
	}
	return value
}

// evaluate copies the part of a tree below a path, with every template replaced by what eval gives.
func (t *tree) evaluate(path document.Path, eval func(document.Path, *placeholder.Template) (any, error)) (any, error) {
	return t.copy(t.at(path), path, eval)
}

func (t *tree) copy(value any, path document.Path,
	eval func(document.Path, *placeholder.Template) (any, error)) (any, error) {
	switch node := value.(type) {
	case map[string]any:
		if conditional(path) {
			if wanted, err := t.wanted(node, path, eval); err != nil || !wanted {
				return leftOut{}, err
			}
		}
		out := make(map[string]any, len(node))
		for key, child := range node {
			if key == whenKey && conditional(path) {
				continue
			}
			copied, err := t.copy(child, path.With(key), eval)
			if err != nil {
				return nil, err
			}
			out[key] = copied
		}
		return out, nil
	case []any:
		out := make([]any, 0, len(node))
		for i, child := range node {
			copied, err := t.copy(child, path.Index(i), eval)
			if err != nil {
				return nil, err
			}
			switch typed := copied.(type) {
			case leftOut:
			case []string:
				for _, text := range typed {
					out = append(out, text)
				}
			default:
				out = append(out, copied)
			}
		}
		return out, nil
	}
	template, ok := t.templates[path.Key()]
	if !ok {
		return value, nil
	}
	result, err := eval(path, template.Template)
	if err != nil {
		return nil, &leafError{path: path, err: err}
	}
	if template.asText && template.Kind() != placeholder.List {
		result = placeholder.FormatValue(result)
	}
	return result, nil
}

// whenKey is the field of an entry, a variable or a route whose expression says whether it is there.
const whenKey = "when"

// leftOut stands for an element of a list that is not wanted.
type leftOut struct{}

// conditional says whether what is at a path of components.yaml has the field "when".
func conditional(path document.Path) bool {
	if len(path) == 4 {
		return path[0] == "components" && path[2] == "routes"
	}
	return len(path) > 4 && inPlan(path) && (path[len(path)-2] == "entries" || path[len(path)-2] == "env")
}

// inList says whether the text at a path is an element of a list that a placeholder may add several texts to.
func inList(path document.Path) bool {
	if !perPod(path) {
		return false
	}
	list := path[len(path)-2]
	return list == "command" || list == "each" || list == "args"
}

// wanted says whether an element that has a condition fulfils it.
func (t *tree) wanted(node map[string]any, path document.Path,
	eval func(document.Path, *placeholder.Template) (any, error)) (bool, error) {
	condition, ok := node[whenKey]
	if !ok {
		return true, nil
	}
	value, err := t.copy(condition, path.With(whenKey), eval)
	return value == true, err
}
