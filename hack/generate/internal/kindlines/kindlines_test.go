// SPDX-License-Identifier: Apache-2.0

package kindlines

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

// write writes files below a folder.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCount(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		// One line for the package, one for each type.
		"a-operator/api/v1/redis_types.go": "// Package v1.\npackage v1\n\n// +marker\ntype Redis struct{}\n",
		"a-operator/api/v1/redisservers_types.go": "package v1\n\ntype Servers struct {\n\t// a is a.\n\tA int /* why " +
			"*/\n}\n",
		"a-operator/api/v1/rediscluster_types.go":     "package v1\n\ntype RedisCluster struct{}\n",
		"a-operator/api/v1/shared_types.go":           "package v1\n\ntype Auth struct{}\n",
		"a-operator/api/v1/groupversion_info.go":      "package v1\n",
		"a-operator/api/v1/zz_generated.deepcopy.go":  "package v1\n\nvar x = 1\n",
		"a-operator/internal/kind/kinds.go":           "package kind\n",
		"a-operator/internal/kind/redis/kind.go":      "package redis\n\nconst text = `one\n\ntwo`\n",
		"a-operator/internal/kind/redis/kind_test.go": "package redis\n\nvar y = 1\n",
		"a-operator/internal/rediscluster/act.go":     "package rediscluster\n",
		"a-operator/internal/parts/parts.go":          "package parts\n",
	})
	kinds, shared, err := count(root, []string{"a-operator"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []Kind{
		{Name: "Redis", Folder: "a-operator/internal/kind/redis", Types: 2 + 4, Code: 4},
		{Name: "RedisCluster", Folder: "a-operator/internal/rediscluster", Types: 2, Code: 1},
	}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("got %+v, want %+v", kinds, want)
	}
	if want := []Shared{{
		Operator: "a-operator", Names: []string{"internal/kind", "internal/parts", "api/v1/shared_types.go"}, Lines: 4,
	}}; !reflect.DeepEqual(shared, want) {
		t.Errorf("got %+v, want %+v", shared, want)
	}
}

func TestTheTableIsBetweenTheMarks(t *testing.T) {
	page := "before\n" + begins + "old\n" + ends + "after\n"
	if got, err := replace(page, "new\n"); err != nil || got != "before\n"+begins+"new\n"+ends+"after\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := replace("before\n", "new\n"); err == nil || !strings.Contains(err.Error(), Page) {
		t.Errorf("got %v", err)
	}
}

// Every folder of internal/kind of the repository is in the table.
func TestEachKindIsCounted(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	kinds, _, err := count(root, operators())
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]bool{}
	for _, kind := range kinds {
		counted[kind.Folder] = true
		if kind.Types == 0 || kind.Code == 0 {
			t.Errorf("%+v has no lines of a kind", kind)
		}
	}
	folders, err := filepath.Glob(filepath.Join(root, "*-operator/internal/kind/*/kind.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		relative, err := filepath.Rel(root, filepath.Dir(folder))
		if err != nil {
			t.Fatal(err)
		}
		if !counted[filepath.ToSlash(relative)] {
			t.Errorf("%s is not in the table", relative)
		}
	}
}
