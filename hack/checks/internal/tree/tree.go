// SPDX-License-Identifier: Apache-2.0

// Package tree reads the sources of the repository, once, for all checks.
package tree

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
	"strings"
)

// Tree is the repository.
type Tree struct {
	// Root is its top folder.
	Root string
	// Files are the Go files of all modules, generated ones included.
	Files []*File
	// Set has the positions of Files.
	Set *token.FileSet
}

// File is one Go file.
type File struct {
	// Path is relative to the root, with slashes.
	Path string
	// Package is the import path.
	Package string
	// Syntax with comments.
	Syntax *ast.File
	// Lines are all of them, without their ends.
	Lines []string
}

// IsTest tells whether the file is part of a test only.
func (f *File) IsTest() bool { return strings.HasSuffix(f.Path, "_test.go") }

// IsGenerated tells whether a program wrote the file.
func (f *File) IsGenerated() bool { return ast.IsGenerated(f.Syntax) }

// Violation is one thing that breaks a rule.
type Violation struct {
	// Path is relative to the root.
	Path string
	// Line counts from 1; 0 means the whole file.
	Line int
	// Message is one sentence: what is wrong and what to do.
	Message string
}

// String is file:line: message.
func (v Violation) String() string {
	if v.Line == 0 {
		return v.Path + ": " + v.Message
	}
	return fmt.Sprintf("%s:%d: %s", v.Path, v.Line, v.Message)
}

// Compare orders violations by place.
func Compare(a, b Violation) int {
	return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
}

// Load reads the repository that the working directory is in.
func Load() (*Tree, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	return LoadAt(root)
}

// LoadAt reads the repository at root.
func LoadAt(root string) (*Tree, error) {
	t := &Tree{Root: root, Set: token.NewFileSet()}
	modules := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return t.enter(path, entry.Name(), modules)
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		return t.add(path, modules)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the repository %q: %w", root, err)
	}
	return t, nil
}

var moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)

// enter notes the import path of a folder, and skips those without sources of ours.
func (t *Tree) enter(path, name string, modules map[string]string) error {
	top := filepath.Dir(path) == t.Root && (name == "bin" || name == "dist")
	hidden := path != t.Root && strings.HasPrefix(name, ".")
	if top || hidden || name == "testdata" || name == "node_modules" {
		return filepath.SkipDir
	}
	data, err := os.ReadFile(filepath.Join(path, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) {
		if parent, found := modules[filepath.Dir(path)]; found {
			modules[path] = parent + "/" + name
		}
		return nil
	}
	if err != nil {
		return err
	}
	match := moduleLine.FindSubmatch(data)
	if match == nil {
		return fmt.Errorf("cannot find the module's name in %q", filepath.Join(path, "go.mod"))
	}
	modules[path] = string(match[1])
	return nil
}

func (t *Tree) add(path string, modules map[string]string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(t.Set, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(t.Root, path)
	if err != nil {
		return err
	}
	t.Files = append(t.Files, &File{
		Path:    filepath.ToSlash(relative),
		Package: modules[filepath.Dir(path)],
		Syntax:  syntax,
		Lines:   strings.Split(strings.TrimSuffix(string(source), "\n"), "\n"),
	})
	return nil
}

// Line returns the line of a position.
func (t *Tree) Line(at token.Pos) int { return t.Set.Position(at).Line }

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "platform-core", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("cannot find the root of the repository: run this inside of it")
		}
		dir = parent
	}
}
