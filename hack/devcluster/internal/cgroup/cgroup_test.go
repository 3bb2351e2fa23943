// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParseMount(t *testing.T) {
	root, kind, options := parseMount("35 25 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup " +
		"rw,cpu,cpuacct")
	if root != "/sys/fs/cgroup/cpu,cpuacct" || kind != "cgroup" || !slices.Contains(options, "cpuacct") {
		t.Errorf("got %q, %q, %v", root, kind, options)
	}
	const hybrid = "36 25 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
	if root, kind, _ := parseMount(hybrid); root != "/sys/fs/cgroup/unified" || kind != "cgroup2" {
		t.Errorf("got %q, %q for the hybrid tree", root, kind)
	}
	for _, line := range []string{
		"25 1 0:22 / /sys rw - sysfs sysfs rw",
		"37 25 0:32 / /elsewhere/pids rw - cgroup cgroup rw,pids",
		"broken",
	} {
		if root, kind, _ := parseMount(line); kind != "" {
			t.Errorf("%q is taken for a tree at %q", line, root)
		}
	}
}

// fakeTree makes a folder that looks like a v1 cpuset tree.
func fakeTree(t *testing.T) *Trees {
	t.Helper()
	root := t.TempDir()
	for file, value := range map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &Trees{roots: []string{root}, tracking: root, hybrid: t.TempDir()}
}

func TestProcessesLeaveOutSelfAndStrangers(t *testing.T) {
	trees := fakeTree(t)
	if err := trees.Ensure("/a/b"); err != nil {
		t.Fatal(err)
	}
	own := []byte("0\n12\n")
	inner := []byte("12\n7\n")
	for dir, data := range map[string][]byte{"a": own, "a/b": inner} {
		if err := os.WriteFile(filepath.Join(trees.tracking, dir, "cgroup.procs"), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pids, err := trees.Processes("/a")
	if err != nil || !slices.Equal(pids, []int{7, 12}) {
		t.Errorf("got %v, %v", pids, err)
	}
	if pids, err := trees.Processes("/absent"); err != nil || len(pids) > 0 {
		t.Errorf("an absent group has %v, %v", pids, err)
	}
}

func TestRemoveIsDeepAndRepeatable(t *testing.T) {
	trees := fakeTree(t)
	if err := trees.Ensure("/a/b/c"); err != nil {
		t.Fatal(err)
	}
	// A container runtime makes groups of its own.
	if err := os.MkdirAll(filepath.Join(trees.hybrid, "a", "pod"), 0o755); err != nil {
		t.Fatal(err)
	}
	if !trees.Exists("/a/b/c") {
		t.Fatal("the group was not made")
	}
	for range 2 {
		if err := trees.Remove("/a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(trees.hybrid, "a")); err == nil {
		t.Error("the group is still in the hybrid tree")
	}
	if trees.Exists("/a") {
		t.Error("the group is still there")
	}
}
