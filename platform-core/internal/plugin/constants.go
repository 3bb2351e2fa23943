// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

const (
	// letKey is the field of components.yaml that has the constants. No other part of the package sees it: constants are
	// put where they are used before anything else looks at the document.
	letKey = "let"
	// letPrefix begins the expression of a placeholder that stands for a constant.
	letPrefix = letKey + "."
	// envKey is the field of every list of variables.
	envKey = "env"
	// maxConstants bounds what constants add to a document, in characters and values.
	maxConstants = 1 << 20
)

var constantName = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)

// expandConstants returns the document with every constant in the place of the placeholders that stand for it, without
// "let". What comes of a list has the line on which it is written there.
func expandConstants(doc *document.Document) (*document.Document, []document.Problem) {
	root, ok := doc.Value().(map[string]any)
	if !ok {
		return doc, nil
	}
	c := &constants{document: doc, used: map[string]bool{}, lines: map[string]int{}, room: maxConstants}
	if let, found := root[letKey]; found {
		c.declare(let)
	}
	rest := maps.Clone(root)
	delete(rest, letKey)
	var value any
	if len(c.problems) == 0 {
		value = c.copy(rest, nil, nil)
	}
	if len(c.problems) == 0 {
		c.checkUsed()
	}
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	return doc.Rewritten(value, c.lines), nil
}

// constants copies a document and puts constants in their places.
type constants struct {
	document *document.Document
	declared map[string]any
	used     map[string]bool
	// lines of the copy.
	lines map[string]int
	// open are the constants that are being put in, each within the one before.
	open []string
	// at is where the first of them is used.
	at use
	// room is how much constants may still add.
	room     int
	problems []document.Problem
}

// use is a place in components that a list of constants is put in.
type use struct {
	path document.Path
	// variables says that the list there is one of variables; else it is one of texts.
	variables bool
}

// fail notes a problem once, however often the constant that has it is used.
func (c *constants) fail(path document.Path, format string, args ...any) {
	p := document.Problem{Line: c.document.Line(path), Message: path.String() + " " + fmt.Sprintf(format, args...)}
	if !slices.Contains(c.problems, p) {
		c.problems = append(c.problems, p)
	}
}

// declare checks what each constant is by itself.
func (c *constants) declare(let any) {
	var ok bool
	if c.declared, ok = let.(map[string]any); !ok || len(c.declared) == 0 {
		c.fail(document.Path{letKey}, "must be a map of constants, each with a name and a value")
		return
	}
	for _, name := range c.names() {
		path := constantPath(name)
		if !constantName.MatchString(name) {
			c.fail(path, "has a name that is not allowed: it must be letters and digits that begin with a small letter")
		}
		switch value := c.declared[name].(type) {
		case string:
			c.checkText(path, value)
			if strings.HasSuffix(value, "$") {
				c.fail(path, `ends with "$", which would change the meaning of what follows it: end it before that`)
			}
		case []any:
			c.checkList(path, value)
		default:
			c.fail(path, "must be a text (put it in quotes), a list of texts, or a list of variables as in %s", envKey)
		}
	}
}

func (c *constants) checkList(path document.Path, list []any) {
	if len(list) == 0 {
		c.fail(path, "is an empty list: a constant has at least one element")
	}
	for i, element := range list {
		switch value := element.(type) {
		case string:
			c.checkText(path.Index(i), value)
		case map[string]any:
			if _, named := value["name"]; !named {
				c.fail(path.Index(i), "has no name: a variable has one")
			}
		default:
			c.fail(path.Index(i), "must be a text (put it in quotes), or a variable as in %s", envKey)
		}
	}
}

func (c *constants) checkText(path document.Path, text string) {
	if err := placeholder.Check(text); err != nil {
		c.fail(path, "cannot be read: %v", err)
	}
}

func (c *constants) checkUsed() {
	for _, name := range c.names() {
		if !c.used[name] {
			c.fail(constantPath(name), "is not used by any component: take it out, or use it as ${%s%s}", letPrefix, name)
		}
	}
}

func (c *constants) names() []string { return slices.Sorted(maps.Keys(c.declared)) }

func constantPath(name string) document.Path { return document.Path{letKey, name} }

// copy returns a value with the constants in it. It is written at one path, and is at another one in the copy.
func (c *constants) copy(value any, from, to document.Path) any {
	c.lines[to.Key()] = c.document.Line(from)
	if len(c.open) > 0 {
		text, _ := value.(string)
		c.take(len(text))
	}
	switch node := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(node))
		for _, key := range slices.Sorted(maps.Keys(node)) {
			out[key] = c.field(key, node[key], from.With(key), to.With(key))
		}
		return out
	case []any:
		out := []any{}
		c.elements(node, from, to, &out)
		return out
	}
	return value
}

