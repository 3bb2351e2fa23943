// SPDX-License-Identifier: Apache-2.0

// Package gobuild builds the suite's own programs so that the same sources give the
// same bytes on every machine.
package gobuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zeroinfra/hack/images/internal/command"
)

// Program says what to build.
type Program struct {
	// Dir is the folder of the module.
	Dir string
	// Package is relative to Dir.
	Package string
	// VersionVariable is the string variable, such as main.version, that receives Version, or a constant that is it.
	VersionVariable, Version string
	// Tags are build tags.
	Tags []string
	// Arch is the GOARCH.
	Arch string
	// Output is where the program is written. A program that is there and up to date is not linked again.
	Output string
}

const hint = "install Go, version as in go.mod"

// Build builds a static Linux program, outside of any workspace, and returns its
// SHA-256 in hex.
func Build(ctx context.Context, p Program) (string, error) {
	if _, err := os.Stat(filepath.Join(p.Dir, "go.mod")); err != nil {
		return "", fmt.Errorf("cannot build program %q: its folder is not a Go module: %w", p.Package, err)
	}
	env := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + p.Arch, "GOWORK=off"}
	if err := checkVariable(ctx, p, env); err != nil {
		return "", err
	}
	flags := "-s -w -X " + p.VersionVariable + "=" + p.Version
	build := command.Command{
		Name: "go", Dir: p.Dir, Env: env, Hint: hint,
		Args: []string{"build", "-trimpath", "-buildvcs=false", "-tags", strings.Join(p.Tags, ","), "-ldflags", flags, "-o",
			p.Output, p.Package},
	}
	if _, err := build.Output(ctx); err != nil {
		return "", fmt.Errorf("cannot build program %q of %q: %w", p.Package, p.Dir, err)
	}
	f, err := os.Open(p.Output)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// checkVariable makes sure that the linker has a variable to set, since it says nothing when there is none, and the
// program would not know its version; or that a constant in its place says what would be set.
func checkVariable(ctx context.Context, p Program, env []string) error {
	at := strings.LastIndex(p.VersionVariable, ".")
	pkg, name := p.VersionVariable[:at], p.VersionVariable[at+1:]
	if pkg == "main" {
		pkg = p.Package
	}
	list := command.Command{
		Name: "go", Dir: p.Dir, Env: env, Hint: hint,
		Args: []string{"list", "-f", `{{.Dir}}{{range .GoFiles}}{{"\n"}}{{.}}{{end}}`, pkg},
	}
	out, err := list.Output(ctx)
	if err != nil {
		return fmt.Errorf("cannot find package %q of %q: %w", pkg, p.Dir, err)
	}
	lines := strings.Fields(string(out))
	for _, file := range lines[min(1, len(lines)):] {
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(lines[0], file), nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("cannot parse %q: %w", file, err)
		}
		if declares(tree, name, p.Version) {
			return nil
		}
	}
	return fmt.Errorf("cannot set the version of program %q of %q: package %q has neither a string variable %q nor a "+
		"constant that is %s", p.Package, p.Dir, pkg, name, p.Version)
}

// declares tells whether a file has a package variable of that name that the linker can set, which is a string without
// a value or with a literal one, or a constant that is the version.
func declares(file *ast.File, name, version string) bool {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR && group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			v := spec.(*ast.ValueSpec)
			for i, id := range v.Names {
				if id.Name == name {
					return group.Tok == token.VAR && settable(v, i) || group.Tok == token.CONST && is(v, i, version)
				}
			}
		}
	}
	return false
}

// is tells whether a constant is a version, which may be written with or without the letter before its number.
func is(v *ast.ValueSpec, i int, version string) bool {
	literal := literalOf(v, i)
	if literal == nil {
		return false
	}
	value, err := strconv.Unquote(literal.Value)
	return err == nil && strings.TrimPrefix(value, "v") == strings.TrimPrefix(version, "v")
}

func settable(v *ast.ValueSpec, i int) bool {
	if i < len(v.Values) {
		return literalOf(v, i) != nil
	}
	kind, ok := v.Type.(*ast.Ident)
	return ok && kind.Name == "string"
}

// literalOf is the literal string that a name has for its value; nil when it has none.
func literalOf(v *ast.ValueSpec, i int) *ast.BasicLit {
	if i >= len(v.Values) {
		return nil
	}
	literal, ok := v.Values[i].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return nil
	}
	return literal
}
