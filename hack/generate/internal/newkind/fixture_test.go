// SPDX-License-Identifier: Apache-2.0

package newkind

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

// copied returns a temporary folder with these paths of the repository.
func copied(t *testing.T, paths ...string) string {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	for _, path := range paths {
		from, target := filepath.Join(root, path), filepath.Join(to, path)
		info, err := os.Stat(from)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			err = os.CopyFS(target, os.DirFS(from))
		} else {
			var content []byte
			if content, err = os.ReadFile(from); err == nil {
				put(t, target, content)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// withoutKinds makes the batch operator of a copy one that has no kinds: what is special to it is that of
// testdata/operator, whatever kinds the operators of the repository have. It gets the plugin nginx, which another
// operator has.
func withoutKinds(t *testing.T, root string) repo.Operator {
	t.Helper()
	at := slices.IndexFunc(repo.Operators, func(o repo.Operator) bool { return o.Domain == "batch" })
	o := repo.Operators[at]
	folder := filepath.Join(root, o.Name())
	for _, path := range []string{"PROJECT", "api", "cmd", "config", "internal", "plugins"} {
		if err := os.RemoveAll(filepath.Join(folder, path)); err != nil {
			t.Fatal(err)
		}
	}
	// Pages of kinds that are gone, in both languages.
	for _, pattern := range []string{"docs/kinds/*.md", "docs/zh/kinds/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "apiVersion: "+o.Domain+".zeroinfra.github.com/") {
				if err := os.Remove(page); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "operator"))); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"plugins/nginx", "config/plugins/nginx-1.0.0.yaml"} {
		for name, content := range tree(t, filepath.Join(root, "common-operator", path)) {
			content = strings.ReplaceAll(content, "domain: common", "domain: "+o.Domain)
			put(t, filepath.Join(root, o.Name(), path, name), []byte(content))
		}
	}
	return o
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// tree is all that a folder holds, by path.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		all[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
