// SPDX-License-Identifier: Apache-2.0

package newkind

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// templates of files, in which [[ ]] stands for what differs, as in the charts.
//
//go:embed templates/*.tmpl
var templates embed.FS

// files are those that the kind has to itself, and those that every operator with kinds has and this one has not, by
// path.
func (s *subject) files(root string) (map[string][]byte, error) {
	folder := s.path("internal", "kind", s.Lower)
	from := map[string]string{
		s.path("api", "v1", s.Lower+"_types.go"):           "types.go",
		s.path("api", "v1", s.Lower+"_validation_test.go"): "validation_test.go",
		filepath.Join(folder, "doc.go"):                    "doc.go",
		filepath.Join(folder, "kind.go"):                   "kind.go",
		filepath.Join(folder, "compile.go"):                "compile.go",
		filepath.Join(folder, "report.go"):                 "report.go",
		filepath.Join(folder, "compile_test.go"):           "compile_test.go",
		filepath.Join(folder, "report_test.go"):            "report_test.go",
		filepath.Join(folder, "writethrough_test.go"):      "writethrough_test.go",
		filepath.Join(folder, "testdata/minimal.in.yaml"):  "minimal.in.yaml",
		filepath.Join(folder, "testdata/minimal.out.yaml"): "minimal.out.yaml",
		filepath.Join(folder, "testdata/full.in.yaml"):     "full.in.yaml",
		filepath.Join(folder, "testdata/full.out.yaml"):    "full.out.yaml",
		s.sample(): "sample.yaml",
		filepath.Join("docs", "kinds", s.Lower+".md"):       "page.md",
		filepath.Join("docs", "zh", "kinds", s.Lower+".md"): "page.zh.md",
	}
	for path, name := range map[string]string{
		s.path("config", "crd", "embed.go"):                     "embed.go",
		s.path("config", "crd", "kustomization.yaml"):           "crd.yaml",
		s.path("config", "rbac", "role_binding.yaml"):           "role_binding.yaml",
		s.path("internal", "kind", "kinds.go"):                  "kinds.go",
		s.path("internal", "kind", "kinds_integration_test.go"): "kinds_integration_test.go",
		s.path("api", "v1", "environment_validation_test.go"):   "environment_test.go",
	} {
		if !exists(filepath.Join(root, path)) {
			from[path] = name
		}
	}
	if started, err := startsTests(root, s.path("api", "v1")); err != nil {
		return nil, err
	} else if started {
		delete(from, s.path("api", "v1", "environment_validation_test.go"))
	}
	files := map[string][]byte{}
	for path, name := range from {
		content, err := s.fill(name)
		if err != nil {
			return nil, fmt.Errorf("cannot write %s: %w", path, err)
		}
		files[path] = content
	}
	return files, nil
}

// sample is the path of the sample, by the convention of kubebuilder.
func (s *subject) sample() string {
	group, _, _ := strings.Cut(s.Group, ".")
	return s.path("config", "samples", group+"_v1_"+s.Lower+".yaml")
}

// startsTests says whether a test of the folder has the API server that others of it use.
func startsTests(root, folder string) (bool, error) {
	tests, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		return false, err
	}
	for _, test := range tests {
		data, err := os.ReadFile(test)
		if err != nil {
			return false, err
		}
		if bytes.Contains(data, []byte("\nfunc TestMain(")) {
			return true, nil
		}
	}
	return false, nil
}

// fill returns a template filled in, formatted where it is Go.
func (s *subject) fill(name string) ([]byte, error) {
	text, err := templates.ReadFile("templates/" + name + ".tmpl")
	if err != nil {
		return nil, err
	}
	parsed, err := template.New(name).Delims("[[", "]]").Option("missingkey=error").
		Funcs(template.FuncMap{"join": strings.Join}).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, s); err != nil {
		return nil, err
	}
	if !strings.HasSuffix(name, ".go") {
		return out.Bytes(), nil
	}
	return format.Source(out.Bytes())
}
