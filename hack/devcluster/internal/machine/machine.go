// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package machine makes the computers of a cluster: each is one process with
// namespaces of its own for processes, mounts, network, host name and IPC, in
// which programs are started.
//
// When that first process ends, the kernel ends every process of the machine
// and with them their mounts and interfaces. That is both a power cut and the
// reason why nothing can be left behind.
package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/cgroup"
	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/process"
)

// Places inside a machine.
const (
	// BinDir holds the programs.
	BinDir = "/run/devcluster/bin"
	// EtcDir holds the configuration of the machine's programs.
	EtcDir = "/run/devcluster/etc"
)

// logLimit is the size in bytes from which a program's log is put aside when
// the program starts.
const logLimit = 32 << 20

// Machine is one computer of a cluster.
type Machine struct {
	// Cluster is the cluster that the machine belongs to.
	Cluster cluster.Cluster
	// Name is the machine's host name.
	Name string
	// Trees are the host's control groups.
	Trees *cgroup.Trees
}

// Program is something that runs on a machine for as long as it is on.
type Program struct {
	// Name is the program's file in BinDir, or on PATH when System is set,
	// and names its record and its log.
	Name string
	// Path is the program's file inside the machine.
	Path string
	// Args follow the program's name.
	Args []string
	// Env is added to a small clean environment.
	Env []string
	// Inputs are contents of files which the program reads only at its start:
	// it is started anew when they change.
	Inputs []string
}

// Group is the machine's control group; the pods of a node are below it.
func (m *Machine) Group() string { return cgroup.Root + "/" + m.Cluster.Name + "/" + m.Name }

// system is the control group of the machine's own programs.
func (m *Machine) system() string { return m.Group() + "/system" }

// Path joins elements below the machine's folder on the host.
func (m *Machine) Path(elements ...string) string {
	return m.Cluster.Path(append([]string{m.Name}, elements...)...)
}

// Etc is the folder that the machine sees as EtcDir.
func (m *Machine) Etc() string { return m.Path("etc") }

// Log is the file of a program's output.
func (m *Machine) Log(program string) string { return m.Path("log", program+".log") }

// Record is the file that identifies the machine's first process.
func (m *Machine) Record() string { return m.Path("pids", "machine.json") }

func (m *Machine) programRecord(name string) string { return m.Path("pids", name+".program.json") }

// Init returns the identity of the machine's first process; it may have ended.
func (m *Machine) Init() process.Identity { return process.Load(m.Record()).Identity }

// On tells whether the machine is switched on.
func (m *Machine) On() bool { return m.Init().Alive() }

// Inside returns the host's name of a file inside the running machine.
func (m *Machine) Inside(path string) string {
	return fmt.Sprintf("/proc/%d/root%s", m.Init().PID, path)
}

// PowerOn switches the machine on with the programs of the folder bin. It
// returns false when the machine was on already and nothing was done.
func (m *Machine) PowerOn(ctx context.Context, bin string) (bool, error) {
	boot := bootSpec{
		Hostname: m.Name,
		Binds: []bind{
			{From: bin, To: BinDir, ReadOnly: true},
			{From: m.Etc(), To: EtcDir},
			{From: m.Path("var/log"), To: "/var/log"},
			{From: m.Path("tmp"), To: "/tmp"},
			{From: m.Path("var/lib"), To: "/var/lib"},
		},
		Init: BinDir + "/pause",
	}
	spec, err := json.Marshal(boot)
	if err != nil {
		return false, err
	}
	fingerprint := digest(string(spec))
	if r := process.Load(m.Record()); r.Alive() && r.Fingerprint == fingerprint {
		return false, nil
	}
	if err := m.PowerOff(ctx); err != nil {
		return false, err
	}
	for _, b := range boot.Binds[1:] {
		mode := os.FileMode(0o755)
		if b.To == "/tmp" {
			mode |= os.ModeSticky | 0o777
		}
		if err := os.MkdirAll(b.From, 0o755); err != nil {
			return false, fmt.Errorf("cannot make folder of machine %q: %w", m.Name, err)
		}
		if err := os.Chmod(b.From, mode); err != nil {
			return false, fmt.Errorf("cannot make folder of machine %q: %w", m.Name, err)
		}
	}
	if err := m.Trees.Ensure(m.system()); err != nil {
		return false, err
	}
	id, err := m.boot(string(spec))
	if err != nil {
		return false, fmt.Errorf("cannot switch on machine %q: %w", m.Name, err)
	}
	return true, process.Record{Identity: id, Fingerprint: fingerprint}.Save(m.Record())
}

