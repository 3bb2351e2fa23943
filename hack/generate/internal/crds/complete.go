// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// ourModules begin the import paths of the modules of this repository; what follows is their folder.
	ourModules = "github.com/zeroinfra/"
	// apiFolder holds the types of a module, in a folder for each version.
	apiFolder = "api"
)

// complete has a definition refuse what the types do not decode, and leaves out what the types of Kubernetes say of
// their own fields, which is most of a definition and is documented there. The field of ours that has such a type keeps
// its description.
func complete(root, module string, definition []byte) ([]byte, error) {
	var tree map[string]any
	if err := yaml.Unmarshal(definition, &tree); err != nil {
		return nil, err
	}
	spec := child(tree, "spec")
	kind, _ := child(spec, "names")["kind"].(string)
	s := sources{root: root, packages: map[string]*goPackage{}}
	versions, _ := spec["versions"].([]any)
	for _, element := range versions {
		version, _ := element.(map[string]any)
		name, _ := version["name"].(string)
		types, err := s.load(ourModules + module + "/" + apiFolder + "/" + name)
		if err != nil {
			return nil, err
		}
		declared, ok := types.types[kind]
		if !ok {
			return nil, fmt.Errorf("there is no type %s in %s/%s/%s", kind, module, apiFolder, name)
		}
		schema := child(child(version, "schema"), "openAPIV3Schema")
		if err := s.walk(schema, declared.expr, declared.file); err != nil {
			return nil, err
		}
		admitStoredTypes(schema)
		if status := child(child(schema, "properties"), "status"); status != nil {
			dropMessages(status)
		}
	}
	out, err := yaml.Marshal(tree)
	return append([]byte("---\n"), out...), err
}

// sources are the Go packages that the types of a definition come from.
type sources struct {
	root     string
	packages map[string]*goPackage
}

type goPackage struct{ types map[string]goType }

// goType is a declared type, and the file that its names are looked up in.
type goType struct {
	expr ast.Expr
	file *goFile
}

type goFile struct {
	in *goPackage
	// imports by the name that the file uses.
	imports map[string]string
}

func (s *sources) load(path string) (*goPackage, error) {
	if loaded, ok := s.packages[path]; ok {
		return loaded, nil
	}
	dir := filepath.Join(s.root, filepath.FromSlash(strings.TrimPrefix(path, ourModules)))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	loaded := &goPackage{types: map[string]goType{}}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		loaded.add(syntax)
	}
	s.packages[path] = loaded
	return loaded, nil
}

func (p *goPackage) add(syntax *ast.File) {
	file := &goFile{in: p, imports: map[string]string{}}
	for _, spec := range syntax.Imports {
		// The parser has checked that it is a quoted text.
		path, _ := strconv.Unquote(spec.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		file.imports[name] = path
	}
	for _, decl := range syntax.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			if t, ok := spec.(*ast.TypeSpec); ok {
				p.types[t.Name.Name] = goType{expr: t.Type, file: file}
			}
		}
	}
}

// walk follows a type through its schema, to where it is one of others.
func (s *sources) walk(schema map[string]any, expr ast.Expr, file *goFile) error {
	switch t := expr.(type) {
	case *ast.StarExpr:
		return s.walk(schema, t.X, file)
	case *ast.ArrayType:
		return s.walk(child(schema, "items"), t.Elt, file)
	case *ast.MapType:
		return s.walk(child(schema, "additionalProperties"), t.Value, file)
	case *ast.Ident:
		declared, ok := file.in.types[t.Name]
		if !ok {
			return nil
		}
		return s.walk(schema, declared.expr, declared.file)
	case *ast.SelectorExpr:
		return s.walkImported(schema, t, file)
	case *ast.StructType:
		return s.walkFields(schema, t, file)
	}
	return nil
}

func (s *sources) walkImported(schema map[string]any, selector *ast.SelectorExpr, file *goFile) error {
	name, ok := selector.X.(*ast.Ident)
	if !ok {
		return nil
	}
	path := file.imports[name.Name]
	if !isOurs(path) {
		dropDescriptions(schema)
		admitDecodable(schema, path, selector.Sel.Name)
		return nil
	}
	imported, err := s.load(path)
	if err != nil {
		return err
	}
	declared, ok := imported.types[selector.Sel.Name]
	if !ok {
		return fmt.Errorf("there is no type %s in %s", selector.Sel.Name, path)
	}
	return s.walk(schema, declared.expr, declared.file)
}

func (s *sources) walkFields(schema map[string]any, fields *ast.StructType, file *goFile) error {
	for _, field := range fields.Fields.List {
		name, inline := jsonName(field)
		if inline {
			// apiVersion and kind are inline too: they are no field of ours that could lose what is said of it.
			if declaredHere(field.Type, file) {
				if err := s.walk(schema, field.Type, file); err != nil {
					return err
				}
			}
			continue
		}
		property := child(child(schema, "properties"), name)
		own, described := property["description"]
		if err := s.walk(property, field.Type, file); err != nil {
			return err
		}
		if described {
			property["description"] = own
		}
	}
	return nil
}

// isOurs says whether a package is one of the modules of this repository.
func isOurs(path string) bool { return strings.HasPrefix(path, ourModules) }

// declaredHere says whether a type is one of this repository.
func declaredHere(expr ast.Expr, file *goFile) bool {
	selector, imported := expr.(*ast.SelectorExpr)
	if !imported {
		return true
	}
	name, ok := selector.X.(*ast.Ident)
	return ok && isOurs(file.imports[name.Name])
}

// jsonName returns the name of a field in JSON, or that its fields are those of the struct around it.
func jsonName(field *ast.Field) (name string, inline bool) {
	if field.Tag == nil {
		return "", len(field.Names) == 0
	}
	// The parser has checked that it is a quoted text.
	tag, _ := strconv.Unquote(field.Tag.Value)
	name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return name, strings.Contains(options, "inline")
}

// child returns a map within a map; nil when there is none.
func child(parent map[string]any, key string) map[string]any {
	found, _ := parent[key].(map[string]any)
	return found
}

// dropDescriptions of a schema and of all within it. A property may itself be called description.
func dropDescriptions(schema map[string]any) {
	if _, said := schema["description"].(string); said {
		delete(schema, "description")
	}
	each(schema, dropDescriptions)
}
