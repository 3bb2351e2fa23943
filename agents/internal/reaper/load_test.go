// SPDX-License-Identifier: Apache-2.0

package reaper

import (
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInterpreterOfAScript(t *testing.T) {
	for data, want := range map[string]string{
		"#!/bin/sh\nexit": "/bin/sh", "#! /usr/bin/env python3": "/usr/bin/env", "#!": "", "#!\n/bin/sh": "", "": "",
		"echo": "", elf.ELFMAG: "",
	} {
		if got := interpreter([]byte(data)); got != want {
			t.Errorf("interpreter of %q is %q, want %q", data, got, want)
		}
	}
}

// TestInterpreterOfAProgram: the one that debug/elf finds, and none when the headers are cut off or lead elsewhere.
func TestInterpreterOfAProgram(t *testing.T) {
	path, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	want := ""
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			name, err := io.ReadAll(segment.Open())
			if err != nil {
				t.Fatal(err)
			}
			want = strings.TrimRight(string(name), "\x00")
		}
	}
	data := head(path)
	if got := interpreter(data); got != want || want == "" {
		t.Errorf("interpreter is %q, want %q", got, want)
	}
	for _, size := range []int{16, 63, 64, 100, 200} {
		if got := interpreter(data[:size]); got != "" {
			t.Errorf("interpreter of the first %d bytes is %q", size, got)
		}
	}
	// The offset of the program headers.
	far := append([]byte(nil), data...)
	copy(far[32:40], "\xff\xff\xff\xff\xff\xff\xff\xff")
	if got := interpreter(far); got != "" {
		t.Errorf("interpreter is %q where headers lead nowhere", got)
	}
}

func TestHeadOfWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		if got := head(path); got != nil {
			t.Errorf("head of %s is %q", path, got)
		}
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := head(empty); len(got) != 0 {
		t.Errorf("head of nothing is %q", got)
	}
}
