// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strconv"
	"strings"
)

// ticksPerSecond is the unit of CPU times in /proc on every Linux that Kubernetes runs on.
const ticksPerSecond = 100

// CPUTime is what a process has used, in seconds: itself, and with the children that have ended.
type CPUTime struct{ Own, All float64 }

// CPUTimes reads what the first process of each container has used.
func (i *Instance) CPUTimes() map[string]CPUTime {
	i.Helper()
	times := map[string]CPUTime{}
	for _, container := range i.Pod().Spec.Containers {
		text := i.readFile(container.Name, "/proc/1/stat")
		// The name of the program may hold blanks; what follows does not.
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		tick := func(n int) float64 {
			value, err := strconv.ParseFloat(fields[n], 64)
			if err != nil {
				i.Fatalf("cannot read /proc/1/stat of container %q: %v", container.Name, err)
			}
			return value / ticksPerSecond
		}
		// utime, stime, cutime and cstime are fields 14 to 17 of proc(5), counted from the number of the process.
		own := tick(11) + tick(12)
		times[container.Name] = CPUTime{Own: own, All: own + tick(13) + tick(14)}
	}
	return times
}

// readFile reads a file in a container of the instance's pod.
func (i *Instance) readFile(container, path string) string {
	i.Helper()
	out, err := Run(i.Ctx, i.Namespace.Name, i.PodName(), container, "", "cat", path)
	if err != nil {
		i.Fatal(err)
	}
	return out
}

// ResidentMiB is the memory that the first process of a container holds.
func (i *Instance) ResidentMiB(container string) float64 {
	i.Helper()
	for line := range strings.Lines(i.readFile(container, "/proc/1/status")) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kib); err == nil {
			return kib / 1024
		}
	}
	i.Fatalf("the first process of container %q says nothing of its memory", container)
	return 0
}

// FindFirstProcessScript prints the number, on the node, of the first process of each container that it is given. The
// first process is the one that is number 1 in the innermost of its process namespaces.
const FindFirstProcessScript = `for id in "$@"; do
  for d in /proc/[0-9]*; do
    grep -q "$id" "$d/cgroup" 2>/dev/null || continue
    if [ "$(awk '/^NSpid:/ {print $NF}' "$d/status" 2>/dev/null)" = 1 ]; then echo "${d#/proc/}"; fi
  done
done`

// PrepareContainerKill finds the first processes of containers and returns what sends SIGKILL to them, as the kernel's
// memory killer does. From inside, that process cannot be killed, and the API has no way that leaves it no time.
func (s *Namespace) PrepareContainerKill(containerIDs ...string) (kill func()) {
	s.Helper()
	arguments := []string{"exec", "--", "sh", "-c", FindFirstProcessScript, "find"}
	for _, id := range containerIDs {
		_, number, _ := strings.Cut(id, "://")
		arguments = append(arguments, number)
	}
	found := strings.Fields(DevCluster(s.T, arguments...))
	if len(found) != len(containerIDs) {
		s.Fatalf("the first processes of containers %v are %v: that is not one for each", containerIDs, found)
	}
	return func() {
		s.Helper()
		DevCluster(s.T, append([]string{"exec", "--", "kill", "-9"}, found...)...)
	}
}

// KillProcess kills a process in the container that runs redis-server.
func (i *Instance) KillProcess(pid string) {
	i.Helper()
	if _, err := Run(i.Ctx, i.Namespace.Name, i.PodName(), RedisComponent, "", "kill", "-9", pid); err != nil {
		i.Fatal(err)
	}
}

// StatusContainer returns the name of the container that is not the middleware's.
func (i *Instance) StatusContainer() string {
	i.Helper()
	for _, container := range i.Pod().Spec.Containers {
		if container.Name != RedisComponent {
			return container.Name
		}
	}
	i.Fatal("the pod has no status container")
	return ""
}
