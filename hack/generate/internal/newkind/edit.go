// SPDX-License-Identifier: Apache-2.0

package newkind

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// edit returns the files that are there and name each kind, with the new one in them, by path.
func (s *subject) edit(root string) (map[string][]byte, error) {
	edited := map[string][]byte{}
	for path, change := range map[string]func(*text){
		s.path("api", "v1", "groupversion_info.go"):             s.addToScheme,
		s.path("cmd", "main.go"):                                s.serve,
		s.path("internal", "kind", "kinds.go"):                  s.register,
		s.path("internal", "kind", "kinds_integration_test.go"): s.addToTests,
		s.path("config", "crd", "kustomization.yaml"):           s.addDefinition,
		s.path("config", "rbac", "kustomization.yaml"):          s.addRole,
		s.path("config", "samples", "kustomization.yaml"):       s.addSample,
		s.path("PROJECT"):                                       s.addToProject,
		"docs/README.md":                                        s.addToContents,
		"docs/zh/README.md":                                     s.addToChineseContents,
		"test/unit/lifecycle_test.go":                           s.addToLifecycle,
	} {
		content, err := os.ReadFile(filepath.Join(root, path))
		ends := func(end string) bool { return strings.HasSuffix(path, end) }
		if os.IsNotExist(err) && slices.ContainsFunc(madeForTheFirst, ends) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t := &text{path: path, content: string(content)}
		change(t)
		result, err := t.result()
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(result, content) {
			edited[path] = result
		}
	}
	return edited, nil
}

// madeForTheFirst are files that an operator gets with its first kind, which is in them then.
var madeForTheFirst = []string{"kind/kinds.go", "kind/kinds_integration_test.go", "config/crd/kustomization.yaml"}

// text is a file that is changed. The first change that cannot be made is kept, and the others are not tried.
type text struct {
	path, content string
	err           error
}

// before puts lines in front of a text that the file has once.
func (t *text) before(anchor, lines string) { t.replace(anchor, lines+anchor) }

// after puts lines behind a text that the file has once.
func (t *text) after(anchor, lines string) { t.replace(anchor, anchor+lines) }

func (t *text) replace(anchor, by string) {
	if t.err != nil {
		return
	}
	if n := strings.Count(t.content, anchor); n != 1 {
		t.err = fmt.Errorf("%s has the text %q %d times, and the place for a new kind is where it is once: bring the text "+
			"back, or change hack/generate/internal/newkind", t.path, anchor, n)
		return
	}
	t.content = strings.Replace(t.content, anchor, by, 1)
}

func (t *text) result() ([]byte, error) {
	if t.err != nil {
		return nil, t.err
	}
	if filepath.Ext(t.path) != ".go" {
		return []byte(t.content), nil
	}
	out, err := format.Source([]byte(t.content))
	if err != nil {
		return nil, fmt.Errorf("cannot format %s: %w", t.path, err)
	}
	return out, nil
}

// addToScheme has clients know the types.
func (s *subject) addToScheme(t *text) {
	const end = "\tmetav1.AddToGroupVersion(scheme, GroupVersion)\n"
	types := fmt.Sprintf("\t\t&%s{}, &%sList{},\n", s.Kind, s.Kind)
	if strings.Contains(t.content, "\t)\n"+end) {
		t.before("\t)\n"+end, types)
		return
	}
	t.before(end, "\tscheme.AddKnownTypes(GroupVersion,\n"+types+"\t)\n")
}

// serve has the command serve the kinds of the operator, unless it does already.
func (s *subject) serve(t *text) {
	if strings.Contains(t.content, "kind.All()") {
		return
	}
	module := "github.com/zeroinfra/" + s.Name()
	t.after("import (\n", "\t\"io/fs\"\n\n")
	t.after(module+"/api/v1\"\n", "\t\""+module+"/config/crd\"\n\t\""+module+"/internal/kind\"\n")
	t.before("\t\tVersion: ", "\t\tKinds: kind.All(),\n\t\tCRDs: []fs.FS{crd.FS},\n")
}

// register adds the kind to those of the operator.
func (s *subject) register(t *text) {
	t.before(")\n\n// All returns ", "\t\"github.com/zeroinfra/"+s.Name()+"/internal/kind/"+s.Lower+"\"\n")
	t.before("\t}\n}\n", "\t\ttyped.Register[*"+s.Alias+"."+s.Kind+"]("+s.Lower+".Kind{}),\n")
}

// addToTests gives the tests of all kinds an object of this one.
func (s *subject) addToTests(t *text) {
	t.before("\t}\n}\n\nfunc TestDataProtection(", fmt.Sprintf("\t\t\"*v1.%s\": `{\"version\":%q}`,\n", s.Kind, s.Version))
}

func (s *subject) addDefinition(t *text) {
	t.content += "  - bases/" + s.Group + "_" + s.Plural + ".yaml\n"
}

// addRole binds the account of the operator to its rights on kinds, unless it is.
func (s *subject) addRole(t *text) {
	if !strings.Contains(t.content, "- role.yaml\n") {
		t.content += "  - role.yaml\n  - role_binding.yaml\n"
	}
}

// noKinds are the lines that say why an operator without kinds has the sample that it has.
var noKinds = regexp.MustCompile(`(?m)^#\n# The operator has no kinds(?:.*\n#)* .*\n`)

func (s *subject) addSample(t *text) {
	t.content = noKinds.ReplaceAllString(t.content, "") + "  - " + filepath.Base(s.sample()) + "\n"
}

// addToProject adds what kubebuilder would.
func (s *subject) addToProject(t *text) {
	group, domain, _ := strings.Cut(s.Group, ".")
	entry := fmt.Sprintf("- api:\n    crdVersion: v1\n    namespaced: true\n  controller: true\n  domain: %s\n"+
		"  group: %s\n  kind: %s\n  path: github.com/zeroinfra/%s/api/v1\n  version: v1\n", domain, group, s.Kind, s.Name())
	if !strings.Contains(t.content, "\nresources:\n") {
		entry = "resources:\n" + entry
	}
	t.before("\nversion: \"3\"\n", "\n"+strings.TrimSuffix(entry, "\n"))
}

func (s *subject) addToContents(t *text) {
	row := fmt.Sprintf("| [kinds/%s.md](kinds/%s.md) | the kind `%s`: fields, failures, operations |\n",
		s.Lower, s.Lower, s.Kind)
	t.before("| [operator.md](operator.md)", row)
}

func (s *subject) addToChineseContents(t *text) {
	row := fmt.Sprintf("| [kinds/%s.md](kinds/%s.md) | `%s`：字段、故障、操作 |\n", s.Lower, s.Lower, s.Kind)
	t.before("\n其余内容目前只有英文", row)
}

// addToLifecycle has the page's table of operations compared with what the plugin has.
func (s *subject) addToLifecycle(t *text) {
	otherwise := ""
	if s.Otherwise != "" {
		otherwise = fmt.Sprintf(", kind: map[string]string{\"HorizontalScale\": %q}", s.Otherwise)
	}
	page := fmt.Sprintf("\t\"docs/kinds/%s.md\": {plugins: []string{%q}%s},\n", s.Lower, s.Plugin, otherwise)
	t.after("\tkind    map[string]string\n}{\n", page)
}
