// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cgroup makes, enters, lists and removes control groups on machines
// with cgroup v1 (one tree per controller) or v2 (one tree).
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is the group that holds those of all clusters.
const Root = "/devcluster"

// Mount is where the trees are on every Linux machine.
const Mount = "/sys/fs/cgroup"

// Trees are the mounted cgroup trees of the machine.
type Trees struct {
	// unified is set on cgroup v2.
	unified bool
	// roots are the mount points, one on v2.
	roots []string
	// hybrid is the v2 tree that some v1 machines have besides, without
	// controllers; container runtimes make groups there too.
	hybrid string
	// tracking is the tree in which processes are looked up.
	tracking string
}

// Detect finds the trees of this machine.
func Detect() (*Trees, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(Mount, &st); err != nil {
		return nil, fmt.Errorf("cannot look at %q: cgroups must be mounted: %w", Mount, err)
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		return &Trees{unified: true, roots: []string{Mount}, tracking: Mount}, nil
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot read mounts: %w", err)
	}
	defer f.Close()
	t := &Trees{}
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		root, kind, options := parseMount(scanner.Text())
		switch {
		case kind == "cgroup2":
			t.hybrid = root
		case kind == "cgroup" && !slices.Contains(t.roots, root):
			t.roots = append(t.roots, root)
			if slices.Contains(options, "pids") {
				t.tracking = root
			}
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("cannot read mounts: %w", err)
	}
	if t.tracking == "" {
		return nil, fmt.Errorf("cannot find the pids controller below %q: this kernel lacks it or it is not mounted", Mount)
	}
	return t, nil
}

// parseMount reads one line of mountinfo. kind is that of a cgroup tree below
// Mount, "cgroup" or "cgroup2", and empty for anything else; options are those
// of the tree, its controllers among them.
func parseMount(line string) (root, kind string, options []string) {
	before, after, found := strings.Cut(line, " - ")
	fields, rest := strings.Fields(before), strings.Fields(after)
	if !found || len(fields) < 5 || len(rest) < 3 || !strings.HasPrefix(fields[4], Mount+"/") {
		return "", "", nil
	}
	if rest[0] != "cgroup" && rest[0] != "cgroup2" {
		return "", "", nil
	}
	return fields[4], rest[0], strings.Split(rest[2], ",")
}

// all lists the trees in which groups of ours can be.
func (t *Trees) all() []string {
	if t.hybrid == "" {
		return t.roots
	}
	return append(slices.Clone(t.roots), t.hybrid)
}

// Controllers returns the names of the mounted v1 trees or, on v2, of the
// controllers that the root offers.
func (t *Trees) Controllers() []string {
	if !t.unified {
		names := make([]string, len(t.roots))
		for i, r := range t.roots {
			names[i] = filepath.Base(r)
		}
		return names
	}
	data, err := os.ReadFile(filepath.Join(Mount, "cgroup.controllers"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// Ensure makes a group and those above it, ready to hold groups of its own
// with every controller.
func (t *Trees) Ensure(group string) error {
	for _, root := range t.roots {
		path := root
		for part := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
			if t.unified {
				if err := delegate(path); err != nil {
					return err
				}
			}
			parent := path
			path = filepath.Join(path, part)
			if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("cannot make cgroup %q: %w", path, err)
			}
			if err := inheritCPUSet(parent, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// delegate hands a v2 group's controllers to the groups below it.
func delegate(path string) error {
	data, err := os.ReadFile(filepath.Join(path, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("cannot read controllers of cgroup %q: %w", path, err)
	}
	for name := range strings.FieldsSeq(string(data)) {
		err := os.WriteFile(filepath.Join(path, "cgroup.subtree_control"), []byte("+"+name), 0)
		if err != nil && slices.Contains([]string{"cpu", "memory", "pids", "cpuset"}, name) {
			return fmt.Errorf("cannot hand controller %q of cgroup %q on: %w", name, path, err)
		}
	}
	return nil
}

// inheritCPUSet gives a new v1 cpuset the CPUs and memory nodes of its parent:
// without them no process can enter it.
func inheritCPUSet(parent, path string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(path, file))
		if err != nil || strings.TrimSpace(string(own)) != "" {
			continue // not a cpuset, or set already
		}
		value, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil || strings.TrimSpace(string(value)) == "" {
			continue // v2: empty means the parent's
		}
		if err := os.WriteFile(filepath.Join(path, file), value, 0); err != nil {
			return fmt.Errorf("cannot set %s of cgroup %q: %w", file, path, err)
		}
	}
	return nil
}

// Exists tells whether the group is there.
func (t *Trees) Exists(group string) bool {
	_, err := os.Stat(filepath.Join(t.tracking, group))
	return err == nil
}

// EnterThread moves the calling thread into a group on v1, so that what it
// starts is born there. On v2 threads cannot move alone: there Open is used.
func (t *Trees) EnterThread(group string) error {
	if t.unified {
		return nil
	}
	tid := strconv.Itoa(unix.Gettid())
	for _, root := range t.roots {
		file := filepath.Join(root, group, "tasks")
		if err := os.WriteFile(file, []byte(tid), 0); err != nil {
			return fmt.Errorf("cannot enter cgroup %q: %w", filepath.Join(root, group), err)
		}
	}
	return nil
}

// Open returns the group's folder on v2, for starting a process inside it,
// and nil on v1.
func (t *Trees) Open(group string) (*os.File, error) {
	if !t.unified {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(Mount, group))
	if err != nil {
		return nil, fmt.Errorf("cannot open cgroup %q: %w", group, err)
	}
	return f, nil
}

// Processes lists the processes in a group and in all groups below it, this
// one left out. An absent group has none.
func (t *Trees) Processes(group string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(filepath.Join(t.tracking, group), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				return nil
			}
			return err
		}
		for field := range strings.FieldsSeq(string(data)) {
			pid, err := strconv.Atoi(field)
			// 0 stands for a process outside of our process namespace.
			if err == nil && pid > 0 && pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list processes of cgroup %q: %w", group, err)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// Remove deletes a group with all groups below it. Processes in it must have
// ended. An absent group is no error.
func (t *Trees) Remove(group string) error {
	for _, root := range t.all() {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(root, group), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("cannot list cgroup %q: %w", group, err)
		}
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("cannot remove cgroup %q: %w", dir, err)
			}
		}
	}
	return nil
}

// RemoveEmpty deletes a group when nothing is below it.
func (t *Trees) RemoveEmpty(group string) {
	for _, root := range t.all() {
		_ = os.Remove(filepath.Join(root, group))
	}
}