// field copies the value of a field: a constant can be all of a list, and a part of the value of a variable.
func (c *constants) field(key string, value any, from, to document.Path) any {
	text, ok := value.(string)
	if !ok {
		return c.copy(value, from, to)
	}
	if name, list, found := c.list(text, from); found {
		out := []any{}
		c.splice(name, list, use{from, key == envKey}, to, &out)
		c.lines[to.Key()] = c.document.Line(from)
		return out
	}
	if key == "value" {
		text = c.text(text, from)
	} else {
		placeholder.Substitute(text, func(expression string) (string, bool) {
			if name, found := c.named(expression, from); found && name != "" {
				c.fail(from, "uses the constant %q: constants stand in lists of texts, as in a command, and in %s", name, envKey)
			}
			return "", false
		})
	}
	return c.copy(text, from, to)
}

// elements adds the elements of a list to those of the copy.
func (c *constants) elements(list []any, from, to document.Path, out *[]any) {
	for i, element := range list {
		at := from.Index(i)
		if text, ok := element.(string); ok {
			if name, constant, found := c.list(text, at); found {
				c.splice(name, constant, use{at, from[len(from)-1] == envKey}, to, out)
				continue
			}
			element = c.text(text, at)
		}
		if _, variable := element.(map[string]any); len(c.open) > 0 && variable != c.at.variables {
			what, instead := "a text", "variables"
			if variable {
				what, instead = "a variable", "texts"
			}
			c.fail(c.at.path, "uses the constant %q, which has %s in it: here stands a list of %s", c.open[0], what, instead)
		}
		*out = append(*out, c.copy(element, at, to.Index(len(*out))))
	}
}

// splice adds the elements of a constant to those of the copy.
func (c *constants) splice(name string, list []any, at use, to document.Path, out *[]any) {
	if !c.enter(name, at) {
		return
	}
	c.elements(list, constantPath(name), to, out)
	c.leave()
}

// list returns the constant that a text stands for as a whole, when that is a list.
func (c *constants) list(text string, from document.Path) (name string, list []any, found bool) {
	expression, whole := placeholder.Only(text)
	if !whole || !strings.HasPrefix(expression, letPrefix) {
		return "", nil, false
	}
	if name, found = c.named(expression, from); !found {
		return "", nil, false
	}
	list, found = c.declared[name].([]any)
	return name, list, found
}

// text puts constants in a text.
func (c *constants) text(text string, from document.Path) string {
	return placeholder.Substitute(text, func(expression string) (string, bool) {
		name, found := c.named(expression, from)
		if !found {
			return "", false
		}
		constant, isText := c.declared[name].(string)
		switch {
		case name == "":
			return "", false
		case !isText:
			c.fail(from, "uses the constant %q, which is a list, within a text: it can only be a whole element of a list", name)
			return "", false
		case !c.enter(name, use{path: from}):
			return "", false
		}
		constant = c.text(constant, constantPath(name))
		c.leave()
		c.take(len(constant))
		return constant, true
	})
}

// named says whether an expression stands for a constant, and for which; the name is empty for one that is wrong.
func (c *constants) named(expression string, from document.Path) (name string, found bool) {
	name, found = strings.CutPrefix(expression, letPrefix)
	if !found {
		return "", false
	}
	_, declared := c.declared[name]
	switch {
	case !constantName.MatchString(name):
		c.fail(from, "has the placeholder %q: a constant stands alone between the braces, as in ${%sname}",
			"${"+expression+"}", letPrefix)
	case from[0] != "components" && from[0] != letKey:
		c.fail(from, "uses the constant %q: only components can use constants", name)
	case !declared:
		hint := "there is none"
		if len(c.declared) > 0 {
			hint = "there is " + strings.Join(c.names(), ", ")
		}
		c.fail(from, "uses the constant %q, which is not there: %s", name, hint)
	default:
		c.used[name] = true
		return name, true
	}
	return "", true
}

// enter begins a constant. It says false for one within itself, and when there is no room left.
func (c *constants) enter(name string, at use) bool {
	if first := slices.Index(c.open, name); first >= 0 {
		circle := append(slices.Clone(c.open[first:]), name)
		c.fail(constantPath(name), "is made of itself: %s", strings.Join(circle, ", "))
		return false
	}
	if c.room < 0 {
		return false
	}
	if len(c.open) == 0 {
		c.at = at
	}
	c.open = append(c.open, name)
	return true
}

func (c *constants) leave() { c.open = c.open[:len(c.open)-1] }

// take notes what a constant adds to the document.
func (c *constants) take(length int) {
	c.room -= 1 + length
	if c.room < 0 {
		c.fail(document.Path{letKey}, "adds more than %d characters to the components: that is the most that is allowed",
			maxConstants)
	}
}
