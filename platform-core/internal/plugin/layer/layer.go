// SPDX-License-Identifier: Apache-2.0

// Package layer puts what a version of a plugin changes over the files of the version that it extends, and knows of
// each line of the outcome which file it is from.
package layer

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// Place is a line of a file.
type Place struct {
	// File as it was named to New.
	File string
	// Line from 1; 0 for the file as a whole.
	Line int
}

// Problem is one thing that is wrong, and where.
type Problem struct {
	Place
	// Message is one sentence.
	Message string
}

// File is a text, and where each line of it is from.
type File struct {
	// Text of the file.
	Text string
	// name is that of the last layer.
	name string
	// places by line, from the first on. One without a file is that of the line before.
	places []Place
}

// New returns a file of one layer.
func New(name, text string) File {
	f := File{Text: text, name: name, places: make([]Place, strings.Count(text, "\n")+1)}
	for i := range f.places {
		f.places[i] = Place{File: name, Line: i + 1}
	}
	return f
}

// Place is where a line is from, and for line 0 the last layer as a whole.
func (f File) Place(line int) Place {
	for n := min(line, len(f.places)); n > 0; n-- {
		if at := f.places[n-1]; at.File != "" {
			return at
		}
	}
	return Place{File: f.name}
}

// Beside is the same file, as it is named from the folder of another version.
func (f File) Beside(version string) File {
	rename := func(file string) string {
		if file == "" {
			return ""
		}
		return path.Join("..", version, file)
	}
	f.name, f.places = rename(f.name), slices.Clone(f.places)
	for i := range f.places {
		f.places[i].File = rename(f.places[i].File)
	}
	return f
}

// Append returns a file with the text of a change after that of its base, as is right for CUE: what both say is true of
// the outcome.
func Append(base, change File) File {
	text := base.Text
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	out := File{Text: text + change.Text, name: change.name,
		places: make([]Place, strings.Count(text, "\n"), strings.Count(text+change.Text, "\n")+1)}
	copy(out.places, base.places)
	out.places = append(out.places, change.places...)
	return out
}

// Merge returns a YAML file with a change put over its base. The outcome counts only where there are no problems.
//
// Maps merge key by key, and a key whose value is null is taken away. Lists of named things merge by name: each element
// changes that of its name, or is added at the end; one with "$patch: delete" is taken away. What else a list, a text
// or a number says takes the place of what the base says. A map with "$patch: replace" takes the place of the base's as
// a whole, and so does a list that begins with such a map.
func Merge(base, change File) (File, []Problem) {
	m := merger{places: map[*yaml.Node]Place{}}
	under, over := m.parse(base), m.parse(change)
	if len(m.problems) > 0 {
		return File{}, m.problems
	}
	merged := m.node(under, over, nil)
	if len(m.problems) > 0 {
		return File{}, m.problems
	}
	out, err := m.write(merged, change.name)
	if err != nil {
		return File{}, []Problem{{Place{File: change.name}, "it cannot be put over the version that this one extends: " +
			err.Error()}}
	}
	return out, nil
}

// parse reads the one value of a document and notes where each part of it is from. It is nil for one that cannot be
// read.
func (m *merger) parse(f File) *yaml.Node {
	if _, problems := document.Parse(f.Text); len(problems) > 0 {
		for _, p := range problems {
			m.problems = append(m.problems, Problem{f.Place(p.Line), p.Message})
		}
		return nil
	}
	var file yaml.Node
	if err := yaml.Unmarshal([]byte(f.Text), &file); err != nil {
		m.problems = append(m.problems, Problem{f.Place(1), "this is not YAML: " + err.Error()})
		return nil
	}
	m.note(f, &file)
	return file.Content[0]
}

func (m *merger) note(f File, node *yaml.Node) {
	m.places[node] = f.Place(node.Line)
	for _, child := range node.Content {
		m.note(f, child)
	}
}

// write makes a text of a value, and notes where each line of that is from.
func (m *merger) write(value *yaml.Node, name string) (File, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(value)
	var written yaml.Node
	if err == nil {
		err = yaml.Unmarshal(out.Bytes(), &written)
	}
	if err != nil {
		return File{}, err
	}
	f := File{Text: out.String(), name: name, places: make([]Place, bytes.Count(out.Bytes(), []byte("\n"))+1)}
	m.trace(&f, value, written.Content[0])
	return f, nil
}

// trace follows what was written through what it was written from: the two have the same shape.
func (m *merger) trace(f *File, value, written *yaml.Node) {
	if at := &f.places[written.Line-1]; at.File == "" {
		*at = m.places[value]
	}
	for i := range min(len(written.Content), len(value.Content)) {
		m.trace(f, value.Content[i], written.Content[i])
	}
}
