// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/writing"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

const (
	// maxResident of an agent, in KiB, and maxProcessor, in seconds of a processor for each second. The budget is 0.001 on
	// a machine that has nothing else to do, which `make bench-agents` holds; here other tests run beside, and caches of
	// the processor go cold between two rounds.
	maxResident  = 20 << 10
	maxProcessor = 0.002
	// idleFor is long against what a round costs.
	idleFor = 20 * time.Second
)

// maxSentinel is what a sentinel adds: memory that it does not share with its process manager, in KiB.
const maxSentinel = 2560

// TestIdleMembersCostLittle measures the binary as it is built for an image, with three members whose primary asks
// every 2 s.
func TestIdleMembersCostLittle(t *testing.T) {
	t.Parallel()
	binary := built(t)
	s := newSet(t, 3)
	for _, m := range s.members {
		m.binary = binary
	}
	s.bootstrap()
	s.members[0].awaitsWriting()
	s.members[1].says("follower " + s.members[0].fqdn())
	s.members[2].says("follower " + s.members[0].fqdn())
	type cost struct{ begun, spent time.Duration }
	before, stood := map[*memberPod]cost{}, map[*memberPod]time.Duration{}
	// What belongs to the start is over then.
	awaitTime(t, writing.Boottime()+5*time.Second)
	for _, m := range s.members {
		before[m] = cost{writing.Boottime(), spentBy(t, m.process.inner())}
		_, sentinel := m.below()
		stood[m] = spentBy(t, sentinel)
	}
	awaitTime(t, writing.Boottime()+idleFor)
	for _, m := range s.members {
		pid := m.process.inner()
		share := (spentBy(t, pid) - before[m].spent).Seconds() / (writing.Boottime() - before[m].begun).Seconds()
		resident := residentOf(t, pid)
		t.Logf("%s: %d KiB resident, %.2f mCPU", m.name, resident, 1000*share)
		if resident > maxResident || share > maxProcessor {
			t.Errorf("%s costs %d KiB and %.2f mCPU; at most %d KiB and %.2f mCPU are allowed", m.name, resident, 1000*share,
				maxResident, 1000*maxProcessor)
		}
		_, sentinel := m.below()
		private, stood := privateOf(t, sentinel), spentBy(t, sentinel)-stood[m]
		t.Logf("its sentinel: %d KiB of its own, %v of a processor in %v", private, stood, idleFor)
		if private > maxSentinel || stood > idleFor/10000 {
			t.Errorf("the sentinel of %s costs %d KiB and %v; at most %d KiB and %v are allowed", m.name, private, stood,
				maxSentinel, idleFor/10000)
		}
	}
}

// built is the binary as it is built for an image.
func built(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "agent")
	if said, err := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", binary, ".").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return binary
}

// TestAnIdleStatusAgentCostsLittle measures the binary with a real Redis that it probes every 2 s, while it is asked
// whether that is ready as often; and with requests to a server in place of that probe.
func TestAnIdleStatusAgentCostsLittle(t *testing.T) {
	t.Parallel()
	binary := built(t)
	health := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "master_replid: 1") })
	for name, start := range map[string]func(*httptest.Server){"command": nil, "http": (*httptest.Server).Start,
		"https": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRedisPod(t)
			resting := p.plan(1, "50mb")
			resting.Probe.Command = []string{"redis-cli", "-p", p.port, "INFO", "server", "persistence", "replication"}
			if start != nil {
				server := httptest.NewUnstartedServer(health)
				start(server)
				t.Cleanup(server.Close)
				port := server.Listener.Addr().(*net.TCPAddr).Port
				resting.Probe = plan.Probe{HTTP: &plan.HTTPProbe{Port: int32(port), Path: "/health", TLS: name == "https"}}
			}
			restingCosts(t, p, resting, binary)
		})
	}
}

// restingCosts measures the status agent of a pod with a plan.
func restingCosts(t *testing.T, p *redisPod, resting *plan.Plan, binary string) {
	t.Helper()
	resting.Probe.IntervalSeconds = 2
	resting.Probe.Attributes = map[string]string{"history": "fields['master_replid']"}
	p.mount(resting)
	p.run()
	agent := p.statusOf(binary)
	p.api.await(p.pod, "health", isHealthy)
	p.awaitReady(http.StatusOK)
	awaitTime(t, writing.Boottime()+5*time.Second)
	begun, before := writing.Boottime(), spentBy(t, agent.Process.Pid)
	for at := begun; at < begun+idleFor; at += 2 * time.Second {
		p.awaitReady(http.StatusOK)
		awaitTime(t, at+2*time.Second)
	}
	share := (spentBy(t, agent.Process.Pid) - before).Seconds() / (writing.Boottime() - begun).Seconds()
	resident := residentOf(t, agent.Process.Pid)
	t.Logf("%d KiB resident, %.2f mCPU", resident, 1000*share)
	if resident > maxResident || share > maxProcessor {
		t.Errorf("it costs %d KiB and %.2f mCPU; at most %d KiB and %.2f mCPU are allowed", resident, 1000*share, maxResident,
			1000*maxProcessor)
	}
}

// spentBy is the time on a processor of all threads.
func spentBy(t *testing.T, pid int) time.Duration {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("no threads: %v", err)
	}
	var sum time.Duration
	for _, task := range tasks {
		var ran time.Duration
		if data, err := os.ReadFile(task); err == nil {
			if _, err := fmt.Sscan(string(data), &ran); err != nil {
				t.Fatal(err)
			}
		}
		sum += ran
	}
	return sum
}

// residentOf is what a process has in memory, in KiB.
func residentOf(t *testing.T, pid int) int {
	t.Helper()
	return sumOf(t, pid, "status", "VmRSS:")
}

// privateOf is what no other process has in memory as well, in KiB.
func privateOf(t *testing.T, pid int) int {
	t.Helper()
	return sumOf(t, pid, "smaps_rollup", "Private_")
}

// sumOf adds up the lines of a file in /proc that begin so, in KiB.
func sumOf(t *testing.T, pid int, file, begins string) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, begins) {
			kib, err := strconv.Atoi(strings.Fields(line)[1])
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			sum += kib
		}
	}
	if sum == 0 {
		t.Fatalf("process %d has no %s in %s", pid, begins, file)
	}
	return sum
}
