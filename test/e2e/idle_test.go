// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// quietFor is how long nothing may have been written for the suite to count as at rest.
const quietFor = 5 * time.Second

// agentBudgetMiB is what one agent may hold at rest: the design's 20, and what pages of the binary the kernel
// happens to count.
const agentBudgetMiB = 24

// TestIdleCostsNothing proves that instances at rest cost no API write but the operator's Lease.
func TestIdleCostsNothing(t *testing.T) {
	s := newSpace(t, "idle")
	instances := s.fleet()
	audit := s.rest()
	cpu := instances[0].cpuTimes()
	start := time.Now()
	s.throughout(set.idle, "somebody wrote at rest", func() error { return none(audit) })
	s.flush(audit)
	if err := none(audit); err != nil {
		t.Error(err)
	}
	t.Logf("%d instances at rest for %s: 0 writes by operator and agents", len(instances), seconds(time.Since(start)))
	instances[0].checkAgentMemory()
	for container, before := range cpu {
		used := instances[0].cpuTimes()[container]
		period := time.Since(start).Seconds()
		t.Logf("CPU at rest, container %s: agent itself %.2f mCPU, with the commands that it ran %.2f mCPU",
			container, 1000*(used.own-before.own)/period, 1000*(used.all-before.all)/period)
	}
}

// TestOperatorRestartCostsNothing proves that an operator that starts over unchanged objects writes nothing and
// touches no pod.
func TestOperatorRestartCostsNothing(t *testing.T) {
	s := newSpace(t, "again")
	instances := s.fleet()
	audit := s.rest()
	var before []footprint
	for _, i := range instances {
		before = append(before, i.footprint())
	}
	old := s.mustLeader()
	start := time.Now()
	s.deleteOperator()
	s.caughtUp(old)
	t.Logf("deleted to caught up: %s", seconds(time.Since(start)))
	// What it would write late, it writes within this time.
	s.throughout(2*quietFor, "the new operator wrote", func() error { return none(audit) })
	s.flush(audit)
	if err := none(audit); err != nil {
		t.Error(err)
	}
	for n, i := range instances {
		if err := before[n].sameProcess(i.footprint()); err != nil {
			t.Errorf("%s: %v", i.name, err)
		}
	}
}

// checkAgentMemory proves that the agents are as small at rest as the design promises.
func (i *instance) checkAgentMemory() {
	i.Helper()
	for _, container := range i.pod().Spec.Containers {
		used := i.residentMiB(container.Name)
		i.Logf("memory at rest, agent in container %s: %.1f MiB resident", container.Name, used)
		if used > agentBudgetMiB {
			i.Errorf("the agent in container %q holds %.1f MiB, want at most %d", container.Name, used, agentBudgetMiB)
		}
	}
}

// fleet makes three instances and waits for them.
func (s *space) fleet() []*instance {
	s.Helper()
	instances := []*instance{s.redis("a"), s.redis("b", safe()), s.redis("c", version("8.0"))}
	for _, i := range instances {
		i.ready()
	}
	s.clientPod()
	return instances
}

// rest waits until the suite has written nothing for a while and returns the log from there on.
func (s *space) rest() *auditLog {
	s.Helper()
	// What earlier tests deleted may still be on its way out.
	if err := awaitRemovals(s.ctx); err != nil {
		s.Fatal(err)
	}
	var audit *auditLog
	since := time.Time{}
	s.eventually(settleIn, "the suite comes to rest", func() error {
		if audit == nil || none(audit) != nil {
			audit, since = auditFromNow(s.T), time.Now()
		}
		if quiet := time.Since(since); quiet < quietFor {
			return fmt.Errorf("it has been quiet for %s", seconds(quiet))
		}
		return nil
	})
	return audit
}

// waitQuiet waits until operators and agents have written nothing for a while.
func (s *space) waitQuiet(audit *auditLog) {
	s.Helper()
	last, since := -1, time.Time{}
	s.eventually(settleIn, "the suite comes to rest", func() error {
		if now := len(audit.product()); now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < quietFor {
			return fmt.Errorf("it has been quiet for %s", seconds(quiet))
		}
		return nil
	})
}

// none says which writes operators and agents have made.
func none(audit *auditLog) error {
	all := audit.product()
	if len(all) == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("%d writes:", len(all))}
	for _, w := range all[:min(len(all), 10)] {
		lines = append(lines, w.String())
	}
	return errors.New(strings.Join(lines, "\n  "))
}

// caughtUp waits until another leader than the old one has worked off its queues.
func (s *space) caughtUp(old string) {
	s.Helper()
	s.eventually(leaderIn, "the new leader has worked off its queues", func() error {
		name, err := leader(s.ctx)
		if err != nil {
			return err
		}
		if name == old {
			return fmt.Errorf("the leader is still %q", name)
		}
		page, err := scrape(s.ctx, name)
		if err != nil {
			return err
		}
		done, found := sample(page, "controller_runtime_reconcile_total", `controller="workloadset"`)
		depth, _ := sample(page, "workqueue_depth")
		if !found || done < 1 || depth > 0 {
			return fmt.Errorf("%v WorkloadSets reconciled, %v requests wait", done, depth)
		}
		return nil
	})
}
