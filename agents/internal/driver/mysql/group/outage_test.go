// SPDX-License-Identifier: Apache-2.0

//go:build processes

package group_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/mysql/group"
)

// All members are gone at once, and the first one, which was the primary, comes back with an empty volume. It begins no
// group, however long it is the only one beside a member that lacks the last write: the one that has all does.
func TestOutageInWhichTheFirstMemberLosesItsVolume(t *testing.T) {
	c := newCluster(t)
	c.settle(group.Unformed)
	c.servers["a"].SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY); INSERT INTO app.rows_ VALUES (1)")
	c.everywhere(1)
	if now := c.primary(); now != "a" {
		t.Fatalf("%s is the primary", now)
	}
	c.servers["b"].Kill()
	c.servers["a"].Until("a and c go on without b", func(context.Context) error {
		seen, err := c.servers["a"].TrySQL("SELECT COUNT(*) FROM performance_schema.replication_group_members")
		if err == nil && seen != "2" {
			err = fmt.Errorf("there are %s members", seen)
		}
		return err
	})
	if err := c.write("a", 2); err != nil {
		t.Fatal(err)
	}
	c.servers["c"].Until("c has it", func(context.Context) error {
		rows, err := c.servers["c"].TrySQL("SELECT COUNT(*) FROM app.rows_")
		if err == nil && rows != "2" {
			err = fmt.Errorf("there are %s rows", rows)
		}
		return err
	})

	c.lose("a")
	c.servers["c"].Kill()
	if err := os.Mkdir(c.servers["a"].Server.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.servers["a"].Start()
	c.servers["b"].Start()
	for range 2 {
		if state, err := c.Step(t.Context(), c.shape, group.Formed); err != nil || state.Phase != group.Waiting ||
			!strings.Contains(state.Reason, "c does not answer") {
			t.Errorf("without c: got %+v, %v", state, err)
		}
	}
	c.servers["c"].Start()
	if state, err := c.Step(t.Context(), c.shape, group.Formed); err != nil || state.Reason != "c begins the group" {
		t.Errorf("with all of them: got %+v, %v", state, err)
	}
	c.servers["c"].Until("all are members", func(ctx context.Context) error {
		// A server that has copied all data ends, and is started again by whoever looks after it.
		if c.servers["a"].Ended() {
			c.servers["a"].Start()
		}
		state, err := c.Step(ctx, c.shape, group.Formed)
		if err == nil && state.Phase != group.Done {
			err = fmt.Errorf("%s: %s", state.Phase, state.Reason)
		}
		return err
	})
	c.everywhere(2)
	if now := c.primary(); now != "c" {
		t.Errorf("%s is the primary, and c began the group", now)
	}
}
