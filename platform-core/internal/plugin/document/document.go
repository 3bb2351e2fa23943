// SPDX-License-Identifier: Apache-2.0

// Package document reads one strict YAML document and knows the line of
// everything in it. Unknown fields, wrong types, duplicate keys, aliases and
// tags are refused, each with its line, and all of them at once.
package document

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of a document.
const maxDepth = 64

// Path leads to a value: keys of maps, and indices of lists as decimal text.
type Path []string

// String returns the path as people write it, for example components[0].name.
func (p Path) String() string {
	var out strings.Builder
	for i, key := range p {
		switch _, err := strconv.Atoi(key); {
		case err == nil && i > 0:
			out.WriteString("[" + key + "]")
		case i > 0:
			out.WriteString("." + key)
		default:
			out.WriteString(key)
		}
	}
	return out.String()
}

// Key returns the path as a key for maps.
func (p Path) Key() string { return strings.Join(p, "\x00") }

// With returns the path of a child.
func (p Path) With(key string) Path { return append(p[:len(p):len(p)], key) }

// Index returns the path of an element of a list.
func (p Path) Index(i int) Path { return p.With(strconv.Itoa(i)) }

// Below says whether the path is that of a value within the one at another path.
func (p Path) Below(other Path) bool {
	return len(p) > len(other) && slices.Equal(p[:len(other)], other)
}

// Problem is one thing that is wrong with a document.
type Problem struct {
	// Line from 1; 0 when it is about the whole document.
	Line int
	// Message is one sentence.
	Message string
}

// Error returns the line and the message.
func (p Problem) Error() string {
	if p.Line == 0 {
		return p.Message
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Message)
}

// Document is one parsed document.
type Document struct {
	root  *yaml.Node
	lines map[string]int
	value any
}

// Parse reads a document. It returns nil and the problems when it cannot be read.
func Parse(text string) (*Document, []Problem) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var file yaml.Node
	if err := decoder.Decode(&file); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, []Problem{{Line: 1, Message: "the document is empty"}}
		}
		return nil, []Problem{syntaxProblem(err)}
	}
	var more yaml.Node
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, []Problem{syntaxProblem(err)}
		}
		return nil, []Problem{{Line: more.Line, Message: "there is a second document: one file holds one document"}}
	}
	if file.Kind != yaml.DocumentNode || len(file.Content) != 1 {
		return nil, []Problem{{Line: 1, Message: "the document is empty"}}
	}
	r := reader{lines: map[string]int{}}
	d := &Document{root: file.Content[0], lines: r.lines}
	d.value = r.read(d.root, nil)
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return d, nil
}

// Value returns the document as maps, lists and scalars; whole numbers are int64.
// The caller must not change it.
func (d *Document) Value() any { return d.value }

// Rewritten returns a document with another value, made of this one's, and the lines of its paths by their keys.
func (d *Document) Rewritten(value any, lines map[string]int) *Document {
	return &Document{root: d.root, lines: lines, value: value}
}

// Line returns the line of a path, or that of its nearest parent that is there.
func (d *Document) Line(path Path) int {
	for n := len(path); n >= 0; n-- {
		if line, ok := d.lines[path[:n].Key()]; ok {
			return line
		}
	}
	return 0
}

// Has says whether there is a value at a path.
func (d *Document) Has(path Path) bool {
	_, ok := d.lines[path.Key()]
	return ok
}

var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func syntaxProblem(err error) Problem {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if m := syntaxLine.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1])
		return Problem{Line: max(line, 1), Message: "this is not YAML: " + m[2] + indentation(m[2])}
	}
	return Problem{Line: 1, Message: "this is not YAML: " + text}
}

// indentation says more of what is mostly a wrong indentation. The line of some errors is that where a list or a map
// begins, while the one that is wrong comes after it.
func indentation(message string) string {
	switch message {
	case "did not find expected '-' indicator", "did not find expected key":
		return ": in what begins here, a line is indented otherwise than those of the same list or map"
	case "mapping values are not allowed in this context":
		return ": the line is indented more than the one before it, or has a text with a colon that needs quotes"
	}
	return ""
}

// reader turns nodes into values and notes lines and problems.
type reader struct {
	lines    map[string]int
	problems []Problem
}

func (r *reader) problem(node *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, Problem{Line: node.Line, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) read(node *yaml.Node, path Path) any {
	if len(path) == 0 {
		r.lines[""] = node.Line
	} else if _, ok := r.lines[path.Key()]; !ok {
		r.lines[path.Key()] = node.Line
	}
	if len(path) > maxDepth {
		r.problem(node, "it is nested more than %d levels deep", maxDepth)
		return nil
	}
	if node.Anchor != "" || node.Kind == yaml.AliasNode {
		r.problem(node, "anchors and aliases are not supported: write the value out")
		return nil
	}
	switch node.Kind {
	case yaml.MappingNode:
		return r.readMap(node, path)
	case yaml.SequenceNode:
		list := make([]any, 0, len(node.Content))
		for i, child := range node.Content {
			list = append(list, r.read(child, path.Index(i)))
		}
		return list
	default:
		return r.readScalar(node)
	}
}

func (r *reader) readMap(node *yaml.Node, path Path) any {
	values := make(map[string]any, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, child := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" {
			r.problem(key, "a key must be plain text")
			continue
		}
		if key.ShortTag() == "!!merge" {
			r.problem(key, "merge keys are not supported: write the value out")
			continue
		}
		if _, ok := values[key.Value]; ok {
			r.problem(key, "key %q is there twice", key.Value)
			continue
		}
		childPath := path.With(key.Value)
		r.lines[childPath.Key()] = key.Line
		values[key.Value] = r.read(child, childPath)
	}
	return values
}

func (r *reader) readScalar(node *yaml.Node) any {
	var value any
	switch tag := node.ShortTag(); tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!null":
		if err := node.Decode(&value); err != nil {
			r.problem(node, "cannot read %q: %v", node.Value, strings.TrimPrefix(err.Error(), "yaml: "))
			return nil
		}
	case "!!timestamp":
		// A date is text to everything that reads these documents.
		return node.Value
	default:
		r.problem(node, "the tag %s is not supported", tag)
		return nil
	}
	switch v := value.(type) {
	case int:
		return int64(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			r.problem(node, "the number %s is not finite", node.Value)
			return nil
		}
		return v
	case uint64:
		r.problem(node, "the number %d is too big", v)
		return nil
	default:
		return value
	}
}
