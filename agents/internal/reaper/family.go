// SPDX-License-Identifier: Apache-2.0

package reaper

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Family is what ends together with a process.
type Family int

const (
	// Group is the process group alone.
	Group Family = iota
	// Everyone is also whatever else has come to this program as its parent, having left its group, but for other
	// processes that Start started and their groups.
	Everyone
)

// gone says whether the family of a collected leader has ended, and ends what has come to light since it was asked
// last. Called with births.
func (r *Reaper) gone(p *Process) bool {
	if !groupGone(p.pid) {
		return false
	}
	return p.family == Group || r.endStrays() == 0
}

// endStrays kills all own children that belong to nobody else and returns how many there are. A child that is killed
// leaves its own children to this program, and each is collected with a notice, so that asking again after each notice
// reaches them all. The number of an own child is nobody else's before it is collected, which births prevents.
func (r *Reaper) endStrays() int {
	strays := 0
	for _, child := range children() {
		if r.leaders[child.pid] != nil || r.leaders[child.group] != nil {
			continue
		}
		strays++
		if err := unix.Kill(child.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			r.log.Warn("cannot end a process that left its group", "pid", child.pid, "error", err.Error())
		}
	}
	return strays
}

// child is a process whose parent is this program.
type child struct{ pid, group int }

// children are found in /proc by their parent, since the kernel's own lists are only right while nothing moves.
func children() []child {
	var found []child
	own := os.Getpid()
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if parent, group := relations(name); parent == own {
			found = append(found, child{pid: pid, group: group})
		}
	}
	return found
}

// relations reads the parent and the group of a process; zeros when it is gone.
func relations(pid string) (parent, group int) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, 0
	}
	// The name of the program stands before, in parentheses, and may hold anything.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 3 {
		return 0, 0
	}
	parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0, 0
	}
	group, err = strconv.Atoi(string(fields[2]))
	if err != nil {
		return 0, 0
	}
	return parent, group
}
