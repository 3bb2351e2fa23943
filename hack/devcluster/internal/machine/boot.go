// SPDX-License-Identifier: Apache-2.0

//go:build linux

package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/zeroinfra/hack/devcluster/internal/cgroup"
	"golang.org/x/sys/unix"
)

// BootVerb is the hidden verb under which this program is a machine's first
// process until it becomes the init named in its argument.
const BootVerb = "machine-boot"

// bootSpec is all that the first process needs to know.
type bootSpec struct {
	Hostname string `json:"hostname"`
	Binds    []bind `json:"binds"`
	Init     string `json:"init"`
}

// bind shows a folder of the host at a place inside the machine.
type bind struct {
	From     string `json:"from"`
	To       string `json:"to"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// reportFD is the descriptor on which the first process tells what went wrong.
const reportFD = 3

// Boot sets up the machine from inside and becomes its init. It returns only
// on failure, which it has reported to the process that waits.
func Boot(argument string) error {
	unix.CloseOnExec(reportFD)
	err := boot(argument)
	report := os.NewFile(reportFD, "report")
	defer report.Close()
	_, _ = report.WriteString(err.Error())
	return err
}

func boot(argument string) error {
	var spec bootSpec
	if err := json.Unmarshal([]byte(argument), &spec); err != nil {
		return fmt.Errorf("cannot read boot argument: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot part the mounts from the host's: %w", err)
	}
	sources, err := openSources(spec.Binds)
	if err != nil {
		return err
	}
	if err := mountFresh("tmpfs", "/run", "mode=0755"); err != nil {
		return err
	}
	if err := os.MkdirAll("/run/lock", 0o1777); err != nil {
		return err
	}
	for i, b := range spec.Binds {
		if err := mountBind(sources[i], b); err != nil {
			return err
		}
	}
	if err := mountSys(); err != nil {
		return err
	}
	if err := mountFresh("proc", "/proc", ""); err != nil {
		return err
	}
	// Volumes that a container mounts must reach the kubelet and back.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("cannot share mounts inside the machine: %w", err)
	}
	if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("cannot set host name: %w", err)
	}
	if err := syscall.Exec(spec.Init, []string{spec.Init}, nil); err != nil {
		return fmt.Errorf("cannot become %q: %w", spec.Init, err)
	}
	return nil
}

// openSources opens the folders to show before any mount hides them.
func openSources(binds []bind) ([]int, error) {
	fds := make([]int, len(binds))
	for i, b := range binds {
		fd, err := unix.Open(b.From, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, fmt.Errorf("cannot open folder %q: %w", b.From, err)
		}
		fds[i] = fd
	}
	return fds, nil
}

func mountBind(source int, b bind) error {
	if err := os.MkdirAll(b.To, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make mount point %q: %w", b.To, err)
	}
	if err := unix.Mount("/proc/self/fd/"+strconv.Itoa(source), b.To, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot show %q at %q: %w", b.From, b.To, err)
	}
	if !b.ReadOnly {
		return nil
	}
	if err := unix.Mount("", b.To, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("cannot make %q read-only: %w", b.To, err)
	}
	return nil
}

// mountSys mounts /sys anew, because it shows the interfaces of the network
// namespace in which it was mounted, and keeps the cgroup trees.
func mountSys() error {
	const aside = "/run/devcluster/cgroup"
	if err := os.MkdirAll(aside, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(cgroup.Mount, aside, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("cannot keep the cgroup trees: %w", err)
	}
	if err := mountFresh("sysfs", "/sys", ""); err != nil {
		return err
	}
	if err := unix.Mount(aside, cgroup.Mount, "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("cannot put the cgroup trees back: %w", err)
	}
	return os.Remove(aside)
}

func mountFresh(kind, at, options string) error {
	if err := unix.Mount(kind, at, kind, unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("cannot mount %s at %q: %w", kind, at, err)
	}
	return nil
}
