// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/test/e2e/framework"
)

// pagesMiB is what pages of the binary the kernel happens to count beside the budget of an agent.
const pagesMiB = 4

// TestIdleCostsNothing proves that instances at rest cost no API write but the operator's Lease.
func TestIdleCostsNothing(t *testing.T) {
	s := framework.NewNamespace(t, "idle")
	instances := fleet(s)
	audit := waitForRest(s)
	cpu := instances[0].CPUTimes()
	start := time.Now()
	s.Throughout(framework.Config.Idle, "somebody wrote at rest", func() error { return none(audit) })
	s.Flush(audit)
	if err := none(audit); err != nil {
		t.Error(err)
	}
	t.Logf("%d instances at rest for %s: 0 writes by operator and agents", len(instances),
		framework.FormatSeconds(time.Since(start)))
	checkAgentMemory(instances[0])
	for container, before := range cpu {
		used := instances[0].CPUTimes()[container]
		period := time.Since(start).Seconds()
		t.Logf("CPU at rest, container %s: agent itself %.2f mCPU, with the commands that it ran %.2f mCPU",
			container, 1000*(used.Own-before.Own)/period, 1000*(used.All-before.All)/period)
	}
}

// TestOperatorRestartCostsNothing proves that an operator that starts over unchanged objects writes nothing and
// touches no pod.
func TestOperatorRestartCostsNothing(t *testing.T) {
	s := framework.NewNamespace(t, "again")
	instances := fleet(s)
	audit := waitForRest(s)
	var before []framework.Footprint
	for _, i := range instances {
		before = append(before, i.Footprint())
	}
	old := s.MustLeader()
	start := time.Now()
	s.DeleteOperatorPods()
	caughtUp(s, old)
	t.Logf("deleted to caught up: %s", framework.FormatSeconds(time.Since(start)))
	// What it would write late, it writes within this time.
	s.Throughout(2*framework.QuietPeriod, "the new operator wrote", func() error { return none(audit) })
	s.Flush(audit)
	if err := none(audit); err != nil {
		t.Error(err)
	}
	for n, i := range instances {
		if err := before[n].SameProcess(i.Footprint()); err != nil {
			t.Errorf("%s: %v", i.Name, err)
		}
	}
}

// checkAgentMemory proves that the agents are as small at rest as the design promises.
func checkAgentMemory(i *framework.Instance) {
	i.Helper()
	for _, container := range i.Pod().Spec.Containers {
		used := i.ResidentMiB(container.Name)
		i.Logf("memory at rest, agent in container %s: %.1f MiB resident", container.Name, used)
		budget := agentBudget>>10 + pagesMiB
		if container.Name == "ops" {
			budget = opsBudget>>10 + pagesMiB
		}
		if used > float64(budget) {
			i.Errorf("the agent in container %q holds %.1f MiB, want at most %d", container.Name, used, budget)
		}
	}
}

// fleet makes three instances and waits for them.
func fleet(s *framework.Namespace) []*framework.Instance {
	s.Helper()
	instances := []*framework.Instance{s.CreateRedis("a"), s.CreateRedis("b", framework.WithFsyncAlways()),
		s.CreateRedis("c", framework.WithVersion("8.0"))}
	for _, i := range instances {
		i.WaitReady()
	}
	s.ClientPod()
	return instances
}

// waitForRest waits until the suite has written nothing for a while and returns the log from there on.
func waitForRest(s *framework.Namespace) *framework.AuditLog {
	s.Helper()
	// What earlier tests deleted may still be on its way out.
	if err := framework.AwaitRemovals(s.Ctx); err != nil {
		s.Fatal(err)
	}
	var audit *framework.AuditLog
	since := time.Time{}
	s.Eventually(framework.SettleTimeout, "the suite comes to rest", func() error {
		if audit == nil || none(audit) != nil {
			audit, since = framework.StartAudit(s.T), time.Now()
		}
		if quiet := time.Since(since); quiet < framework.QuietPeriod {
			return fmt.Errorf("it has been quiet for %s", framework.FormatSeconds(quiet))
		}
		return nil
	})
	return audit
}

// waitQuiet waits until operators and agents have written nothing for a while.
func waitQuiet(s *framework.Namespace, audit *framework.AuditLog) {
	s.Helper()
	last, since := -1, time.Time{}
	s.Eventually(framework.SettleTimeout, "the suite comes to rest", func() error {
		if now := len(audit.ProductWrites()); now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < framework.QuietPeriod {
			return fmt.Errorf("it has been quiet for %s", framework.FormatSeconds(quiet))
		}
		return nil
	})
}

// none says which writes operators and agents have made.
func none(audit *framework.AuditLog) error {
	all := audit.ProductWrites()
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
func caughtUp(s *framework.Namespace, old string) {
	s.Helper()
	s.Eventually(framework.LeaderTimeout, "the new leader has worked off its queues", func() error {
		name, err := framework.Leader(s.Ctx)
		if err != nil {
			return err
		}
		if name == old {
			return fmt.Errorf("the leader is still %q", name)
		}
		page, err := framework.ScrapeMetrics(s.Ctx, name)
		if err != nil {
			return err
		}
		done, found := framework.Sample(page, "controller_runtime_reconcile_total", `controller="workloadset"`)
		depth, _ := framework.Sample(page, "workqueue_depth")
		if !found || done < 1 || depth > 0 {
			return fmt.Errorf("%v WorkloadSets reconciled, %v requests wait", done, depth)
		}
		return nil
	})
}
