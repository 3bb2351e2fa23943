// SPDX-License-Identifier: Apache-2.0

// Package cgroup reads what the container's control group says of the memory of its processes.
package cgroup

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Mount is where a container finds the control group that it is in.
const Mount = "/sys/fs/cgroup"

// kept are the lines of memory.stat of version 2 that count what the kernel cannot take back while the processes run:
// their own memory, and what the kernel keeps for them. The cache of files and slabs that can be given back are left
// out. So is shared memory, such as the buffers of a database, which is as large as its configuration says, and not as
// what it holds.
var kept = map[string]bool{
	"anon": true, "kernel_stack": true, "pagetables": true, "sec_pagetables": true, "percpu": true, "sock": true,
	"vmalloc": true, "slab_unreclaimable": true,
}

// keptBefore is the line of version 1, which keeps no such account of the kernel's part: the processes' own memory, of
// groups below as well.
var keptBefore = map[string]bool{"total_rss": true}

// MemoryInUse returns how many bytes the processes of the control group at mount use that cannot be taken back from
// them; 0 where it is not known: there is no such group, or it is the root of all, which is the whole machine's.
func MemoryInUse(mount string) int64 {
	if exists(filepath.Join(mount, "memory.current")) {
		return sum(filepath.Join(mount, "memory.stat"), kept)
	}
	before := filepath.Join(mount, "memory")
	if exists(filepath.Join(before, "release_agent")) {
		return 0
	}
	return sum(filepath.Join(before, "memory.stat"), keptBefore)
}

// exists says whether there is a file; memory.current is in no root of version 2, and release_agent in roots of version
// 1 alone.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// sum adds up the lines of a memory.stat that count; 0 when it cannot be read to its end.
func sum(path string, counts map[string]bool) int64 {
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	var total int64
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if !counts[name] {
			continue
		}
		bytes, err := strconv.ParseInt(value, 10, 64)
		if err != nil || bytes < 0 {
			return 0
		}
		total += bytes
	}
	if lines.Err() != nil {
		return 0
	}
	return total
}
