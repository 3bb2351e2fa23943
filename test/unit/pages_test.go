// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

var (
	// printed is what a page says that "kubectl get" prints: the resource, whether it is wide, and the line of the
	// columns.
	printed = regexp.MustCompile("(?m)^```\n\\$ kubectl get ([a-z]+)( -o wide)?\n(NAME .*)$")
	// code is a block of a page, where nothing is a link or a heading.
	code    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	// unwritten is what the anchor of a heading does not have.
	unwritten = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// What a page says that a command prints has the columns that it prints.
func TestColumns(t *testing.T) {
	narrow, wide := map[string][]string{}, map[string][]string{}
	for path, data := range definitions(t) {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &definition); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		names := definition.Spec.Names
		for _, name := range append([]string{names.Plural, names.Singular}, names.ShortNames...) {
			narrow[name], wide[name] = []string{"NAME"}, []string{"NAME"}
			for _, column := range definition.Spec.Versions[0].AdditionalPrinterColumns {
				wide[name] = append(wide[name], strings.ToUpper(column.Name))
				if column.Priority == 0 {
					narrow[name] = append(narrow[name], strings.ToUpper(column.Name))
				}
			}
		}
	}
	found := 0
	for _, path := range files(t, "docs") {
		for _, table := range printed.FindAllStringSubmatch(read(t, path), -1) {
			found++
			want, got := narrow[table[1]], strings.Fields(table[3])
			if table[2] != "" {
				want = wide[table[1]]
			}
			if last := len(got) - 1; got[last] == "…" && last < len(want) {
				got, want = got[:last], want[:last]
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q has the columns %v; want %v", path, table[1], got, want)
			}
		}
	}
	if found < 7 {
		t.Errorf("only %d tables were found", found)
	}
}

// The API server prints the first match of the path of a column alone, so one of a list would leave out the others. Of
// the domains of a BackupRepository one at a time has an inventory.
func TestColumnsAreOfOneValue(t *testing.T) {
	for path, data := range definitions(t) {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &definition); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, version := range definition.Spec.Versions {
			for _, column := range version.AdditionalPrinterColumns {
				if strings.Contains(column.JSONPath, "[*]") && !strings.Contains(column.JSONPath, "[*].inventory.") {
					t.Errorf("%s: the column %s shows the first of %s alone: have a field of the status that is all of them",
						path, column.Name, column.JSONPath)
				}
			}
		}
	}
}

// template is what is of interest of an operation's template.
type template struct {
	Name       string
	Parameters map[string]any
}

// Operations that pages and samples show name templates that there are, with parameters that they take.
func TestOperationsOfThePages(t *testing.T) {
	parameters := map[string]map[string]any{}
	for _, pattern := range []string{"../../platform-core/internal/opsflow/templates/*.yaml",
		"../../*/plugins/*/*/operations/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no templates %s: %v", pattern, err)
		}
		for _, path := range paths {
			var one template
			if err := yaml.Unmarshal([]byte(read(t, path)), &one); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if parameters[one.Name] == nil {
				parameters[one.Name] = map[string]any{}
			}
			maps.Copy(parameters[one.Name], one.Parameters)
		}
	}
	found := 0
	for _, path := range files(t, append(sampleFolders(t), "docs")...) {
		for _, s := range snippets(t, path) {
			var object struct {
				Kind string
				Spec struct {
					TemplateRef, Template string
					Parameters            map[string]any
				}
			}
			if yaml.Unmarshal([]byte(s.text), &object) != nil || object.Kind != "Operation" {
				continue
			}
			found++
			known, ok := parameters[object.Spec.TemplateRef]
			if object.Spec.Template != "" {
				var inline struct{ Parameters map[string]any }
				ok = yaml.Unmarshal([]byte(object.Spec.Template), &inline) == nil
				known = inline.Parameters
			}
			if !ok {
				t.Errorf("%s: there is no template %q", s.where, object.Spec.TemplateRef)
			}
			for name := range object.Spec.Parameters {
				if _, ok := known[name]; !ok {
					t.Errorf("%s: template %q has no parameter %q", s.where, object.Spec.TemplateRef, name)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d Operations were found", found)
	}
}

// Links lead to files that are there, and to headings of pages.
func TestLinks(t *testing.T) {
	pages := files(t, "docs", "README.md", "ARCHITECTURE.md", "hack/devcluster", "hack/images", "test/README.md", "charts")
	for _, path := range append(pages, "../../docs/plugins.md", "../../docs/kinds/authoring.md") {
		if filepath.Ext(path) != ".md" {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, path), ""), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %q leads nowhere", path, found[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %q has no such heading", path, found[1])
			}
		}
	}
}

// anchors of the headings of a page.
func anchors(page string) []string {
	var list []string
	for _, found := range heading.FindAllStringSubmatch(code.ReplaceAllString(page, ""), -1) {
		text := link.ReplaceAllString(found[1], "]")
		list = append(list, strings.ReplaceAll(unwritten.ReplaceAllString(strings.ToLower(text), ""), " ", "-"))
	}
	return list
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
