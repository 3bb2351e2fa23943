// SPDX-License-Identifier: Apache-2.0

package e2e

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
)

// Gaps at which the tests of failovers fail: well beyond the budgets of the design, since a busy machine is no defect. The tests
// log what they measure.
const (
	inPlaceGap  = 40 * time.Second
	failoverGap = 60 * time.Second
	expiryGap   = 90 * time.Second
)

// faultMatrix are the faults of a round. The API server is away for long in the first one only. It is stopped in that one, killed in the next, and so
// on.
func faultMatrix() []fault {
	away, how := set.apiAway, apiStopped
	return []fault{
		{"process killed", inPlaceGap, func(r *replicated, primary string) { r.signal(primary, "KILL") }},
		{"process does not come back", failoverGap, (*replicated).killedUntilChanged},
		// One replica may have writes then that the other one has not, of a history that the process did not come to tell of.
		{"process killed again", failoverGap, func(r *replicated, primary string) {
			r.killedAgain(primary)
		}},
		{"process stopped", failoverGap, func(r *replicated, primary string) {
			r.signal(primary, "STOP")
			r.changed(primary, settleIn)
		}},
		{"process manager killed", failoverGap, func(r *replicated, primary string) {
			pod := &corev1.Pod{}
			r.mustGet(primary, pod)
			r.aimFromNode(containerID(pod, r.kind.component))()
		}},
		{"pod deleted", failoverGap, func(r *replicated, primary string) {
			r.deletePod(primary)
			r.changed(primary, settleIn)
		}},
		{"pod and volume deleted", expiryGap, func(r *replicated, primary string) {
			for name, claim := range r.claims() {
				if strings.HasSuffix(name, primary) {
					r.delete(&claim)
				}
			}
			r.deletePod(primary, graceZero)
			r.changed(primary, settleIn)
		}},
		{"switched over", failoverGap, func(r *replicated, primary string) { r.switchTo(primary, r.follower()) }},
		{"taken over", failoverGap, func(r *replicated, primary string) {
			r.ask("Failover", nil)
			r.changed(primary, settleIn)
		}},
		{"member made anew", inPlaceGap, func(r *replicated, _ string) {
			name := r.follower()
			uid := r.uids()[name]
			r.ask("RebuildMember", platformv1.Parameters{"pod": platformv1.ParameterValue(name)})
			if r.uids()[name] == uid {
				r.Errorf("pod %s is the same as before", name)
			}
		}},
		{"operator killed", failoverGap, func(r *replicated, primary string) {
			r.deleteOperator()
			r.killedUntilChanged(primary)
		}},
		{"API server away", inPlaceGap, func(r *replicated, _ string) {
			r.goesOnWithoutAPI(away, how)
			away, how = min(away, shortAway), how.other()
		}},
	}
}

// goesOnWithoutAPI has the API server be away, and fails where anything is another one then, or was started once more.
func (r *replicated) goesOnWithoutAPI(d time.Duration, how absence) {
	r.Helper()
	before := r.runs()
	r.apiServerAway(d, how)
	r.whole()
	if after := r.runs(); !maps.Equal(before, after) {
		r.Errorf("what ran were %v, and are %v now", before, after)
	}
}

// TestFailover proves, for each fault of a primary, that another one takes over when it should, that never two take writes, and
// that no write is lost that was acknowledged with a replica. It runs alone because it measures.
func TestFailover(t *testing.T) {
	s := newSpace(t, "failover")
	r := s.replicatedRedis("db")
	r.ready()
	r.whole()
	r.suffer(faultMatrix(), set.faultRounds)
	r.upgrade("8.0")
}

