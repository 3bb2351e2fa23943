// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// need is a file that a cluster uses and the Debian package that brings it.
type need struct {
	pkg   string
	files []string // any one of them will do
}

// sbin are folders that an ordinary PATH may lack.
var sbin = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// CNIDirs are where distributions keep the network plugins.
var CNIDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

func needs() []need {
	var plugins []string
	for _, dir := range CNIDirs {
		plugins = append(plugins, filepath.Join(dir, "ptp"))
	}
	return []need{
		{"containerd", programFiles("containerd")},
		{"runc", programFiles("runc")},
		{"containernetworking-plugins", plugins},
		{"iptables", programFiles("iptables")},
		{"nftables", programFiles("nft")},
		{"conntrack", programFiles("conntrack")},
		{"ebtables", programFiles("ebtables")},
		{"socat", programFiles("socat")},
		{"iproute2", programFiles("ip")},
		{"mount", programFiles("mount")},
		{"xfsprogs", programFiles("mkfs.xfs")},
		{"busybox-static", []string{"/usr/bin/busybox", "/bin/busybox"}},
	}
}

func programFiles(name string) []string {
	files := make([]string, len(sbin))
	for i, dir := range sbin {
		files[i] = filepath.Join(dir, name)
	}
	return files
}

// find returns the first file of a need that is there.
func (n need) find() (string, bool) {
	for _, file := range n.files {
		if _, err := os.Stat(file); err == nil {
			return file, true
		}
	}
	return "", false
}

// Missing lists the Debian packages that this machine lacks.
func Missing() []string {
	var missing []string
	for _, n := range needs() {
		if _, ok := n.find(); !ok {
			missing = append(missing, n.pkg)
		}
	}
	return missing
}

// Installed are the places of what a cluster uses.
type Installed struct {
	// Containerd is the container runtime's file.
	Containerd string
	// CNI is the folder of the network plugins.
	CNI string
	// Busybox is the static busybox.
	Busybox string
}

// Locate finds what Install has installed.
func Locate() (Installed, error) {
	found := map[string]string{}
	for _, n := range needs() {
		file, ok := n.find()
		if !ok {
			return Installed{}, fmt.Errorf("cannot find package %q: run \"devcluster deps\"", n.pkg)
		}
		found[n.pkg] = file
	}
	return Installed{
		Containerd: found["containerd"], CNI: filepath.Dir(found["containernetworking-plugins"]),
		Busybox: found["busybox-static"],
	}, nil
}

// Install installs Debian packages from the machine's own sources, reading
// the sources' lists anew only when a package is not known.
func Install(ctx context.Context, packages []string, output io.Writer) error {
	if len(packages) == 0 {
		return nil
	}
	if err := CheckRoot(); err != nil {
		return err
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("cannot install %s: this is no Debian machine; install them with its own package manager",
			strings.Join(packages, ", "))
	}
	if !known(ctx, packages) {
		if err := apt(ctx, output, "update"); err != nil {
			return err
		}
	}
	args := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	if err := apt(ctx, output, args...); err != nil {
		return err
	}
	if left := Missing(); len(left) > 0 {
		return fmt.Errorf("cannot find %s after installing them: look at the output of apt-get above",
			strings.Join(left, ", "))
	}
	return nil
}

// known tells whether apt knows a version of every package.
func known(ctx context.Context, packages []string) bool {
	for _, p := range packages {
		out, err := exec.CommandContext(ctx, "apt-cache", "show", "--no-all-versions", p).Output()
		if err != nil || len(out) == 0 {
			return false
		}
	}
	return true
}

func apt(ctx context.Context, output io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Run(); err != nil {
		hint := errors.New("look at its output above; another run of apt may hold its lock")
		return fmt.Errorf("cannot run apt-get %s: %w: %w", args[0], err, hint)
	}
	return nil
}
