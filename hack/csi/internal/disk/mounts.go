// SPDX-License-Identifier: Apache-2.0

//go:build linux

package disk

import (
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

// Mount is one mount of this process's namespace.
type Mount struct {
	// Path is where it is.
	Path string
	// Number is the device that is shown there.
	Number string
	// Options are those of the mount itself, such as "ro".
	Options []string
}

// Mounts lists all mounts, the newest last.
func Mounts() ([]Mount, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot list mounts: %w", err)
	}
	return parseMounts(string(data))
}

func parseMounts(data string) ([]Mount, error) {
	var all []Mount
	for line := range strings.Lines(data) {
		// number parent major:minor root path options …
		fields := strings.Fields(line)
		if len(fields) < 6 {
			return nil, fmt.Errorf("cannot understand mount %q", line)
		}
		all = append(all, Mount{Path: unescape(fields[4]), Number: fields[2], Options: strings.Split(fields[5], ",")})
	}
	return all, nil
}

// unescape undoes the kernel's \ooo for spaces and the like.
func unescape(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// At returns what is mounted at a path. A path that is not a mount point, or
// not there, has nothing.
func At(path string) (Mount, bool, error) {
	all, err := Mounts()
	if err != nil {
		return Mount{}, false, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = filepath.Clean(path)
	}
	for _, m := range slices.Backward(all) {
		if m.Path == real {
			return m, true, nil
		}
	}
	return Mount{}, false, nil
}

// ReadOnly tells whether nothing can be written through the mount.
func (m Mount) ReadOnly() bool { return slices.Contains(m.Options, "ro") }

// Of lists the mounts that show a device.
func Of(d Device) ([]Mount, error) {
	all, err := Mounts()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(m Mount) bool { return m.Number != d.Number }), nil
}

// Access says what a mount lets one do.
type Access int

// Kinds of access.
const (
	ReadWrite Access = iota
	ReadOnly
)

// Bind shows the folder from at the folder to, which is made.
func Bind(from, to string, access Access) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return fmt.Errorf("cannot make mount point: %w", err)
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot show %q at %q: %w", from, to, err)
	}
	if access == ReadWrite {
		return nil
	}
	if err := unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("cannot make %q read-only: %w", to, err), unix.Unmount(to, 0))
	}
	return nil
}

// Unmount takes away all that is mounted at a path. Nothing there is fine.
func Unmount(path string) error {
	for {
		_, mounted, err := At(path)
		if err != nil || !mounted {
			return err
		}
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("cannot unmount %q: %w", path, err)
		}
	}
}

// Remove takes away all that is mounted at a path, and the folder itself.
func Remove(path string) error {
	if err := Unmount(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove mount point: %w", err)
	}
	return nil
}
