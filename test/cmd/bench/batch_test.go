// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One bench leaves what the other one found.
func TestFormerResultsOfTheOtherBenchAreKept(t *testing.T) {
	programs, out := t.TempDir(), t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\necho test 1.2.3\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	figures := filepath.Join(t.TempDir(), "figures.json")
	if err := os.WriteFile(figures, []byte(`{"objects": 10, "seconds": 1, "took": [1, 2]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, s := range []settings{{workflows: figures}, {cronJobs: figures}} {
		s.out, s.commit, s.Assets = out, "test", programs
		if err := recordBatch(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(filepath.Join(out, batchPageFile))
	if err != nil || !strings.Contains(string(page), "## 10 Workflows") ||
		!strings.Contains(string(page), "## 10 CronJobs") {
		t.Errorf("the page is %s: %v", page, err)
	}
	if err := os.WriteFile(filepath.Join(out, batchDataFile), []byte("?"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := recordBatch(t.Context(), settings{workflows: figures, out: out}); err == nil {
		t.Error("former results that cannot be read are written over")
	}
}
