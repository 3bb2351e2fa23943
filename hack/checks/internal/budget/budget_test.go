// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/checks/internal/tree"
)

func TestCheck(t *testing.T) {
	root := t.TempDir()
	write(t, root, "platform-core/config/crd/bases/small.yaml", maxDefinition)
	write(t, root, "platform-core/config/crd/bases/big.yaml", maxDefinition+1)
	write(t, root, "database-operator/plugins/redis/1.0.0/params/big.yaml", maxPart+1)
	var got []string
	for _, v := range Check(&tree.Tree{Root: root}) {
		got = append(got, v.Path)
	}
	want := "platform-core/config/crd/bases/big.yaml database-operator/plugins/redis/1.0.0/params/big.yaml"
	if strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGoldensHaveABudget(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "storage-operator/plugins/minio/1.0.0/testdata")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for lines, refused := range map[int]bool{maxGoldens: false, maxGoldens + 1: true} {
		if err := os.WriteFile(filepath.Join(folder, "a.out.yaml"), bytes.Repeat([]byte("a\n"), lines), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := checkGoldens(root); (len(got) > 0) != refused {
			t.Errorf("%d lines give %v", lines, got)
		}
	}
}

// write makes a file of random bytes, which cannot be compressed.
func write(t *testing.T, root, name string, size int) {
	t.Helper()
	content := make([]byte, size)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
