// SPDX-License-Identifier: Apache-2.0

//go:build processes

package group_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver/mysql/group"
)

// lose ends servers with their volumes, and anew gives them empty ones.
func (c *cluster) lose(lost ...string) {
	c.Helper()
	for _, pod := range lost {
		c.servers[pod].Kill()
		if err := os.RemoveAll(c.servers[pod].Server.Dir); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *cluster) anew(lost ...string) {
	c.Helper()
	for _, pod := range lost {
		if err := os.Mkdir(c.servers[pod].Server.Dir, 0o700); err != nil {
			c.Fatal(err)
		}
		c.servers[pod].Start()
	}
	// A server that has copied all data ends, and is started again by whoever looks after it.
	c.servers[pods[0]].Until("those that are new have copied", func(ctx context.Context) error {
		for _, pod := range lost {
			if c.servers[pod].Ended() {
				c.servers[pod].Start()
			}
		}
		state, err := c.Step(ctx, c.shape, group.Formed)
		if err == nil && state.Phase != group.Done {
			err = fmt.Errorf("%s: %s", state.Phase, state.Reason)
		}
		return err
	})
}

// state of a member, by itself.
func (c *cluster) state(pod string) string {
	c.Helper()
	return c.servers[pod].SQL("SELECT COALESCE(MAX(MEMBER_STATE), '') FROM performance_schema.replication_group_members " +
		"WHERE MEMBER_ID = @@server_uuid")
}

// Most members are gone with their volumes, those of the primary among them. The one that is left takes no writes,
// until it is told that they are lost: then it begins the group anew with all that it has, and the others copy from it.
func TestLostQuorum(t *testing.T) {
	c := newCluster(t)
	c.settle(group.Unformed)
	c.servers["a"].SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY); INSERT INTO app.rows_ VALUES (1)")
	c.everywhere(1)
	loss := group.Loss{Members: pods, Lost: []string{"a", "b"}, From: "c"}
	refused := func(loss group.Loss, want string) {
		t.Helper()
		if said, err := c.LookForced(t.Context(), loss); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, %v, want %q", said, err, want)
		}
	}
	refused(loss, "in a group that has most of its members")

	c.lose("a", "b")
	c.servers["c"].Until("it is known that most are lost", func(ctx context.Context) error {
		state, err := c.Step(ctx, c.shape, group.Formed)
		if err == nil && !strings.Contains(state.Lost, "run ForceQuorum with from=c and lost=a,b,") {
			err = fmt.Errorf("it says %+v", state)
		}
		return err
	})
	if err := c.write("c", 2); err == nil {
		t.Error("a member takes writes without the others")
	}
	refused(group.Loss{Members: pods, Lost: []string{"a"}, From: "c"}, "b does not answer, and is not declared lost")
	if said, err := c.LookForced(t.Context(), loss); err != nil ||
		!strings.HasPrefix(said, "a does not answer: its transactions are not known; b does") {
		t.Errorf("got %q, %v", said, err)
	}
	for range 2 {
		was, begun := c.state("c"), time.Now()
		if err := c.Force(t.Context(), loss); err != nil {
			t.Fatal(err)
		}
		t.Logf("of a member that is %s it took %s", was, time.Since(begun))
	}
	if now := c.primary(); now != "c" {
		t.Errorf("%s is the primary", now)
	}
	if err := c.write("c", 2); err != nil {
		t.Error(err)
	}
	c.anew("a", "b")
	c.everywhere(2)
}

// Two members have what the third one has not, each something else, and none begins. The one whose data counts begins
// once the other one's is given up.
func TestForceQuorumOfMembersThatHaveDiverged(t *testing.T) {
	c := newCluster(t)
	c.settle(group.Unformed)
	c.servers["a"].SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY)")
	c.everywhere(0)
	for n, pod := range []string{"b", "c"} {
		c.servers[pod].SQL(fmt.Sprintf("STOP GROUP_REPLICATION; SET GLOBAL super_read_only = OFF; INSERT INTO app.rows_ "+
			"VALUES (%d)", n))
	}
	state, err := c.Step(t.Context(), c.shape, group.Formed)
	if err != nil || !strings.Contains(state.Quarantined, "b has transactions that the group has not") ||
		!strings.Contains(state.Quarantined, "c has transactions") {
		t.Errorf("got %+v, %v", state, err)
	}
	c.servers["a"].SQL("STOP GROUP_REPLICATION")
	if state, err = c.Step(t.Context(), c.shape, group.Formed); err != nil || state.Phase != group.Refused ||
		!strings.Contains(state.Reason, "run ForceQuorum") {
		t.Errorf("got %+v, %v", state, err)
	}
	loss := group.Loss{Members: pods, Lost: []string{"c"}, From: "b"}
	if said, err := c.LookForced(t.Context(), loss); err != nil || !strings.Contains(said, "c has ") ||
		!strings.Contains(said, "and b has not") {
		t.Errorf("got %q, %v", said, err)
	}
	if err := c.Force(t.Context(), loss); err != nil {
		t.Fatal(err)
	}
	c.servers["b"].Until("a joins, and c stays out", func(ctx context.Context) error {
		state, err := c.Step(ctx, c.shape, group.Formed)
		if err == nil && (state.Phase != group.Refused ||
			!strings.Contains(state.Quarantined, "c has transactions that the group has not")) {
			err = fmt.Errorf("it says %+v", state)
		}
		return err
	})
	c.lose("c")
	c.anew("c")
	c.everywhere(1)
}
