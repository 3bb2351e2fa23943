// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zeroinfra/agents/internal/driver/postgres/replication"
)

// TestReloadBeforeTheServer: the signal of a reload ends nothing that comes before the server. Without that it would
// end this very process.
func TestReloadBeforeTheServer(t *testing.T) {
	went := false
	err := withServer(&replication.Server{Programs: t.TempDir()}, func(ctx context.Context) error {
		if err := unix.Tgkill(os.Getpid(), unix.Gettid(), syscall.SIGHUP); err != nil {
			return err
		}
		went = true
		return context.Cause(ctx)
	})
	if err != nil || !went {
		t.Errorf("it went on is %t, with %v", went, err)
	}
}
