// SPDX-License-Identifier: Apache-2.0

//go:build processes

package group_test

import (
	"context"
	"errors"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/mysql/group"
)

// Members take passwords over in turn, and each leaves that to the primary: one that became it after its turn makes up
// for it.
func TestPasswordsWhileThePrimaryChanges(t *testing.T) {
	const fresh = "fresh-password"
	c := newCluster(t)
	c.settle(group.Unformed)
	for _, pod := range pods {
		c.servers[pod].SetPassword("app", fresh)
	}
	reload := func(pod string) {
		t.Helper()
		if err := c.servers[pod].Server.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reload("b")
	reload("c")
	if err := c.SetPrimary(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	reload("a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watched := make(chan error, 1)
	go func() { watched <- c.servers["b"].Server.Watch(ctx) }()
	for _, pod := range pods {
		c.servers[pod].Until(pod+" has the password", func(ctx context.Context) error {
			_, err := c.servers[pod].As("app", fresh, c.servers[pod].Address, "").Content(ctx)
			return err
		})
	}
	cancel()
	if err := <-watched; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
