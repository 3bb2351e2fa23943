// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"

	"go.yaml.in/yaml/v3"
)

// BaseFileName is the name of the definition that comes before every image of packages with base "standard".
const BaseFileName = "base.yaml"

// Source is a definition with where it was read.
type Source struct {
	Definition
	// Name is the name of the image: that of its folder.
	Name string
	// Dir is the folder of the definition.
	Dir string
}

// Load reads the base and every <dir>/<image>/image.yaml, sorted by name.
func Load(dir string) (base Source, images []Source, err error) {
	if base, err = Read(filepath.Join(dir, BaseFileName)); err != nil {
		return base, nil, err
	}
	if base.Debian == nil {
		return base, nil, fmt.Errorf("%s:1: the base has no debian part", filepath.Join(dir, BaseFileName))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", FileName))
	if err != nil {
		return base, nil, err
	}
	sort.Strings(files)
	for _, file := range files {
		s, err := Read(file)
		if err != nil {
			return base, nil, err
		}
		images = append(images, s)
	}
	return base, images, nil
}

// Read reads and checks one definition. Errors start with file:line.
func Read(file string) (Source, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Source{}, fmt.Errorf("cannot read image definition: %w", err)
	}
	s := Source{Name: filepath.Base(filepath.Dir(file)), Dir: filepath.Dir(file)}
	s.Definition, err = Parse(file, data)
	return s, err
}

// Parse reads and checks the text of a definition; file is its name in errors.
func Parse(file string, data []byte) (Definition, error) {
	var def Definition
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	err := decoder.Decode(&def)
	if errors.Is(err, io.EOF) {
		return def, fmt.Errorf("%s:1: the definition is empty", file)
	}
	if err != nil {
		return def, located(file, err)
	}
	var more yaml.Node
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return def, fmt.Errorf("%s:%d: one file holds one definition, found a second document", file, max(more.Line, 1))
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return def, located(file, err)
	}
	var all []error
	for _, p := range def.problems() {
		all = append(all, fmt.Errorf("%s:%d: %s: %s", file, p.line(&root), p.field(), p.text))
	}
	return def, errors.Join(all...)
}

var (
	yamlLine     = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)`)
	unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)
)

// located rewrites the decoder's errors so that each starts with file:line.
func located(file string, err error) error {
	texts := []string{err.Error()}
	var typed *yaml.TypeError
	if errors.As(err, &typed) {
		texts = typed.Errors
	}
	var all []error
	for _, text := range texts {
		line := "1"
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			line, text = m[1], m[2]
		}
		text = unknownField.ReplaceAllString(text, `unknown field "$1"`)
		all = append(all, fmt.Errorf("%s:%s: %s", file, line, text))
	}
	return errors.Join(all...)
}
