// SPDX-License-Identifier: Apache-2.0

package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/atomicfile"
)

func TestWriteReplacesContentAndMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, step := range []struct {
		content string
		mode    os.FileMode
	}{{"one", 0o600}, {"a longer two", 0o755}, {"", 0o640}} {
		if err := atomicfile.Write(path, []byte(step.content), step.mode); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != step.content {
			t.Errorf("content is %q, %v; want %q", got, err, step.content)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != step.mode {
			t.Errorf("mode is %v, %v; want %v", info.Mode(), err, step.mode)
		}
	}
}

func TestReaderOfTheOldFileKeepsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := atomicfile.Write(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8)
	if n, err := f.Read(buf); err != nil || string(buf[:n]) != "old" {
		t.Errorf("the open file reads %q, %v", buf[:n], err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken source") }

func TestFailureLeavesTheOldFileAndNoOther(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := atomicfile.Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := atomicfile.Copy(path, broken{}, 0o600)
	if err == nil || !strings.Contains(err.Error(), "broken source") {
		t.Fatalf("got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("content is %q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("files left: %v, %v", entries, err)
	}
}

func TestMissingFolderIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "file")
	if err := atomicfile.Write(path, nil, 0o600); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}
