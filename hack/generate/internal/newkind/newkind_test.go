// SPDX-License-Identifier: Apache-2.0

package newkind

import (
	"go/format"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// database is a kind among others, of a plugin that is there.
var database = Request{Operator: "database-operator", Kind: "KeyStore", Plugin: "etcd"}

func inDatabase(kind, plugin string) Request {
	return Request{Operator: "database-operator", Kind: kind, Plugin: plugin}
}

// repository returns a copy of what the generator reads.
func repository(t *testing.T) string {
	t.Helper()
	return copied(t, "database-operator", "message-operator", "batch-operator", "common-operator", "platform-core/api/v1",
		"docs/README.md", "docs/kinds", "docs/zh", "test/unit/lifecycle_test.go")
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	root := repository(t)
	before := tree(t, root)
	for name, c := range map[string]struct {
		request Request
		want    string
	}{
		"operator":           {Request{Operator: "network-operator"}, `no operator "network-operator": it is one of`},
		"no operator":        {Request{}, `there is no operator ""`},
		"lower case":         {inDatabase("keyStore", "etcd"), "not in UpperCamelCase"},
		"upper case":         {inDatabase("KEYSTORE", "etcd"), "not in UpperCamelCase"},
		"a dash":             {inDatabase("Key-Store", "etcd"), "not in UpperCamelCase"},
		"a line break":       {inDatabase("KeyStore\n", "etcd"), "not in UpperCamelCase"},
		"a long name":        {inDatabase("KeyStoreOfManyManyMembers", "etcd"), "at most 23 are allowed"},
		"a list":             {inDatabase("KeyStoreList", "etcd"), "ends in List"},
		"a word of Go":       {inDatabase("Func", "etcd"), `its package would be called "func"`},
		"a package of ours":  {inDatabase("Typed", "etcd"), `its package would be called "typed"`},
		"a kind":             {inDatabase("Redis", "redis"), `declares the type Redis`},
		"in other capitals":  {inDatabase("ReDis", "redis"), `declares the type Redis`},
		"of another one":     {Request{Operator: "batch-operator", Kind: "Redis"}, `declares the type Redis`},
		"of the engine":      {Request{Operator: "batch-operator", Kind: "Backup"}, `declares the type Backup`},
		"a type beside":      {inDatabase("Failover", "redis"), `declares the type Failover`},
		"a page":             {inDatabase("Instance", "etcd"), "kinds/instance.md, which is there"},
		"plugin":             {inDatabase("KeyStore", "etcdd"), `no folder database-operator/plugins/etcdd`},
		"no plugin":          {inDatabase("KeyStore", ""), `has no plugin ""`},
		"a plugin elsewhere": {inDatabase("KeyStore", "../plugins/etcd"), `has no plugin`},
		"topology":           {Request{"database-operator", "KeyStore", "etcd", "ring", ""}, `it is one of cluster`},
		"plural":             {Request{"database-operator", "KeyStore", "etcd", "", "Keys"}, `"Keys" is not lower case`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Write(root, c.request); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if !maps.Equal(before, tree(t, root)) {
		t.Error("a kind that was refused has left files or changed some")
	}
}

func TestAPluginThatIsNotPackagedIsRefused(t *testing.T) {
	root := repository(t)
	put(t, filepath.Join(root, "batch-operator/plugins/new/1.0.0/manifest.yaml"), []byte("version: 1.0.0\n"))
	_, err := Write(root, Request{Operator: "batch-operator", Kind: "KeyStore", Plugin: "new"})
	if err == nil || !strings.Contains(err.Error(), "run make generate") {
		t.Errorf("got %v", err)
	}
}

// A file that no longer has the text at which an entry is put is named, and nothing is written.
func TestAPlaceThatIsGoneIsNamed(t *testing.T) {
	root := repository(t)
	put(t, filepath.Join(root, "database-operator/PROJECT"), []byte("resources:\n"))
	before := tree(t, root)
	_, err := Write(root, database)
	if err == nil || !strings.Contains(err.Error(), "database-operator/PROJECT has the text") {
		t.Errorf("got %v", err)
	}
	if !maps.Equal(before, tree(t, root)) {
		t.Error("it has written some files all the same")
	}
}

func TestARepositoryWithoutGitIsRefused(t *testing.T) {
	if err := Clean(t.TempDir()); err == nil || !strings.Contains(err.Error(), "git cannot say whether") {
		t.Errorf("got %v", err)
	}
}

// What is written and changed for a kind is formatted, and has an entry in each list.
func TestAKindAmongOthers(t *testing.T) {
	root := repository(t)
	paths := checkWritten(t, root, database, []entry{
		{"database-operator/internal/kind/kinds.go", "typed.Register[*databasev1.KeyStore](keystore.Kind{}),\n\t}\n}\n"},
		{"database-operator/internal/kind/kinds_integration_test.go", "\t\t\"*v1.KeyStore\":"},
		{"database-operator/api/v1/groupversion_info.go", "List{},\n\t\t&KeyStore{}, &KeyStoreList{},\n\t)\n"},
		{"database-operator/config/crd/kustomization.yaml", "  - bases/database.zeroinfra.github.com_keystores.yaml\n"},
		{"database-operator/config/samples/kustomization.yaml", "  - database_v1_keystore.yaml\n"},
		{"database-operator/PROJECT", "  kind: KeyStore\n"},
		{"database-operator/api/v1/keystore_types.go", "// +kubebuilder:validation:Enum=1;3;5\n"},
		{"docs/README.md", "(kinds/keystore.md)"},
		{"docs/kinds/keystore.md", "| `VerticalScaleVolume` | yes |\n| `HorizontalScale` | replicas |\n"},
		{"docs/zh/README.md", "(kinds/keystore.md) | `KeyStore`：字段、故障、操作 |\n\n"},
		{"docs/zh/kinds/keystore.md", "| `VerticalScaleVolume` | 支持 |\n| `HorizontalScale` | 支持：副本数 |\n"},
		{"test/unit/lifecycle_test.go", "\t\"docs/kinds/keystore.md\": "},
	})
	if slices.Contains(paths, "database-operator/cmd/main.go") {
		t.Error("it has written a file that stays as it was")
	}
	if _, err := Write(root, database); err == nil || !strings.Contains(err.Error(), "is taken") {
		t.Errorf("a second time: %v", err)
	}
}

func TestTheFirstKindOfAnOperator(t *testing.T) {
	root := repository(t)
	o := withoutKinds(t, root)
	first := Request{Operator: o.Name(), Kind: "Gateway", Plugin: "nginx"}
	paths := checkWritten(t, root, first, []entry{
		{o.Name() + "/cmd/main.go", "\t\tKinds:       kind.All(),\n\t\tCRDs:        []fs.FS{crd.FS},\n"},
		{o.Name() + "/internal/kind/kinds.go", "typed.Register[*" + o.Domain + "v1.Gateway](gateway.Kind{}),\n"},
		{o.Name() + "/api/v1/groupversion_info.go",
			"\tscheme.AddKnownTypes(GroupVersion,\n\t\t&Gateway{}, &GatewayList{},\n\t)\n"},
		{o.Name() + "/config/crd/kustomization.yaml", "resources:\n  - bases/" + o.Group + "_gateways.yaml\n"},
		{o.Name() + "/config/rbac/kustomization.yaml", "  - role.yaml\n  - role_binding.yaml\n"},
		{o.Name() + "/config/samples/kustomization.yaml",
			"Apache-2.0\nresources:\n  - viewers.yaml\n  - " + o.Domain + "_v1_gateway.yaml\n"},
		{o.Name() + "/PROJECT", "resources:\n- api:\n    crdVersion: v1\n"},
		{o.Name() + "/api/v1/environment_validation_test.go", "func TestMain("},
		{o.Name() + "/api/v1/gateway_types.go", "a Gateway has no volumes: take storage out"},
		{"docs/kinds/gateway.md", "| `VerticalScaleVolume` | no: there is no volume |\n"},
		{"docs/zh/kinds/gateway.md", "| `VerticalScaleVolume` | 不支持：没有可以扩容的卷 |\n"},
		{o.Name() + "/internal/kind/gateway/testdata/minimal.out.yaml", "  plugin: nginx\n"},
	})
	if slices.Contains(paths, o.Name()+"/config/samples/viewers.yaml") {
		t.Error("it has written a sample of others")
	}
	// The second one finds what the first one has made.
	second := Request{Operator: o.Name(), Kind: "Registry", Plugin: "nginx", Plural: "registers"}
	checkWritten(t, root, second, []entry{
		{o.Name() + "/internal/kind/kinds.go",
			"(gateway.Kind{}),\n\t\ttyped.Register[*" + o.Domain + "v1.Registry](registry.Kind{}),\n"},
		{o.Name() + "/config/crd/kustomization.yaml", "_gateways.yaml\n  - bases/" + o.Group + "_registers.yaml\n"},
		{o.Name() + "/PROJECT", "  version: v1\n- api:\n"},
	})
}

// entry is a text that a file has to have.
type entry struct{ path, text string }

// checkWritten writes a kind and looks at all that it wrote: each of these files has this text.
func checkWritten(t *testing.T, root string, request Request, want []entry) []string {
	t.Helper()
	paths, err := Write(root, request)
	if err != nil {
		t.Fatal(err)
	}
	files := tree(t, root)
	for _, path := range paths {
		content := files[path]
		switch filepath.Ext(path) {
		case ".go":
			if formatted, err := format.Source([]byte(content)); err != nil || string(formatted) != content {
				t.Errorf("%s is not formatted (%v)", path, err)
			}
			for line := range strings.Lines(content) {
				if utf8.RuneCountInString(line) > 121 && !strings.HasPrefix(strings.TrimSpace(line), "// +") {
					t.Errorf("%s has a line that is too long: %s", path, line)
				}
			}
		case ".yaml":
			if err := yaml.Unmarshal([]byte(content), &map[string]any{}); err != nil {
				t.Errorf("%s is no YAML: %v", path, err)
			}
		}
		if strings.Contains(content, "不支持： |") {
			t.Errorf("%s has an operation without a reason in Chinese", path)
		}
		if strings.Contains(content, "[["+" ") || strings.Contains(content, "<no value>") {
			t.Errorf("%s has a place that was not filled in", path)
		}
	}
	for _, e := range want {
		if !slices.Contains(paths, e.path) || !strings.Contains(files[e.path], e.text) {
			t.Errorf("%s lacks %q", e.path, e.text)
		}
	}
	if lines := handwritten(files, paths); lines > mostLines {
		t.Errorf("a kind begins with %d lines of Go, want at most %d", lines, mostLines)
	} else {
		t.Logf("%s begins with %d lines of Go", request.Kind, lines)
	}
	return paths
}

// mostLines of Go that a kind has before its own fields: those of its types and its folder, without comments, blank
// lines, imports and tests.
const mostLines = 60

func handwritten(files map[string]string, paths []string) int {
	lines := 0
	for _, path := range paths {
		folder := strings.Contains(path, "/internal/kind/") && strings.Count(path, "/") == 4
		test := strings.HasSuffix(path, "_test.go")
		if !folder && !strings.HasSuffix(path, "_types.go") || filepath.Ext(path) != ".go" || test {
			continue
		}
		_, body, found := strings.Cut(files[path], "\n)\n")
		if !found {
			continue
		}
		for line := range strings.Lines(body) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
	}
	return lines
}
