// SPDX-License-Identifier: Apache-2.0

package database

import (
	"crypto/rand"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// Gaps at which the tests of failovers fail: well beyond the budgets of the design, since a busy machine is no defect.
// The tests log what they measure.
const expiryGap = 90 * time.Second

// faultMatrix are the faults of a round. The API server is away for long in the first one only. It is stopped in that
// one, killed in the next, and so on.
func faultMatrix() []framework.Fault {
	away, how := framework.Config.APIAway, apiStopped
	return []framework.Fault{
		{Name: "process killed", Limit: framework.InPlaceGapLimit,
			Does: func(r *framework.Replicated, primary string) { r.Signal(primary, "KILL") }},
		{Name: "process does not come back", Limit: framework.FailoverGapLimit,
			Does: (*framework.Replicated).KillUntilPrimaryChanges},
		// One replica may have writes then that the other one has not, of a history that the process did not come to tell of.
		{Name: "process killed again", Limit: framework.FailoverGapLimit,
			Does: func(r *framework.Replicated, primary string) {
				killedAgain(r, primary)
			}},
		{Name: "process stopped", Limit: framework.FailoverGapLimit, Does: func(r *framework.Replicated, primary string) {
			r.Signal(primary, "STOP")
			r.WaitForPrimaryChange(primary, framework.SettleTimeout)
		}},
		{Name: "process manager killed", Limit: framework.FailoverGapLimit,
			Does: func(r *framework.Replicated, primary string) {
				pod := &corev1.Pod{}
				r.MustGet(primary, pod)
				r.PrepareContainerKill(containerID(pod, r.Kind.Component))()
			}},
		{Name: "pod deleted", Limit: framework.FailoverGapLimit, Does: func(r *framework.Replicated, primary string) {
			deletePod(r, primary)
			r.WaitForPrimaryChange(primary, framework.SettleTimeout)
		}},
		{Name: "pod and volume deleted", Limit: expiryGap, Does: func(r *framework.Replicated, primary string) {
			for name, claim := range r.Claims() {
				if strings.HasSuffix(name, primary) {
					r.Delete(&claim)
				}
			}
			deletePod(r, primary, framework.GraceZero)
			r.WaitForPrimaryChange(primary, framework.SettleTimeout)
		}},
		{Name: "switched over", Limit: framework.FailoverGapLimit,
			Does: func(r *framework.Replicated, primary string) { r.SwitchOver(primary, r.Follower()) }},
		{Name: "taken over", Limit: framework.FailoverGapLimit, Does: func(r *framework.Replicated, primary string) {
			r.Query("Failover", nil)
			r.WaitForPrimaryChange(primary, framework.SettleTimeout)
		}},
		{Name: "member made anew", Limit: framework.InPlaceGapLimit, Does: func(r *framework.Replicated, _ string) {
			name := r.Follower()
			uid := r.UIDs()[name]
			r.Query("RebuildMember", platformv1.Parameters{"pod": platformv1.ParameterValue(name)})
			if r.UIDs()[name] == uid {
				r.Errorf("pod %s is the same as before", name)
			}
		}},
		{Name: "operator killed", Limit: framework.FailoverGapLimit, Does: func(r *framework.Replicated, primary string) {
			r.DeleteOperatorPods()
			r.KillUntilPrimaryChanges(primary)
		}},
		{Name: "API server away", Limit: framework.InPlaceGapLimit, Does: func(r *framework.Replicated, _ string) {
			goesOnWithoutAPI(r, away, how)
			away, how = min(away, framework.DefaultAPIAway), how.other()
		}},
	}
}

// goesOnWithoutAPI has the API server be away, and fails where anything is another one then, or was started once more.
func goesOnWithoutAPI(r *framework.Replicated, d time.Duration, how absence) {
	r.Helper()
	before := r.ProcessStarts()
	apiServerAway(r.Application.Namespace, d, how)
	r.WaitForPrimary()
	if after := r.ProcessStarts(); !maps.Equal(before, after) {
		r.Errorf("what ran were %v, and are %v now", before, after)
	}
}

// TestFailover proves, for each fault of a primary, that another one takes over when it should, that never two take
// writes, and that no write is lost that was acknowledged with a replica. It runs alone because it measures.
func TestFailover(t *testing.T) {
	s := framework.NewNamespace(t, "failover")
	r := s.CreateReplicatedRedis("db")
	r.WaitReady()
	r.WaitForPrimary()
	suffer(r, faultMatrix(), framework.Config.FaultRounds)
	upgrade(r, "8.0")
}

// suffer goes through faults for so many rounds.
func suffer(r *framework.Replicated, matrix []framework.Fault, rounds int) {
	r.Helper()
	t, s := r.T, r.Namespace
	for n := range rounds * len(matrix) {
		fault := matrix[n%len(matrix)]
		t.Run(fault.Name, func(t *testing.T) {
			r := r.In(s.In(t))
			if fault.Limit == framework.InPlaceGapLimit {
				waits(r, patience)
			}
			primary, before := r.WaitForPrimary()
			uids := r.UIDs()
			trial := r.StartTrial()
			fault.Does(r, primary)
			r.WaitForPrimary()
			now, after := trial.StopAndVerify(fault.Name, before, fault.Limit)
			asked := fault.Name == "switched over" || fault.Name == "taken over"
			if n := r.RecordedTerms(before, after); asked && n > 0 || !asked && after > before && n == 0 {
				t.Errorf("%d failovers are on record", n)
			}
			if fault.Limit == framework.InPlaceGapLimit &&
				(now != primary || after != before || r.UIDs()[primary] != uids[primary]) {
				t.Errorf("pod %s wrote in term %d and %s in term %d: it was to go on in place", primary, before, now, after)
			}
			if fault.Limit == framework.InPlaceGapLimit {
				waits(r, r.Kind.Failover)
			}
		})
	}
}

// TestFailoverOfANode proves that a primary that is cut off stops by itself before another one writes.
func TestFailoverOfANode(t *testing.T) {
	s := framework.NewNamespace(t, "fencing")
	r := s.CreateReplicatedRedis("db")
	r.WaitReady()
	r.WaitForPrimary()
	for n := range framework.Config.FaultRounds {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) {
			r := r.In(s.In(t))
			nodeIsCutOff(r, "node cut off", framework.OperatorNamespace, "kube-system")
		})
	}
	r.LogChanges()
}

