// SPDX-License-Identifier: Apache-2.0

// Package kindlines writes into docs/kinds/authoring.md how many lines of Go the kinds of the suite have that somebody
// wrote by hand.
//
// Lines with nothing but a comment, markers among them, or blanks are not counted, nor are tests and generated files.
package kindlines

import (
	"cmp"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Kind is what one kind is made of.
type Kind struct {
	// Name is that of the kind, such as Redis.
	Name string
	// Folder has its code, relative to the root.
	Folder string
	// Types and Code are the lines of its files in api/v1 and of its folder.
	Types, Code int
}

// Sum is all lines of the kind.
func (k Kind) Sum() int { return k.Types + k.Code }

// Shared is what several kinds of one operator are made of.
type Shared struct {
	// Operator is the folder of the operator.
	Operator string
	// Names of the files in api/v1 and the packages in internal.
	Names []string
	// Lines of all these.
	Lines int
}

// count returns the kinds of these operators, and what kinds share.
func count(root string, operators []string) ([]Kind, []Shared, error) {
	var kinds []Kind
	var shared []Shared
	for _, operator := range operators {
		of, rest, err := countOperator(root, operator)
		if err != nil {
			return nil, nil, err
		}
		kinds = append(kinds, of...)
		if rest.Lines > 0 {
			shared = append(shared, rest)
		}
	}
	slices.SortFunc(kinds, func(a, b Kind) int { return cmp.Compare(a.Name, b.Name) })
	return kinds, shared, nil
}

// countOperator counts what one operator has. A folder of internal/kind or internal is that of a kind where api/v1 has
// its types; a file of api/v1 is part of the kind with the longest name that its own begins with.
func countOperator(root, operator string) ([]Kind, Shared, error) {
	kinds, shared := []Kind{}, Shared{Operator: operator}
	folders, err := filepath.Glob(filepath.Join(root, operator, "internal", "*"))
	if err != nil {
		return nil, shared, err
	}
	inside, err := filepath.Glob(filepath.Join(root, operator, "internal", "kind", "*"))
	if err != nil {
		return nil, shared, err
	}
	byFolder := map[string]*Kind{}
	for _, folder := range append(folders, inside...) {
		name := filepath.Base(folder)
		lines, err := linesOf(folder)
		if err != nil {
			return nil, shared, err
		}
		kind, err := kindName(filepath.Join(root, operator, "api", "v1"), name)
		if err != nil {
			return nil, shared, err
		}
		if kind != "" {
			relative := strings.TrimPrefix(strings.TrimPrefix(folder, root), string(filepath.Separator))
			byFolder[name] = &Kind{Name: kind, Folder: filepath.ToSlash(relative), Code: lines}
		} else if lines > 0 {
			shared.Names, shared.Lines = append(shared.Names, "internal/"+name), shared.Lines+lines
		}
	}
	if err := addTypes(filepath.Join(root, operator, "api", "v1"), byFolder, &shared); err != nil {
		return nil, shared, err
	}
	for _, kind := range byFolder {
		kinds = append(kinds, *kind)
	}
	return kinds, shared, nil
}

// addTypes adds the files of an API to the kinds that they are part of.
func addTypes(api string, kinds map[string]*Kind, shared *Shared) error {
	files, err := filepath.Glob(filepath.Join(api, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		name := filepath.Base(file)
		lines, err := linesOfFile(file)
		if err != nil {
			return err
		}
		if name == "groupversion_info.go" || name == "doc.go" || lines == 0 {
			continue
		}
		owner := ""
		for folder := range kinds {
			if strings.HasPrefix(name, folder) && len(folder) > len(owner) {
				owner = folder
			}
		}
		if owner != "" {
			kinds[owner].Types += lines
			continue
		}
		shared.Names, shared.Lines = append(shared.Names, "api/v1/"+name), shared.Lines+lines
	}
	return nil
}

var typeName = regexp.MustCompile(`(?m)^type (\w+) struct`)

// kindName is the kind that is called like a folder and has its types in files of an API that begin with that name;
// empty where there is none.
func kindName(api, folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(api, folder+"*_types.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for _, match := range typeName.FindAllStringSubmatch(string(text), -1) {
			if strings.EqualFold(match[1], folder) {
				return match[1], nil
			}
		}
	}
	return "", nil
}

// linesOf counts the Go files of a folder.
func linesOf(folder string) (int, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, file := range files {
		lines, err := linesOfFile(file)
		if err != nil {
			return 0, err
		}
		sum += lines
	}
	return sum, nil
}

// linesOfFile counts the lines with a token; none of a test or a generated file.
func linesOfFile(path string) (int, error) {
	if name := filepath.Base(path); strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated.") {
		return 0, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	file := token.NewFileSet().AddFile(path, -1, len(text))
	var s scanner.Scanner
	errs := 0
	s.Init(file, text, func(token.Position, string) { errs++ }, 0)
	lines := map[int]bool{}
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue
		}
		for line := range strings.Count(literal, "\n") + 1 {
			lines[file.Line(at)+line] = true
		}
	}
	if errs > 0 {
		return 0, fmt.Errorf("%s is no Go", path)
	}
	return len(lines), nil
}
