// SPDX-License-Identifier: Apache-2.0

// Package shape checks what every Go file has to look like: licence, documentation,
// names and lengths.
package shape

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zeroinfra/hack/checks/internal/tree"
)

// Longest that things may be, in lines, and a line in columns.
const (
	maxFile      = 500
	maxFunction  = 80
	maxReconcile = 50
	maxLine      = 120
)

const licence = "// SPDX-License-Identifier: Apache-2.0"

// Names that say nothing of what a package is for.
var emptyNames = []string{"util", "utils", "helper", "helpers", "common", "misc", "shared", "base"}

// A comment that tools read cannot go on in another line.
var directive = regexp.MustCompile(`^\s*//( ?\+|[a-z]+:|export )`)

var unfinished = regexp.MustCompile(`\b(` + `TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// Check returns what is out of shape.
func Check(t *tree.Tree) []tree.Violation {
	var violations []tree.Violation
	documented := map[string]bool{}
	first := map[string]*tree.File{}
	for _, file := range t.Files {
		if file.IsGenerated() {
			continue
		}
		c := &checker{tree: t, file: file}
		c.header()
		c.lines()
		c.comments()
		c.declarations()
		violations = append(violations, c.violations...)
		if file.IsTest() {
			continue
		}
		if first[file.Package] == nil {
			first[file.Package] = file
		}
		if isPackageDoc(file.Syntax) {
			documented[file.Package] = true
		}
	}
	for path, file := range first {
		if !documented[path] {
			violations = append(violations, tree.Violation{
				Path: file.Path, Message: fmt.Sprintf("package %s has no doc comment that starts with %q", path,
					docStart(file.Syntax)),
			})
		}
	}
	return violations
}

func docStart(f *ast.File) string {
	if f.Name.Name == "main" {
		return "Command"
	}
	return "Package " + f.Name.Name
}

func isPackageDoc(f *ast.File) bool {
	return f.Doc != nil && strings.HasPrefix(f.Doc.Text(), docStart(f)+" ")
}

type checker struct {
	tree       *tree.Tree
	file       *tree.File
	violations []tree.Violation
}

func (c *checker) report(line int, format string, args ...any) {
	c.violations = append(c.violations,
		tree.Violation{Path: c.file.Path, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) header() {
	if c.file.Lines[0] != licence {
		c.report(1, "the first line must be %q", licence)
	}
	if n := len(c.file.Lines); n > maxFile {
		c.report(0, "has %d lines: split it, %d is the most", n, maxFile)
	}
	if slices.Contains(emptyNames, c.file.Syntax.Name.Name) {
		c.report(0, "package name %q says nothing: name it after what it is for", c.file.Syntax.Name.Name)
	}
}

// lines are measured in characters; a tab is one.
func (c *checker) lines() {
	for i, line := range c.file.Lines {
		if n := utf8.RuneCountInString(line); n > maxLine && !directive.MatchString(line) {
			c.report(i+1, "the line has %d columns: break it, %d is the most", n, maxLine)
		}
	}
}

func (c *checker) comments() {
	for _, group := range c.file.Syntax.Comments {
		for _, comment := range group.List {
			if word := unfinished.FindString(comment.Text); word != "" {
				c.report(c.tree.Line(comment.Pos()), "%s: finish it or open an issue", word)
			}
		}
	}
}

func (c *checker) declarations() {
	for _, declaration := range c.file.Syntax.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			c.function(d)
		case *ast.GenDecl:
			c.general(d)
		}
	}
}

func (c *checker) function(f *ast.FuncDecl) {
	line := c.tree.Line(f.Pos())
	name, longest := f.Name.Name, maxFunction
	if name == "Reconcile" && !c.file.IsTest() {
		longest = maxReconcile
	}
	if n := c.tree.Line(f.End()) - line + 1; n > longest {
		c.report(line, "function %s has %d lines: split it, %d is the most", name, n, longest)
	}
	if c.file.IsTest() || !f.Name.IsExported() || !exportedReceiver(f) {
		return
	}
	if f.Doc == nil {
		c.report(line, "exported function %s has no doc comment", name)
	}
	for _, parameter := range f.Type.Params.List {
		if id, ok := parameter.Type.(*ast.Ident); ok && id.Name == "bool" {
			c.report(line, "function %s takes a bool, which says nothing at the call: use two functions or a named type", name)
		}
	}
}

// exportedReceiver tells whether a method can be seen from outside its package.
func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	expression := f.Recv.List[0].Type
	for {
		switch e := expression.(type) {
		case *ast.StarExpr:
			expression = e.X
		case *ast.IndexExpr:
			expression = e.X
		case *ast.IndexListExpr:
			expression = e.X
		case *ast.Ident:
			return e.IsExported()
		default:
			return true
		}
	}
}

func (c *checker) general(d *ast.GenDecl) {
	if c.file.IsTest() {
		return
	}
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
				c.report(c.tree.Line(s.Pos()), "exported type %s has no doc comment", s.Name.Name)
			}
		case *ast.ValueSpec:
			// A comment on a group speaks for what is in it.
			if s.Names[0].IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
				c.report(c.tree.Line(s.Pos()), "exported name %s has no doc comment", s.Names[0].Name)
			}
		}
	}
}
