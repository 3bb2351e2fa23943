// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUnsupported says that the system confines nobody.
var ErrUnsupported = errors.New("the system has no Landlock")

const (
	// ofFiles are the rights that there are of a file that is no folder.
	ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// first are those that the first version knows, all in a row.
	first = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1
	// renamesSince and truncatesSince are the versions that know of two more.
	renamesSince, truncatesSince = 2, 3
)

// Thread keeps the calling thread, and all that it starts from then on, from some files and folders, which are absolute
// paths. All else that there is by then it can do as before; what is made later beside those that it is kept from it is
// kept from, too. The caller has locked its goroutine to the thread.
func Thread(from ...string) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("%w: %w", ErrUnsupported, errno)
	}
	handled := uint64(first)
	if version >= renamesSince {
		handled |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= truncatesSince {
		handled |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	// The kernel knows by the size which of its fields there are: the first, which are the rights that are handled, is of
	// every version.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)),
		unsafe.Sizeof(handled), 0)
	if errno != 0 {
		return fmt.Errorf("cannot make a Landlock: %w", errno)
	}
	rules := ruleset{fd: int(fd), handled: handled}
	defer unix.Close(rules.fd)
	if err := rules.allow("/", from); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot give up new rights: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("cannot take on a Landlock: %w", errno)
	}
	return nil
}

type ruleset struct {
	fd      int
	handled uint64
}

// allow lets all be done at a path but what is at some others.
func (r ruleset) allow(path string, except []string) error {
	if slices.Contains(except, path) {
		return nil
	}
	within := func(other string) bool { return strings.HasPrefix(other, strings.TrimSuffix(path, "/")+"/") }
	if !slices.ContainsFunc(except, within) {
		return r.add(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		// What it cannot look into it has no business with either.
		return nil
	}
	for _, entry := range entries {
		if err := r.allow(filepath.Join(path, entry.Name()), except); err != nil {
			return err
		}
	}
	return nil
}

func (r ruleset) add(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: r.handled, Parent_fd: int32(fd)}
	if is.Mode&unix.S_IFMT != unix.S_IFDIR {
		rule.Allowed_access &= ofFiles
	}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("cannot allow %s: %w", path, errno)
	}
	return nil
}
