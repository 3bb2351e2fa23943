// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// maxZooKeeperAnswer bounds what a ZooKeeper says of itself, in bytes.
const maxZooKeeperAnswer = 64 << 10

func zooKeeperProbe() *cobra.Command {
	return kafkaSub("zookeeper", "Say as what a ZooKeeper server serves, as the line mode:…", 5*time.Second,
		func(ctx context.Context, o *kafkaOptions, _ []string) error {
			mode, err := zooKeeperMode(ctx, o.address)
			if err == nil {
				_, err = fmt.Printf("mode:%s\n", mode)
			}
			return err
		})
}

// zooKeeperMode asks a server whether it is the leader, a follower, or standalone. One that has found no majority
// serves nobody, and says so.
func zooKeeperMode(ctx context.Context, address string) (string, error) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("cannot reach ZooKeeper: %w", err)
	}
	defer connection.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := connection.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(connection, "srvr"); err != nil {
		return "", fmt.Errorf("cannot ask ZooKeeper: %w", err)
	}
	said, err := io.ReadAll(io.LimitReader(connection, maxZooKeeperAnswer))
	if err != nil {
		return "", fmt.Errorf("zookeeper does not answer: %w", err)
	}
	for line := range strings.Lines(string(said)) {
		if mode, is := strings.CutPrefix(line, "Mode: "); is {
			return strings.TrimSpace(mode), nil
		}
	}
	first, _, _ := strings.Cut(string(said), "\n")
	if first == "" {
		return "", errors.New("zookeeper says nothing of itself")
	}
	return "", fmt.Errorf("zookeeper serves nobody: %s", first)
}