// suffer goes through faults for so many rounds.
func (r *replicated) suffer(matrix []fault, rounds int) {
	r.Helper()
	t, s := r.T, r.space
	for n := range rounds * len(matrix) {
		fault := matrix[n%len(matrix)]
		t.Run(fault.name, func(t *testing.T) {
			r := r.in(s.in(t))
			if fault.limit == inPlaceGap {
				r.waits(patience)
			}
			primary, before := r.whole()
			uids := r.uids()
			trial := r.begin()
			fault.does(r, primary)
			r.whole()
			now, after := trial.judge(fault.name, before, fault.limit)
			asked := fault.name == "switched over" || fault.name == "taken over"
			if n := r.recorded(before, after); asked && n > 0 || !asked && after > before && n == 0 {
				t.Errorf("%d failovers are on record", n)
			}
			if fault.limit == inPlaceGap && (now != primary || after != before || r.uids()[primary] != uids[primary]) {
				t.Errorf("pod %s wrote in term %d and %s in term %d: it was to go on in place", primary, before, now, after)
			}
			if fault.limit == inPlaceGap {
				r.waits(r.kind.failover)
			}
		})
	}
}

// in returns the same instance for a subtest.
func (r *replicated) in(s *space) *replicated {
	return &replicated{&application{space: s, name: r.name}, r.kind}
}

// TestFailoverOfANode proves that a primary that is cut off stops by itself before another one writes.
func TestFailoverOfANode(t *testing.T) {
	s := newSpace(t, "fencing")
	r := s.replicatedRedis("db")
	r.ready()
	r.whole()
	for n := range set.faultRounds {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) {
			r := r.in(s.in(t))
			r.nodeIsCutOff("node cut off", operatorNamespace, "kube-system")
		})
	}
	r.tellChanges()
}

// nodeIsCutOff is one trial of that; the pods of namespaces are moved away before.
func (r *replicated) nodeIsCutOff(fault string, moved ...string) {
	r.Helper()
	primary, before := r.whole()
	node := r.node(primary)
	r.vacate(node, moved...)
	trial := r.begin()
	leave := trial.stay(primary)
	r.Logf("%s node %s is cut off", time.Now().Format("15:04:05.000"), node)
	devcluster(r.T, "node", "cut", node)
	heal := sync.OnceFunc(func() { devcluster(r.T, "node", "heal", node) })
	defer heal()
	r.changed(primary, readyIn)
	heal()
	r.whole()
	leave()
	_, after := trial.judge(fault, before, expiryGap)
	if r.recorded(before, after) == 0 {
		r.Error("the failover is not on record")
	}
}

// killedAgain kills a Redis, and once more, for good until another one writes, as soon as the process that came back has a write that a replica
// acknowledged. The next primary has that write.
func (r *replicated) killedAgain(pod string) {
	r.Helper()
	const script = `IFS= read -r REDISCLI_AUTH
export REDISCLI_AUTH
` + signalScript + `until [ "$(printf 'SET again %s\nWAIT 1 1000\n' "$5" | redis-cli 2>/dev/null | tail -n 1)" = 1 ]; do :; done
`
	a, written := r.accountIn(r.object().Status.Binding.Name), rand.Text()
	r.kind.killedUntil(r.space, pod, a.password+"\n", script, written, func() { r.changed(pod, settleIn) })
	primary, _ := r.whole()
	if got := r.adminSays(primary, "GET", "again"); got != written {
		r.Errorf("%s has %q, and %q was acknowledged with a replica", primary, got, written)
	}
}

func (r *replicated) deletePod(name string, options ...client.DeleteOption) {
	r.Helper()
	pod := &corev1.Pod{}
	r.mustGet(name, pod)
	r.delete(pod, options...)
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

// apiServerAway has the API server be away for a time.
func (s *space) apiServerAway(d time.Duration, how absence) {
	s.Helper()
	pid, began := strconv.Itoa(apiServer(s.T)), time.Now()
	switch how {
	case apiStopped:
		devcluster(s.T, "exec", "--", "kill", "-STOP", pid)
		time.Sleep(d)
		devcluster(s.T, "exec", "--", "kill", "-CONT", pid)
	case apiKilled:
		devcluster(s.T, "exec", "--", "kill", "-KILL", pid)
		time.Sleep(d)
		// It starts what has died, and nothing else.
		devcluster(s.T, "up")
	}
	s.Logf("the API server was %s, and is back after %s", how, seconds(time.Since(began)))
	s.eventually(readyIn, "the API server answers", func() error {
		return world.client.List(s.ctx, &corev1.NodeList{}, client.Limit(1))
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
