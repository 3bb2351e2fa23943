// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

var (
	// fenced is a block of a page that is YAML or commands.
	fenced = regexp.MustCompile("(?ms)^( *)```(yaml|sh)[^\n]*\n(.*?)^ *```")
	// inlined is an object that a command reads from its standard input.
	inlined = regexp.MustCompile(`(?ms)<<'?[A-Z]+'?\n(.*?)^[A-Z]+$`)
	// patched is what a command changes of an object: its resource, with or without the name, and the patch.
	patched = regexp.MustCompile(`kubectl patch ([a-z]+)[ /].*?-p '([^']*)'`)
	// separator of the documents of a file.
	separator = regexp.MustCompile(`(?m)^---$`)
)

// snippet is YAML of a page, or the whole of a sample.
type snippet struct {
	// where is the file and the line.
	where string
	text  string
	// resource is set for what a command changes of an object: its name in commands.
	resource string
}

// Every object of ours that a page or a sample shows is as its definition says, and so is every part of one: without a
// kind of its own it is a part of an object of the page, or of an Application.
func TestDocumentsAreAsTheDefinitions(t *testing.T) {
	kinds := schemas(t)
	judged := 0
	for _, path := range files(t, append(sampleFolders(t), "docs", "README.md", "ARCHITECTURE.md")...) {
		page := []kind{{"platform.zeroinfra.github.com/v1", "Application"}}
		for _, s := range snippets(t, path) {
			for _, wrong := range judgeSnippet(s, kinds, &page) {
				t.Errorf("%s: %s", s.where, wrong)
			}
			judged++
		}
	}
	// So many there were when this was written, or the search is broken.
	if judged < 60 {
		t.Errorf("only %d pieces of YAML were found", judged)
	}
}

// sampleFolders are those of all operators.
func sampleFolders(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob("../../*-operator/config/samples")
	if err != nil || len(folders) == 0 {
		t.Fatalf("there are no samples: %v", err)
	}
	for i := range folders {
		folders[i] = strings.TrimPrefix(folders[i], "../../")
	}
	return folders
}

// kind is the API version and the kind of an object.
type kind struct{ version, name string }

// defined is the schema of a kind, and what it is called in commands.
type defined struct {
	apiextensionsv1.JSONSchemaProps
	names []string
}

// schemas are those of all definitions.
func schemas(t *testing.T) map[kind]defined {
	t.Helper()
	all := map[kind]defined{}
	for path, data := range definitions(t) {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &definition); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		names := definition.Spec.Names
		for _, version := range definition.Spec.Versions {
			all[kind{definition.Spec.Group + "/" + version.Name, names.Kind}] = defined{
				JSONSchemaProps: *version.Schema.OpenAPIV3Schema,
				names:           append([]string{names.Plural, names.Singular}, names.ShortNames...),
			}
		}
	}
	return all
}

// notObjects are YAML files without an object: lists of samples, and workflows of CI.
var notObjects = []string{"kustomization.yaml", "github-actions.yaml"}

// guides are pages whose examples are of what the reader makes: a plugin, of which the test of zictl runs every
// command, and a kind.
var guides = []string{"plugins.md", "authoring.md"}

// files are the pages and samples below the named ones, without guides.
func files(t *testing.T, names ...string) []string {
	t.Helper()
	var found []string
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join("../..", name), func(path string, entry fs.DirEntry, err error) error {
			extension := filepath.Ext(path)
			wanted := extension == ".md" || extension == ".yaml"
			if err == nil && wanted && !slices.Contains(slices.Concat(notObjects, guides), entry.Name()) {
				found = append(found, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// snippets of a file, one for each document.
func snippets(t *testing.T, path string) []snippet {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	var list []snippet
	add := func(offset int, resource, text string) {
		for _, document := range separator.Split(text, -1) {
			list = append(list, snippet{fmt.Sprintf("%s:%d", path, strings.Count(string(data[:offset]), "\n")+1), document,
				resource})
		}
	}
	if filepath.Ext(path) == ".yaml" {
		add(0, "", text)
		return list
	}
	for _, at := range fenced.FindAllStringSubmatchIndex(text, -1) {
		indent, language, content := text[at[2]:at[3]], text[at[4]:at[5]], text[at[6]:at[7]]
		content = strings.ReplaceAll("\n"+content, "\n"+indent, "\n")[1:]
		if language == "yaml" {
			add(at[0], "", content)
			continue
		}
		for _, object := range inlined.FindAllStringSubmatch(content, -1) {
			add(at[0], "", object[1])
		}
		for _, patch := range patched.FindAllStringSubmatch(content, -1) {
			add(at[0], patch[1], patch[2])
		}
	}
	return list
}

// judgeSnippet says what is wrong with a snippet. It notes the kind of an object of ours among those of the page, the
// last one first.
func judgeSnippet(s snippet, kinds map[kind]defined, page *[]kind) []string {
	var value map[string]any
	data, err := yaml.YAMLToJSONStrict([]byte(s.text))
	if err == nil {
		// It tells whole numbers from others, as the API server does.
		err = json.Unmarshal(data, &value)
	}
	if err != nil {
		return []string{err.Error()}
	}
	version, _ := value["apiVersion"].(string)
	if version == "" {
		return judgePart(s, value, kinds, *page)
	}
	if !strings.Contains(version, ".zeroinfra.github.com/") {
		return nil
	}
	name, _ := value["kind"].(string)
	of, known := kinds[kind{version, name}]
	if !known {
		return []string{fmt.Sprintf("there is no kind %s %s", version, name)}
	}
	*page = slices.Insert(*page, 0, kind{version, name})
	j := judge{whole: true}
	delete(value, "metadata")
	j.value(name, value, &of.JSONSchemaProps)
	return j.wrong
}

// judgePart says what is wrong with a part of an object: of the kind that it fits best.
func judgePart(s snippet, value map[string]any, kinds map[kind]defined, page []kind) []string {
	if strings.Contains(s.text, "# values of the chart") {
		return nil
	}
	if _, ok := value["spec"]; !ok {
		value = map[string]any{"spec": value}
	}
	candidates := page
	if s.resource != "" {
		candidates = slices.DeleteFunc(slices.Collect(maps.Keys(kinds)),
			func(k kind) bool { return !slices.Contains(kinds[k].names, s.resource) })
	}
	if len(candidates) == 0 {
		return []string{fmt.Sprintf("there is no kind for %q", s.resource)}
	}
	var least []string
	for i, k := range candidates {
		of := kinds[k]
		var j judge
		j.value(k.name, value, &of.JSONSchemaProps)
		if i == 0 || len(j.wrong) < len(least) {
			least = j.wrong
		}
	}
	return least
}

// Every page can be found from the first one.
func TestEveryPageIsListed(t *testing.T) {
	contents, err := os.ReadFile("../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"*.md", "kinds/*.md", "*/README.md"} {
		pages, err := filepath.Glob(filepath.Join("../../docs", pattern))
		if err != nil || len(pages) == 0 {
			t.Fatalf("no pages %s: %v", pattern, err)
		}
		for _, page := range pages {
			name, _ := filepath.Rel("../../docs", page)
			if name != "README.md" && !strings.Contains(string(contents), "("+name+")") {
				t.Errorf("docs/README.md does not name %s", name)
			}
		}
	}
}
