// SPDX-License-Identifier: Apache-2.0

//go:build linux

package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Kind is the file system of all disks. XFS grows in use for whoever may mount;
// ext4 wants CAP_SYS_RESOURCE for that, which root in a sandbox often lacks.
const Kind = "xfs"

// LeastSize is the smallest disk that holds one, in bytes.
const LeastSize = 300 << 20

// Format makes an empty file system that fills a file of zeros.
func Format(ctx context.Context, image string) error {
	return run(ctx, "mkfs.xfs", "-q", "-f", "-K", image)
}

// MountImage mounts the file system in a file at a folder, which is made.
// What was freed in it is freed on the disk below, too.
func MountImage(image, path string, options []string) error {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return fmt.Errorf("cannot make mount point: %w", err)
	}
	loop, d, err := attach(image)
	if err != nil {
		return err
	}
	// From here the mount holds the device, or nothing does.
	defer loop.Close()
	flags, data, err := mountOptions(options)
	if err != nil {
		return err
	}
	if err := unix.Mount(d.Path, path, Kind, flags, data); err != nil {
		return fmt.Errorf("cannot mount %q at %q: %w", image, path, err)
	}
	return nil
}

var mountFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
	"strictatime": unix.MS_STRICTATIME, "noexec": unix.MS_NOEXEC, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV,
	"sync": unix.MS_SYNCHRONOUS, "dirsync": unix.MS_DIRSYNC, "rw": 0, "defaults": 0,
}

// mountOptions sorts options into the kernel's flags and the file system's own.
func mountOptions(options []string) (uintptr, string, error) {
	var flags uintptr
	// A restored snapshot has the identity of its volume, and both are used.
	own := []string{"discard", "nouuid"}
	for _, o := range options {
		if strings.ContainsAny(o, ", ") {
			return 0, "", fmt.Errorf("cannot use mount option %q: give one at a time", o)
		}
		if flag, ok := mountFlags[o]; ok {
			flags |= flag
		} else {
			own = append(own, o)
		}
	}
	return flags, strings.Join(own, ","), nil
}

// Grow makes a device as large as its file, and its file system, mounted at a
// path, as large as the device. It does nothing where nothing is missing.
func Grow(ctx context.Context, d Device, path string) error {
	if err := d.refresh(); err != nil {
		return err
	}
	return run(ctx, "xfs_growfs", "-d", path)
}

// Requests to hold all writes to a file system and to let them go on.
const (
	freeze = 0xc0045877
	thaw   = 0xc0045878
)

// Freeze brings the file system of a device to rest on its disk and holds all
// writes to it until the returned function is called. A device that nobody has
// mounted rests already.
func Freeze(d Device) (func() error, error) {
	mounts, err := Of(d)
	if err != nil {
		return nil, err
	}
	if len(mounts) == 0 {
		return func() error { return nil }, nil
	}
	dir, err := os.Open(mounts[0].Path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the file system on %q: %w", d.Path, err)
	}
	if err := unix.IoctlSetInt(int(dir.Fd()), freeze, 0); err != nil {
		dir.Close()
		return nil, fmt.Errorf("cannot hold writes to %q: %w", d.Path, err)
	}
	return func() error {
		defer dir.Close()
		if err := unix.IoctlSetInt(int(dir.Fd()), thaw, 0); err != nil {
			return fmt.Errorf("cannot let writes to %q go on: %w", d.Path, err)
		}
		return nil
	}, nil
}

// Thaw lets writes to a device go on that a process which ended has held.
func Thaw(d Device) error {
	mounts, err := Of(d)
	if err != nil || len(mounts) == 0 {
		return err
	}
	dir, err := os.Open(mounts[0].Path)
	if err != nil {
		return fmt.Errorf("cannot open the file system on %q: %w", d.Path, err)
	}
	defer dir.Close()
	// Invalid means that nothing holds it.
	if err := unix.IoctlSetInt(int(dir.Fd()), thaw, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("cannot let writes to %q go on: %w", d.Path, err)
	}
	return nil
}

// Usage is how much of something is used, free and there.
type Usage struct{ Used, Available, Total int64 }

// Usages returns a mounted file system's usage, in bytes and in inodes.
func Usages(path string) (bytes, inodes Usage, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Usage{}, Usage{}, fmt.Errorf("cannot look at the file system at %q: %w", path, err)
	}
	bytes = Usage{Used: int64(st.Blocks-st.Bfree) * st.Bsize, Available: int64(st.Bavail) * st.Bsize,
		Total: int64(st.Blocks) * st.Bsize}
	inodes = Usage{Used: int64(st.Files - st.Ffree), Available: int64(st.Ffree), Total: int64(st.Files)}
	return bytes, inodes, nil
}

// run runs a program to its end; the error holds what it said.
func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, find(name), args...)
	cmd.Env = append(slices.Clone(os.Environ()), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot run %s %s: %w: %s", name, args[len(args)-1], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// find looks also where the PATH of an ordinary user does not lead.
func find(name string) string {
	for _, candidate := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if file, err := exec.LookPath(candidate); err == nil {
			return file
		}
	}
	return name
}
