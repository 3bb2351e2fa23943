// SPDX-License-Identifier: Apache-2.0

// Package machine says what the figures of the bench depend on.
package machine

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/zeroinfra/test/bench/result"
)

// Programs whose versions are told.
type Programs struct {
	// KubernetesFolder holds kube-apiserver and etcd.
	KubernetesFolder string
	// KWOK is the path of the program; empty where it is not used.
	KWOK string
	// Commit of the operator.
	Commit string
}

// Facts returns what is to be known about this machine.
func Facts(ctx context.Context, p Programs) (result.Machine, error) {
	m := result.Machine{Cores: runtime.NumCPU(), Date: time.Now().UTC().Format(time.DateOnly), Commit: p.Commit,
		Components: map[string]string{"Go": runtime.Version()}}
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, err
	}
	m.Processor = field(cpu, "model name")
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, err
	}
	var kib float64
	if _, err := fmt.Sscanf(field(memory, "MemTotal"), "%f kB", &kib); err != nil {
		return m, fmt.Errorf("cannot read the size of the memory: %w", err)
	}
	m.MemoryGiB = kib / (1 << 20)
	for path, fact := range map[string]*string{"/proc/sys/kernel/osrelease": &m.Kernel, "/proc/loadavg": &m.Load} {
		data, err := os.ReadFile(path)
		if err != nil {
			return m, err
		}
		*fact = strings.Fields(string(data))[0]
	}
	for name, argument := range map[string]string{"kube-apiserver": "--version", "etcd": "--version"} {
		out, err := exec.CommandContext(ctx, filepath.Join(p.KubernetesFolder, name), argument).Output()
		if err != nil {
			return m, fmt.Errorf("cannot ask %s for its version: %w", name, err)
		}
		m.Components[name] = version(out)
	}
	if p.KWOK == "" {
		return m, nil
	}
	info, err := buildinfo.ReadFile(p.KWOK)
	if err != nil {
		return m, fmt.Errorf("cannot read the version of KWOK: %w", err)
	}
	// It is built as a tool, so that its module is a dependency of the main one.
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == "sigs.k8s.io/kwok" {
			m.Components["KWOK"] = module.Version
		}
	}
	return m, nil
}

// field returns the value of the first line "name: value"; "unknown" when there is none.
func field(text []byte, name string) string {
	for line := range bytes.Lines(text) {
		if key, value, found := strings.Cut(string(line), ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// version is the last word of the first line that a program says.
func version(out []byte) string {
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	words := strings.Fields(first)
	if len(words) == 0 {
		return "unknown"
	}
	return words[len(words)-1]
}
