// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package host checks whether this machine can carry a cluster, and installs
// what it lacks from the machine's own Debian package sources.
package host

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeroinfra/hack/devcluster/internal/cgroup"
	"golang.org/x/sys/unix"
)

// minDisk is the least free space in bytes, under the state folder, that "up"
// starts with.
const minDisk = 4 << 30

// Check says, all at once, what keeps this machine from carrying a cluster
// whose state is kept below base.
func Check(base string) error {
	if err := CheckRoot(); err != nil {
		return err
	}
	return errors.Join(checkCgroups(), checkFilesystems(), checkKernel(), checkDisk(base))
}

// CheckRoot says so when the caller is not root.
func CheckRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("cannot manage network namespaces and mounts as an ordinary user: run this as root, for example " +
			"with sudo")
	}
	return nil
}

func checkCgroups() error {
	trees, err := cgroup.Detect()
	if err != nil {
		return err
	}
	have := trees.Controllers()
	var missing []string
	for _, name := range []string{"cpu", "cpuset", "memory", "pids"} {
		// v1 may mount several controllers in one tree: "cpu,cpuacct".
		if !slices.ContainsFunc(have, func(h string) bool { return slices.Contains(strings.Split(h, ","), name) }) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("cannot limit pods: cgroup controllers %s are missing; switch them on in the kernel's command line",
			strings.Join(missing, ", "))
	}
	return nil
}

func checkFilesystems() error {
	f, err := os.Open("/proc/filesystems")
	if err != nil {
		return fmt.Errorf("cannot read the kernel's file systems: %w", err)
	}
	defer f.Close()
	found := false
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		found = found || len(fields) > 0 && fields[len(fields)-1] == "overlay"
	}
	if found || module("overlay") {
		return nil
	}
	return errors.New("cannot unpack images: this kernel has no overlay file system")
}

func checkKernel() error {
	for _, kind := range []string{"net", "pid", "mnt", "uts", "ipc"} {
		if _, err := os.Stat("/proc/self/ns/" + kind); err != nil {
			return fmt.Errorf("cannot make machines: this kernel has no %s namespaces", kind)
		}
	}
	var errs []error
	for name, use := range map[string]string{
		"loop": "show volumes as disks", "xfs": "format volumes", "veth": "connect nodes", "bridge": "connect nodes",
		"nf_tables": "serve Services", "nf_conntrack": "serve Services",
	} {
		if !module(name) {
			errs = append(errs, fmt.Errorf("cannot %s: this kernel has no %q", use, name))
		}
	}
	return errors.Join(errs...)
}

// module tells whether the kernel has a part, built in or as a module, which
// is then loaded. A kernel that tells nothing about its parts is believed to
// have it.
func module(name string) bool {
	if _, err := os.Stat("/sys/module/" + name); err == nil {
		return true
	}
	var release unix.Utsname
	if err := unix.Uname(&release); err != nil {
		return true
	}
	dir := filepath.Join("/lib/modules", unix.ByteSliceToString(release.Release[:]))
	builtin, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return true
	}
	if strings.Contains(string(builtin), "/"+name+".ko") {
		return true
	}
	return exec.Command("modprobe", name).Run() == nil
}

func checkDisk(base string) error {
	dir := base
	for {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if err == nil {
			free := int64(st.Bavail) * st.Bsize
			if free < minDisk {
				return fmt.Errorf("cannot keep a cluster in %q: only %.1f GiB of disk are free, %d GiB are needed; make room or "+
					"choose another place with --state", base, float64(free)/(1<<30), minDisk>>30)
			}
			return nil
		}
		if !errors.Is(err, os.ErrNotExist) || dir == "/" {
			return fmt.Errorf("cannot look at the disk under %q: %w", base, err)
		}
		dir = filepath.Dir(dir)
	}
}
