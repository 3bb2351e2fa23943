// SPDX-License-Identifier: Apache-2.0

package database

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroinfra/test/e2e/framework"
)

// TestMySQLOutageWithALostVolume has all members of a group be gone at once, and the first one come back with an empty
// volume: the group begins with a member that has the data, and nothing is lost.
func TestMySQLOutageWithALostVolume(t *testing.T) {
	t.Parallel()
	g := newMySQLGroup(t, "mysqloutage")
	g.waitReady()
	l := newMySQLLife(g.mysqlInstance, func() {
		g.waitReady()
		g.wholeGroup(3)
		g.waitForSameTransactions()
	})
	first, second := g.application().Name+"-mysql-main-0", g.application().Name+"-mysql-main-1"
	t.Log("it was the primary: clients have ended, since the last one to stop takes writes alone")
	l.hasPrimary(first)
	l.underLoad("before the outage", func() {})
	const sum = "SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(n))) FROM numbers"
	want, err := l.asks(l.db, sum)
	if err != nil {
		t.Fatal(err)
	}
	claim := g.claimOf(first)
	l.operates("Stop")
	l.waitForNoPods()
	g.deleteClaim(first)
	g.waitForNoClaim(first)
	l.operates("Start")
	l.whole()
	l.waitForAnswer(l.db, want, sum)
	l.expectOtherVolume(g, first, claim)

	t.Log("it was a replica, and clients write")
	l.hasPrimary(second)
	claim = g.claimOf(first)
	l.underLoad("all pods and the first volume deleted", func() {
		g.deleteClaim(first)
		members := g.members()
		for _, pod := range members {
			g.deletePod(pod.Name, framework.GraceZero)
		}
		for _, pod := range members {
			g.Eventually(framework.ReadyTimeout, "another pod "+pod.Name+" is there",
				func() error { return g.PodReplaced(&pod) })
		}
	})
	l.expectOtherVolume(g, first, claim)
}

// hasPrimary has a member become the primary, unless it is.
func (l *mysqlLife) hasPrimary(pod string) {
	l.Helper()
	if l.primaryPod().Name != pod {
		l.operates("Switchover", "to", pod)
	}
}

// expectOtherVolume has the test fail unless a member has another volume than it had, and is no primary with it.
func (l *mysqlLife) expectOtherVolume(g *mysqlGroup, pod, claim string) {
	l.Helper()
	if now := g.claimOf(pod); now == claim || now == "" {
		l.Errorf("%s has the claim %q, and had %q", pod, now, claim)
	}
	if now := l.primaryPod().Name; now == pod {
		l.Errorf("%s is the primary, and had no data", pod)
	}
}

// claimOf is the UID of the claim of a pod; empty where there is none.
func (g *mysqlGroup) claimOf(pod string) string {
	g.Helper()
	for name, claim := range g.application().Claims() {
		if strings.HasSuffix(name, pod) {
			return string(claim.UID)
		}
	}
	return ""
}

func (g *mysqlGroup) waitForNoClaim(pod string) {
	g.Helper()
	g.Eventually(framework.SettleTimeout, "the claim of "+pod+" is gone", func() error {
		if g.claimOf(pod) != "" {
			return errors.New("it is there")
		}
		return nil
	})
}

func (l *mysqlLife) waitForNoPods() {
	l.Helper()
	l.Eventually(framework.SettleTimeout, "no pod is left", func() error {
		if left := l.application().Pods(); len(left) > 0 {
			return fmt.Errorf("there are %d", len(left))
		}
		return nil
	})
}
