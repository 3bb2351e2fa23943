// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticksPerSecond is the unit of CPU times in /proc on every Linux that Kubernetes runs on.
const ticksPerSecond = 100

// Usage is what a process has used so far.
type Usage struct {
	// CPUSeconds that it was at work, in the kernel too.
	CPUSeconds float64
	// ResidentMiB is the memory that it holds, and PeakMiB the most that it ever held.
	ResidentMiB, PeakMiB float64
}

// CPUByName returns what all processes that are to be seen have used so far, in seconds, by the name of the program.
// The kernel cuts names to 15 characters.
func CPUByName() (map[string]float64, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	seconds := map[string]float64{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		usage, err := usageOf(pid)
		name, nameErr := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil || nameErr != nil {
			continue // It has just ended, or is the kernel's own, without memory.
		}
		seconds[strings.TrimSpace(string(name))] += usage.CPUSeconds
	}
	return seconds, nil
}

func usageOf(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("cannot read what process %d uses: %w", pid, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("cannot read what process %d uses: %w", pid, err)
	}
	usage, err := parseUsage(stat, status)
	if err != nil {
		return Usage{}, fmt.Errorf("cannot read what process %d uses: %w", pid, err)
	}
	return usage, nil
}

// parseUsage reads /proc/<pid>/stat and /proc/<pid>/status.
func parseUsage(stat, status []byte) (Usage, error) {
	// The name of the program may hold blanks and brackets; what follows does not.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return Usage{}, errors.New("stat names no program")
	}
	// utime and stime are fields 14 and 15 of proc(5), counted from the number of the process.
	const utime, stime = 11, 12
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) <= stime {
		return Usage{}, fmt.Errorf("stat has %d fields after the name, want more than %d", len(fields), stime)
	}
	var usage Usage
	for _, n := range []int{utime, stime} {
		ticks, err := strconv.ParseUint(fields[n], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("stat has a time that is none: %w", err)
		}
		usage.CPUSeconds += float64(ticks) / ticksPerSecond
	}
	var err error
	if usage.ResidentMiB, err = sizeOf(status, "VmRSS"); err != nil {
		return Usage{}, err
	}
	if usage.PeakMiB, err = sizeOf(status, "VmHWM"); err != nil {
		return Usage{}, err
	}
	return usage, nil
}

func sizeOf(status []byte, field string) (mebibytes float64, err error) {
	for line := range bytes.Lines(status) {
		var kib float64
		if _, err := fmt.Sscanf(string(line), field+": %f kB", &kib); err == nil {
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("status has no line %s", field)
}