// boot starts the machine's first process and waits until it is ready.
func (m *Machine) boot(spec string) (process.Identity, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return process.Identity{}, err
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe", BootVerb, spec)
	cmd.Dir = "/"
	cmd.Env = environ(nil)
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	_, err = process.Start(cmd, process.Placement{Trees: m.Trees, Group: m.system()})
	w.Close()
	if err != nil {
		return process.Identity{}, err
	}
	// The other end closes when the first process has become its final self,
	// or has ended after saying why.
	report, err := io.ReadAll(r)
	if err != nil {
		return process.Identity{}, err
	}
	if len(report) > 0 {
		return process.Identity{}, errors.New(string(report))
	}
	return process.Identify(cmd.Process.Pid)
}

// PowerOff ends everything on the machine at once, as a power cut does, also
// what a machine that is no longer known has left running.
func (m *Machine) PowerOff(ctx context.Context) error {
	if err := m.Init().Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("cannot switch off machine %q: %w", m.Name, err)
	}
	if err := process.Clear(ctx, m.Trees, m.Group()); err != nil {
		return fmt.Errorf("cannot switch off machine %q: %w", m.Name, err)
	}
	if err := os.RemoveAll(m.Path("pids")); err != nil {
		return fmt.Errorf("cannot forget the processes of machine %q: %w", m.Name, err)
	}
	// A group can be removed a moment after its last process is gone.
	var last error
	err := process.Until(ctx, 20*time.Millisecond, func() (bool, error) {
		last = m.Trees.Remove(m.Group())
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// Placement is where the machine's programs run.
func (m *Machine) Placement() process.Placement {
	return process.Placement{Trees: m.Trees, Group: m.system(), Namespaces: process.Of(m.Init().PID)}
}

// Ensure starts a program unless it runs in just this form. It returns false
// when nothing had to be done.
func (m *Machine) Ensure(ctx context.Context, p Program) (bool, error) {
	fingerprint := digest(append(append([]string{p.Path}, p.Args...), append(p.Env, p.Inputs...)...)...)
	old := process.Load(m.programRecord(p.Name))
	if old.Alive() && old.Fingerprint == fingerprint {
		return false, nil
	}
	if err := m.Halt(ctx, p.Name); err != nil {
		return false, err
	}
	log, err := openLog(m.Log(p.Name))
	if err != nil {
		return false, err
	}
	defer log.Close()
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir = "/"
	cmd.Env = environ(p.Env)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if _, err := process.Start(cmd, m.Placement()); err != nil {
		return false, fmt.Errorf("cannot start %q on machine %q: %w", p.Name, m.Name, err)
	}
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		return false, fmt.Errorf("%q on machine %q ended at once, see %s: %w", p.Name, m.Name, m.Log(p.Name), err)
	}
	return true, process.Record{Identity: id, Fingerprint: fingerprint}.Save(m.programRecord(p.Name))
}

// Halt ends a program, and any other run of it that is not on record.
func (m *Machine) Halt(ctx context.Context, name string) error {
	const patience = 10 * time.Second
	if err := process.Load(m.programRecord(name)).Stop(ctx, patience); err != nil {
		return fmt.Errorf("cannot end %q on machine %q: %w", name, m.Name, err)
	}
	pids, err := m.Trees.Processes(m.system())
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if process.Program(pid) != name {
			continue
		}
		id, err := process.Identify(pid)
		if err != nil {
			continue // it has ended by itself
		}
		if err := id.Stop(ctx, patience); err != nil {
			return fmt.Errorf("cannot end a stray %q on machine %q: %w", name, m.Name, err)
		}
	}
	return process.Forget(m.programRecord(name))
}

// Process returns the identity of a program's process; it may have ended.
func (m *Machine) Process(name string) process.Identity {
	return process.Load(m.programRecord(name)).Identity
}

// Run runs a command inside the machine to its end. The error holds the end
// of what the command said.
func (m *Machine) Run(ctx context.Context, stdin io.Reader, name string, args ...string) (string, error) {
	var out, said strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	cmd.Env = environ(nil)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &said
	if err := process.Run(cmd, m.Placement()); err != nil {
		return "", fmt.Errorf("cannot run %q on machine %q: %w: %s", filepath.Base(name), m.Name, err,
			strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// Memory returns the resident memory in bytes of everything on the machine.
func (m *Machine) Memory() int64 {
	pids, err := m.Trees.Processes(m.Group())
	if err != nil {
		return 0
	}
	return process.Memory(pids)
}

// openLog opens a log for adding to it, after putting a big one aside.
func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make log folder: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Size() > logLimit {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, fmt.Errorf("cannot put log %q aside: %w", path, err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot open log %q: %w", path, err)
	}
	return f, nil
}

// environ returns the clean environment of programs: nothing of the person
// who called the tool (proxies, credentials) gets into the cluster.
func environ(extra []string) []string {
	return append([]string{
		"PATH=" + BinDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "LANG=C.UTF-8",
	}, extra...)
}

// digest hashes strings, their borders included.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