// nodeIsCutOff is one trial of that; the pods of namespaces are moved away before.
func nodeIsCutOff(r *framework.Replicated, fault string, moved ...string) {
	r.Helper()
	primary, before := r.WaitForPrimary()
	node := r.NodeOf(primary)
	r.VacateNode(node, moved...)
	trial := r.StartTrial()
	leave := trial.StartIsolatedSession(primary)
	r.Logf("%s node %s is cut off", time.Now().Format("15:04:05.000"), node)
	framework.DevCluster(r.T, "node", "cut", node)
	heal := sync.OnceFunc(func() { framework.DevCluster(r.T, "node", "heal", node) })
	defer heal()
	r.WaitForPrimaryChange(primary, framework.ReadyTimeout)
	heal()
	r.WaitForPrimary()
	leave()
	_, after := trial.StopAndVerify(fault, before, expiryGap)
	if r.RecordedTerms(before, after) == 0 {
		r.Error("the failover is not on record")
	}
}

// killedAgain kills a Redis, and once more, for good until another one writes, as soon as the process that came back
// has a write that a replica acknowledged. The next primary has that write.
func killedAgain(r *framework.Replicated, pod string) {
	r.Helper()
	const script = `IFS= read -r REDISCLI_AUTH
export REDISCLI_AUTH
` + framework.SignalScript +
		`until [ "$(printf 'SET again %s\nWAIT 1 1000\n' "$5" | redis-cli 2>/dev/null | tail -n 1)" = 1 ]; do :; done
`
	a, written := r.AccountIn(r.Object().Status.Binding.Name), rand.Text()
	r.Kind.KillUntil(r.Namespace, pod, a.Password+"\n", script, written,
		func() { r.WaitForPrimaryChange(pod, framework.SettleTimeout) })
	primary, _ := r.WaitForPrimary()
	if got := adminSays(r, primary, "GET", "again"); got != written {
		r.Errorf("%s has %q, and %q was acknowledged with a replica", primary, got, written)
	}
}

func deletePod(r *framework.Replicated, name string, options ...client.DeleteOption) {
	r.Helper()
	pod := &corev1.Pod{}
	r.MustGet(name, pod)
	r.Delete(pod, options...)
}

// absence is how the API server is away.
type absence string

const (
	// apiStopped: it takes connections and answers none.
	apiStopped absence = "stopped"
	// apiKilled: connections are refused, and watches have ended. The one that comes has nothing in its memory.
	apiKilled absence = "killed"
)

func (a absence) other() absence {
	if a == apiStopped {
		return apiKilled
	}
	return apiStopped
}

// apiServerAway has the API server be away for a time. What comes next finds an operator that leads: one that was not
// heard for so long has lost its Lease.
func apiServerAway(s *framework.Namespace, d time.Duration, how absence) {
	s.Helper()
	pid, began := strconv.Itoa(framework.APIServer(s.T)), time.Now()
	switch how {
	case apiStopped:
		framework.DevCluster(s.T, "exec", "--", "kill", "-STOP", pid)
		time.Sleep(d)
		framework.DevCluster(s.T, "exec", "--", "kill", "-CONT", pid)
	case apiKilled:
		framework.DevCluster(s.T, "exec", "--", "kill", "-KILL", pid)
		time.Sleep(d)
		// It starts what has died, and nothing else.
		framework.DevCluster(s.T, "up")
	}
	s.Logf("the API server was %s, and is back after %s", how, framework.FormatSeconds(time.Since(began)))
	back := time.Now()
	s.Eventually(framework.ReadyTimeout, "the operator leads", func() error {
		return framework.LedSince(s.Ctx, framework.OperatorName, back)
	})
}

func containerID(pod *corev1.Pod, name string) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == name {
			return status.ContainerID
		}
	}
	return ""
}
