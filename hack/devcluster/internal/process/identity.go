// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package process starts programs in namespaces and control groups, knows
// them again later, and ends them.
//
// A process is known by its number, the time of its start and the machine's
// boot: numbers are used again, the three together are not.
package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
)

// Identity tells a process from every other, also after its end.
type Identity struct {
	// PID is the process's number as the host sees it.
	PID int `json:"pid"`
	// Start is when it started, in clock ticks since the machine's boot.
	Start uint64 `json:"start"`
	// Boot names the boot of the machine.
	Boot string `json:"boot"`
}

// Record is what is kept on disk about a process that was started.
type Record struct {
	Identity
	// Fingerprint changes with anything the process was started with.
	Fingerprint string `json:"fingerprint"`
}

// bootID is read once: it cannot change while this program runs.
var bootID = sync.OnceValues(func() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot read the machine's boot identity: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
})

// Identify returns the identity of a running process.
func Identify(pid int) (Identity, error) {
	boot, err := bootID()
	if err != nil {
		return Identity{}, err
	}
	st, err := stat(pid)
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, Start: st.start, Boot: boot}, nil
}

// Alive tells whether this very process still runs. One that is on its way
// out does not: it has given up its namespaces already.
func (id Identity) Alive() bool {
	st, ok := id.look()
	return ok && !st.exiting
}

// gone tells whether the process has ended wholly, its files and ports closed.
func (id Identity) gone() bool {
	_, ok := id.look()
	return !ok
}

// look returns the process's status if it is not over.
func (id Identity) look() (status, bool) {
	boot, err := bootID()
	if err != nil || id.PID <= 0 || id.Boot != boot {
		return status{}, false
	}
	st, err := stat(id.PID)
	return st, err == nil && st.start == id.Start && !st.over
}

// status is what tells a process's life.
type status struct {
	start   uint64 // in clock ticks since the machine's boot
	exiting bool   // it has begun to end
	over    bool   // it has ended and waits for its parent
}

// stat reads the status of a process.
func stat(pid int) (status, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return status{}, fmt.Errorf("cannot find process %d: %w", pid, err)
	}
	return parseStat(data)
}

// parseStat reads the text of /proc/PID/stat. The program's name in it may
// hold anything, so fields count from its last ")".
func parseStat(data []byte) (status, error) {
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return status{}, fmt.Errorf("cannot read process status %q: no program name in it", data)
	}
	fields := bytes.Fields(data[end+1:])
	const stateField, flagsField, startField = 0, 6, 19 // fields 3, 9 and 22 of the whole line
	if len(fields) <= startField {
		return status{}, fmt.Errorf("cannot read process status %q: too few fields", data)
	}
	start, err := strconv.ParseUint(string(fields[startField]), 10, 64)
	if err != nil {
		return status{}, fmt.Errorf("cannot read start time in process status %q: %w", data, err)
	}
	flags, err := strconv.ParseUint(string(fields[flagsField]), 10, 64)
	if err != nil {
		return status{}, fmt.Errorf("cannot read flags in process status %q: %w", data, err)
	}
	const exiting = 0x4 // PF_EXITING of the kernel
	state := fields[stateField][0]
	return status{start: start, exiting: flags&exiting != 0, over: state == 'Z' || state == 'X'}, nil
}

// Load reads a record. An absent or unreadable one is that of no process.
func Load(path string) Record {
	var r Record
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &r) != nil {
		return Record{}
	}
	return r
}

// Save keeps a record.
func (r Record) Save(path string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return cluster.WriteFile(path, append(data, '\n'), 0o600)
}

// Forget removes a record. An absent one is no error.
func Forget(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove record %q: %w", path, err)
	}
	return nil
}

// Program returns the base name of the program that a process was started as,
// and an empty string when it has ended.
func Program(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	name, _, _ := bytes.Cut(data, []byte{0})
	if len(name) == 0 {
		return ""
	}
	return filepath.Base(string(name))
}

// Memory returns the resident memory of processes in bytes, pages that they
// share counted once per process.
func Memory(pids []int) int64 {
	var sum int64
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(data)); len(fields) > 1 {
			pages, err := strconv.ParseInt(fields[1], 10, 64)
			if err == nil {
				sum += pages * int64(os.Getpagesize())
			}
		}
	}
	return sum
}
