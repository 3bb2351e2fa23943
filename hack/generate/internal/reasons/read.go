// SPDX-License-Identifier: Apache-2.0

// Package reasons writes docs/conditions.md: a table of all condition types and reasons of the suite, from the comments
// of their constants.
package reasons

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

// kindsMark begins the line of a condition's comment that lists the kinds which have it.
const kindsMark = "Kinds: "

var (
	name     = regexp.MustCompile(`^[rR]eason[A-Z]\w*$|^[A-Z]\w*Condition$`)
	value    = regexp.MustCompile(`^[A-Z][A-Za-z]*$`)
	sentence = regexp.MustCompile(`[.] ([A-Z])`)
)

var errBlock = errors.New(`the block of reasons needs a comment "Reasons of <what>. <Which kinds have them>."`)

// entry is one condition type or reason.
type entry struct {
	// Value is what objects have.
	Value string
	// Kinds that have the condition; empty for a reason.
	Kinds string
	// Meaning and Remedy are the parts of the comment.
	Meaning, Remedy string
}

// section is a block of constants, or several with the same title.
type section struct {
	// Title and Intro are the first sentence of the block's comment and the rest of it.
	Title, Intro string
	Entries      []entry
	// Conditions says that the entries are types and not reasons.
	Conditions bool
}

// read returns the sections of the repository at root, those of the core API first. The error lists all constants whose
// comments do not have the form.
func read(root string) ([]section, error) {
	paths, err := sources(root)
	if err != nil {
		return nil, err
	}
	var sections []section
	var problems []error
	for _, path := range paths {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		found, err := parse(path, data)
		problems = append(problems, err)
		for _, one := range found {
			sections, err = merge(sections, one)
			problems = append(problems, err)
		}
	}
	return sections, errors.Join(problems...)
}

// merge adds a section, or its entries to the one that has the same title. A value has one meaning in a section.
func merge(sections []section, one section) ([]section, error) {
	at := slices.IndexFunc(sections, func(s section) bool { return s.Title == one.Title })
	if at < 0 {
		at = len(sections)
		sections = append(sections, section{Title: one.Title, Intro: one.Intro, Conditions: one.Conditions})
	}
	var problems []error
	for _, e := range one.Entries {
		if slices.ContainsFunc(sections[at].Entries, func(known entry) bool { return known.Value == e.Value }) {
			problems = append(problems, fmt.Errorf("%q: two constants have the value %q: use one of them", one.Title, e.Value))
		}
		sections[at].Entries = append(sections[at].Entries, e)
	}
	return sections, errors.Join(problems...)
}

// sources are the Go files of the engine and of the operators, without tests and generated ones.
func sources(root string) ([]string, error) {
	const core = "platform-core/api/v1"
	folders := []string{core, "platform-core/agentproto", "platform-core/internal", "platform-core/sdk"}
	for _, operator := range repo.Operators {
		folders = append(folders, operator.Name()+"/api", operator.Name()+"/internal")
	}
	var paths []string
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			file := filepath.Base(path)
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") ||
				strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "zz_generated.") {
				return err
			}
			below, err := filepath.Rel(root, path)
			paths = append(paths, filepath.ToSlash(below))
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int {
		return cmp.Compare(rank(a, core), rank(b, core))
	})
	return paths, nil
}

// rank puts the conditions and reasons of the core API before those of its other files, and these before all others.
func rank(path, core string) int {
	order := []string{core + "/conditions.go", core + "/reasons.go", core}
	at := slices.IndexFunc(order, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
	if at < 0 {
		return len(order)
	}
	return at
}

// parse returns the sections of one file.
func parse(path string, data []byte) ([]section, error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var sections []section
	var problems []error
	for _, declaration := range file.Decls {
		block, ok := declaration.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		found, err := parseBlock(block)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", positions.Position(block.Pos()), err))
		}
		sections = append(sections, found...)
	}
	return sections, errors.Join(problems...)
}

// parseBlock returns the condition types and the reasons of a block of constants, each as one section.
func parseBlock(block *ast.GenDecl) ([]section, error) {
	types, reasons := section{Title: "Conditions", Conditions: true}, section{}
	var problems []error
	for _, spec := range block.Specs {
		constant := spec.(*ast.ValueSpec)
		text, ok := textOf(constant)
		if !ok {
			continue
		}
		of := &reasons
		if strings.HasSuffix(constant.Names[0].Name, "Condition") {
			of = &types
		}
		one, err := parseComment(constant.Names[0].Name, constant.Doc.Text(), of.Conditions)
		one.Value = text
		of.Entries, problems = append(of.Entries, one), append(problems, err)
	}
	var sections []section
	if len(types.Entries) > 0 {
		sections = append(sections, types)
	}
	if len(reasons.Entries) > 0 {
		about := strings.Join(strings.Fields(block.Doc.Text()), " ")
		if at := sentence.FindStringIndex(about); at != nil && strings.HasPrefix(about, "Reasons of ") {
			reasons.Title, reasons.Intro = about[:at[0]], about[at[0]+2:]
		} else {
			problems = append(problems, errBlock)
		}
		sections = append(sections, reasons)
	}
	return sections, errors.Join(problems...)
}

// textOf returns the value of a constant that is a condition type or a reason by its name and its value.
func textOf(constant *ast.ValueSpec) (string, bool) {
	if len(constant.Names) != 1 || len(constant.Values) != 1 || !name.MatchString(constant.Names[0].Name) {
		return "", false
	}
	literal, ok := constant.Values[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil && value.MatchString(text)
}

// parseComment splits a comment "<name>: <meaning>. <What the user can do>.": the last sentence is what the user can
// do. That of a condition has a last line "Kinds: <kinds>." as well.
func parseComment(of, comment string, condition bool) (entry, error) {
	var one entry
	malformed := fmt.Errorf(`%s needs a comment "%s: <meaning>. <What the user can do>."`, of, of)
	text := strings.Join(strings.Fields(comment), " ")
	if condition {
		var ok bool
		if text, one.Kinds, ok = strings.Cut(text, " "+kindsMark); !ok || !strings.HasSuffix(one.Kinds, ".") {
			return one, fmt.Errorf(`%s needs a line "%s<kinds>." at the end of its comment`, of, kindsMark)
		}
		one.Kinds = strings.TrimSuffix(one.Kinds, ".")
	}
	text, ok := strings.CutPrefix(text, of+": ")
	if !ok || !strings.HasSuffix(text, ".") {
		return one, malformed
	}
	ends := sentence.FindAllStringIndex(text, -1)
	if len(ends) == 0 {
		return one, malformed
	}
	last := ends[len(ends)-1]
	one.Meaning, one.Remedy = strings.ToUpper(text[:1])+text[1:last[0]], text[last[1]-1:len(text)-1]
	return one, nil
}
