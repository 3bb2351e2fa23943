// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/bench/quantile"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// callsMeasured are made to one agent for each number of calls at a time.
	callsMeasured = 2000
	// slowCall is when the test fails, and callBudget where budgets are held: on a machine that has nothing else to do.
	slowCall, callBudget = time.Second, 20 * time.Millisecond
	// agentBudget and opsBudget are resident, in KiB.
	agentBudget, opsBudget = 20 << 10, 48 << 10
	// processorBudget of each, in thousandths of a processor, where budgets are held.
	processorBudget = 1
)

// TestAgentCalls measures the round trip of a call from an operator to a process manager, in the cluster's network,
// with the operators' own client. It runs alone because it measures.
func TestAgentCalls(t *testing.T) {
	s := framework.NewNamespace(t, "calls")
	r := s.CreateReplicatedRedis("db")
	r.WaitReady()
	primary, _ := r.WaitForPrimary()
	pod := &corev1.Pod{}
	s.MustGet(primary, pod)
	program := filepath.Join(t.TempDir(), "agentcalls")
	build := exec.Command("go", "build", "-o", program, "./cmd/agentcalls")
	build.Dir, build.Env = filepath.Join(framework.Config.RepositoryDir, "platform-core"),
		append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	out := framework.DevCluster(t, "exec", "--", program, "-authority", authorityFolder(s), "-pod", s.Name+"/"+primary,
		"-address", pod.Status.PodIP,
		"-calls", fmt.Sprint(callsMeasured))
	took := map[int][]time.Duration{}
	for line := range strings.Lines(out) {
		var parallel int
		var one time.Duration
		if _, err := fmt.Sscan(line, &parallel, &one); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		took[parallel] = append(took[parallel], one)
	}
	for _, parallel := range slices.Sorted(maps.Keys(took)) {
		all := took[parallel]
		p99 := quantile.Of(all, 0.99)
		t.Logf("%d calls of Status, %d at a time: p50 %v, p95 %v, p99 %v, longest %v", len(all), parallel,
			quantile.Of(all, 0.5), quantile.Of(all, 0.95), p99, quantile.Of(all, 1))
		if p99 > slowCall || framework.Config.HoldBudgets && p99 > callBudget {
			t.Errorf("the 99th percentile with %d calls at a time is %v", parallel, p99)
		}
	}
	if len(took) != 2 || len(took[1]) != callsMeasured {
		t.Errorf("%d numbers of calls at a time were measured", len(took))
	}
}

// authorityFolder holds the authority of the agents of the domain database for the time of the test.
func authorityFolder(s *framework.Namespace) string {
	s.Helper()
	secret := &corev1.Secret{}
	if err := framework.Cluster.Client.Get(s.Ctx,
		client.ObjectKey{Namespace: framework.OperatorNamespace, Name: "database-agent-ca"}, secret); err != nil {
		s.Fatal(err)
	}
	folder := s.TempDir()
	for name, data := range secret.Data {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			s.Fatal(err)
		}
	}
	return folder
}

// agentsScript prints, of the agents in containers: container, number of the process, program, KiB resident, KiB that
// no other process has, and nanoseconds on a processor.
const agentsScript = `for id in "$@"; do
  for d in /proc/[0-9]*; do
    grep -q "$id" "$d/cgroup" 2>/dev/null || continue
    set -- $(tr '\0' ' ' <"$d/cmdline")
    # What an agent starts has its command line for a moment.
    case "$1 $2" in
    */exe\ sentinel) ;;
    */agent\ *|*/agent-ops\ *) [ "$(awk '/^NSpid:/ {print $NF}' "$d/status" 2>/dev/null)" = 1 ] || continue ;;
    *) continue ;;
    esac
    echo "$id ${d#/proc/} ${1##*/}-$2 $(awk '/^VmRSS/ {print $2}' "$d/status")" \
      "$(awk '/^Private_/ {s+=$2} END {print s+0}' "$d/smaps_rollup")" \
      "$(cat "$d"/task/*/schedstat | awk '{s+=$1} END {printf "%.0f", s}')"
  done
done`

// agentCost is what one agent has taken so far.
type agentCost struct {
	pod, program, pid string
	resident, private int
	spent             time.Duration
}

// agentCosts are those of all agents of an Application, by container and process.
func agentCosts(r *framework.Replicated) map[string]agentCost {
	r.Helper()
	pods := map[string]string{}
	var ids []string
	for _, pod := range r.Pods() {
		for _, status := range pod.Status.ContainerStatuses {
			_, id, _ := strings.Cut(status.ContainerID, "://")
			pods[id], ids = pod.Name, append(ids, id)
		}
	}
	costs := map[string]agentCost{}
	for _, id := range ids {
		for line := range strings.Lines(framework.DevCluster(r.T, "exec", "--", "sh", "-c", agentsScript, "agents", id)) {
			var container string
			var c agentCost
			if _, err := fmt.Sscan(line, &container, &c.pid, &c.program, &c.resident, &c.private, &c.spent); err != nil {
				r.Fatalf("line %q: %v", line, err)
			}
			c.pod = pods[container]
			costs[container+c.pid] = c
		}
	}
	return costs
}

// TestAgentsAtRest measures what agents take of a pod while nothing happens. It runs alone because it measures.
func TestAgentsAtRest(t *testing.T) {
	s := framework.NewNamespace(t, "agents")
	r := s.CreateReplicatedRedis("db")
	r.WaitReady()
	primary, _ := r.WaitForPrimary()
	waitQuiet(s, waitForRest(s))
	before, begin := agentCosts(r), time.Now()
	// Nothing is waited for: nothing is to happen.
	time.Sleep(framework.Config.Idle)
	after, passed := agentCosts(r), time.Since(begin)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "pod\tprogram\tresident MiB\tits own MiB\tmCPU")
	programs := map[string]int{}
	for _, key := range slices.SortedFunc(maps.Keys(after), func(a, b string) int {
		return strings.Compare(after[a].pod+after[a].program, after[b].pod+after[b].program)
	}) {
		c, was := after[key], before[key]
		if was.pid == "" {
			t.Errorf("%s of pod %s was started meanwhile", c.program, c.pod)
			continue
		}
		programs[c.program]++
		role := map[bool]string{true: " (writer)"}[c.pod == primary]
		share := 1000 * (c.spent - was.spent).Seconds() / passed.Seconds()
		fmt.Fprintf(table, "%s%s\t%s\t%.1f\t%.1f\t%.2f\n", c.pod, role, c.program, float64(c.resident)/1024,
			float64(c.private)/1024, share)
		if framework.Config.HoldBudgets && share > processorBudget {
			t.Errorf("%s of pod %s takes %.2f mCPU, want at most %d", c.program, c.pod, share, processorBudget)
		}
		limit := agentBudget
		if strings.HasPrefix(c.program, "agent-ops") {
			limit = opsBudget
		}
		if c.resident > limit {
			t.Errorf("%s of pod %s has %d KiB resident, want at most %d", c.program, c.pod, c.resident, limit)
		}
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("at rest for %s:\n%s", framework.FormatSeconds(passed), &text)
	for _, program := range []string{"agent-run", "agent-status", "agent-ops-ops", "exe-sentinel"} {
		if programs[program] != 3 {
			t.Errorf("there are %d of %s, want one in each pod: %v", programs[program], program, programs)
		}
	}
}
