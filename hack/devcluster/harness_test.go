// SPDX-License-Identifier: Apache-2.0

//go:build devcluster && linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/lifecycle"
	"github.com/zeroinfra/hack/devcluster/internal/process"
)

// devcluster runs the real program on a cluster of the test's own.
type devcluster struct {
	t       *testing.T
	program string
	name    string
	port    string
	open    *os.File        // what every call inherits, and the cluster must not
	spaces  map[string]bool // namespaces that the cluster's processes had
}

func newDevcluster(t *testing.T) *devcluster {
	t.Helper()
	program := filepath.Join(t.TempDir(), "devcluster")
	if said, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("cannot build devcluster: %v\n%s", err, said)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	open, err := os.Create(filepath.Join(t.TempDir(), "open"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { open.Close() })
	d := &devcluster{t: t, open: open, program: program, name: fmt.Sprintf("lt%d", os.Getpid()), port: port,
		spaces: map[string]bool{}}
	t.Cleanup(func() {
		d.t = t
		if t.Failed() {
			t.Logf("status at the end:\n%s", d.output(d.command("status")))
		}
		d.run("down")
	})
	return d
}

// in returns the same cluster for a step of the test.
func (d *devcluster) in(t *testing.T) *devcluster {
	step := *d
	step.t = t
	return &step
}

func (d *devcluster) dir() string { return filepath.Join(cluster.DefaultBase, d.name) }

func (d *devcluster) command(args ...string) *exec.Cmd {
	cmd := exec.Command(d.program, append([]string{"--name", d.name}, args...)...)
	cmd.ExtraFiles = []*os.File{d.open}
	return cmd
}

// output runs a command and returns all it says, whatever its end.
func (d *devcluster) output(cmd *exec.Cmd) string {
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// run runs a verb and returns what it prints.
func (d *devcluster) run(args ...string) string {
	d.t.Helper()
	return d.must(d.command(args...))
}

// must runs a command that must succeed and returns what it prints.
func (d *devcluster) must(cmd *exec.Cmd) string {
	d.t.Helper()
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		d.t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out.String(), said.String())
	}
	return out.String()
}

// said runs a verb that must succeed and returns its progress.
func (d *devcluster) said(args ...string) string {
	d.t.Helper()
	out, err := d.command(args...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// fails runs a verb that must fail and returns what it says.
func (d *devcluster) fails(args ...string) string {
	d.t.Helper()
	// A flag given twice counts the last time.
	out, err := d.command(args...).CombinedOutput()
	if err == nil {
		d.t.Errorf("%v succeeded", args)
	}
	return string(out)
}

func (d *devcluster) kubectl(args ...string) string {
	d.t.Helper()
	return d.must(d.kubectlCommand(args...))
}

func (d *devcluster) kubectlCommand(args ...string) *exec.Cmd {
	d.t.Helper()
	bin := strings.TrimSpace(d.run("bin"))
	cmd := exec.Command(filepath.Join(bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+strings.TrimSpace(d.run("kubeconfig")))
	return cmd
}

func (d *devcluster) apply(manifests string) {
	d.t.Helper()
	cmd := d.kubectlCommand("apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifests)
	d.must(cmd)
}

// status reads the cluster's state and remembers its namespaces.
func (d *devcluster) status() lifecycle.Status {
	d.t.Helper()
	// An unhealthy cluster gives an exit code and the same text.
	out, err := d.command("status", "-o", "json").Output()
	var st lifecycle.Status
	if json.Unmarshal(out, &st) != nil {
		d.t.Fatalf("cannot read status: %v\n%s", err, out)
	}
	for _, m := range st.Machines {
		for _, p := range m.Programs {
			if p.Running {
				d.checkInherited(p.PID)
			}
			for _, kind := range []string{"net", "pid", "mnt"} {
				if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.PID, kind)); err == nil && p.Running {
					d.spaces[ns] = true
				}
			}
		}
	}
	return st
}

// checkInherited checks that a process of the cluster has nothing open that
// its makers had.
func (d *devcluster) checkInherited(pid int) {
	d.t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && target == d.open.Name() {
			d.t.Errorf("process %d has inherited %s", pid, target)
		}
	}
}

func (d *devcluster) healthy() {
	d.t.Helper()
	if st := d.status(); !st.Healthy {
		d.t.Fatalf("the cluster is not healthy:\n%s", d.output(d.command("status")))
	}
}

func (d *devcluster) machine(name string) lifecycle.MachineStatus {
	d.t.Helper()
	for _, m := range d.status().Machines {
		if m.Name == name {
			return m
		}
	}
	d.t.Fatalf("there is no machine %q", name)
	return lifecycle.MachineStatus{}
}

// pids lists all programs with their processes, in the order of machines.
func (d *devcluster) pids() string {
	d.t.Helper()
	var all strings.Builder
	for _, m := range d.status().Machines {
		for _, p := range m.Programs {
			fmt.Fprintf(&all, "%s/%s=%d ", m.Name, p.Name, p.PID)
		}
	}
	return all.String()
}

// hostState lists what the host has: mounts, interfaces, named namespaces and
// routes. Clusters of other people change none of it.
func hostState(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		all["mount "+strings.Fields(line)[4]] = true
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		all["interface "+l.Name] = true
	}
	names, err := filepath.Glob("/run/netns/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		all["namespace "+n] = true
	}
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(routes)) {
		all["route "+strings.Join(strings.Fields(line)[:3], " ")] = true
	}
	return all
}

// checkDown ends the cluster and checks that nothing of it is left.
func (d *devcluster) checkDown(before map[string]bool) {
	d.t.Helper()
	d.status()
	d.run("down")
	after := hostState(d.t)
	for _, what := range slices.Sorted(maps.Keys(after)) {
		if !before[what] {
			d.t.Errorf("down has left %s", what)
		}
	}
	if _, err := os.Stat(d.dir()); err == nil {
		d.t.Errorf("down has left %s", d.dir())
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/devcluster/" + d.name)
	if unified, _ := filepath.Glob("/sys/fs/cgroup/devcluster/" + d.name); err != nil || len(groups)+len(unified) > 0 {
		d.t.Errorf("down has left control groups %v %v, %v", groups, unified, err)
	}
	// The dead are there until the host's first process has looked at them.
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	var left []string
	if err := process.Until(ctx, 50*time.Millisecond, func() (bool, error) {
		left = d.leftProcesses()
		return len(left) == 0, nil
	}); err != nil {
		d.t.Errorf("down has left %s", strings.Join(left, "\n"))
	}
	d.run("down") // a second one finds nothing to do
}

// leftProcesses lists processes in namespaces of the cluster, and those that
// run its forwarder.
func (d *devcluster) leftProcesses() []string {
	d.t.Helper()
	if len(d.spaces) == 0 {
		d.t.Fatal("the test has not seen the cluster's namespaces")
	}
	var left []string
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, dir := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if strings.Contains(string(cmdline), d.dir()+"/") {
			left = append(left, fmt.Sprintf("process %s: %q", filepath.Base(dir), cmdline))
		}
		_ = fs.WalkDir(os.DirFS(filepath.Join(dir, "ns")), ".", func(name string, _ fs.DirEntry, _ error) error {
			if ns, err := os.Readlink(filepath.Join(dir, "ns", name)); err == nil && d.spaces[ns] {
				left = append(left, fmt.Sprintf("process %s in %s: %q", filepath.Base(dir), ns, cmdline))
			}
			return nil
		})
	}
	return left
}
