// SPDX-License-Identifier: Apache-2.0

package cgroup_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/zeroinfra/agents/internal/cgroup"
)

// group is a folder of control groups with these files.
func group(t *testing.T, files map[string]string) string {
	t.Helper()
	mount := t.TempDir()
	for name, text := range files {
		path := filepath.Join(mount, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return mount
}

func TestMemoryInUse(t *testing.T) {
	const (
		second = "anon 1000\nfile 500000\nkernel 90\nkernel_stack 10\npagetables 20\nsec_pagetables 0\npercpu 3\nsock " +
			"5\nvmalloc 2\nshmem 7000\n" +
			"inactive_file 400000\nslab_reclaimable 40\nslab_unreclaimable 60\nslab 100\n"
		first = "cache 500000\nrss 400\nshmem 7000\ntotal_cache 500000\ntotal_rss 1500\ntotal_shmem 7000\n"
	)
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"version 2": {map[string]string{"memory.current": "600000", "memory.stat": second}, 1100},
		"version 2 of an older kernel": {
			map[string]string{"memory.current": "600000", "memory.stat": "anon 1000\nfile 2\n"}, 1000},
		"root of version 2":             {map[string]string{"memory.stat": second}, 0},
		"version 2 without the account": {map[string]string{"memory.current": "600000"}, 0},
		"version 1":                     {map[string]string{"memory/memory.stat": first}, 1500},
		"root of version 1":             {map[string]string{"memory/memory.stat": first, "memory/release_agent": ""}, 0},
		"version 2 beside a version 1":  {map[string]string{"memory/memory.stat": first, "unified/cgroup.procs": ""}, 1500},
		"nothing is mounted":            {nil, 0},
		"what is no number":             {map[string]string{"memory.current": "1", "memory.stat": "anon many\n"}, 0},
		"what no machine has": {
			map[string]string{"memory.current": "1", "memory.stat": "anon 99999999999999999999\n"}, 0},
		"less than nothing":              {map[string]string{"memory.current": "1", "memory.stat": "anon -5\n"}, 0},
		"a line without a number at all": {map[string]string{"memory.current": "1", "memory.stat": "anon\n"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cgroup.MemoryInUse(group(t, test.files)); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
