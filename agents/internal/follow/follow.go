// SPDX-License-Identifier: Apache-2.0

// Package follow tells the other agents of a pod how the process is.
package follow

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// reconnect is how long to wait before the process manager is called again.
const reconnect = 200 * time.Millisecond

// Process sends each status of the process manager, and nil when it goes away, until the context ends.
// The unix socket needs no encryption: the file's mode says who may connect.
func Process(ctx context.Context, socket string, statuses chan<- *agentv1.ProcessStatus, log *slog.Logger) {
	conn, err := connect(socket)
	if err != nil {
		log.Error("cannot follow the process manager", "error", err.Error())
		return
	}
	defer conn.Close()
	client := agentv1.NewProcessServiceClient(conn)
	for ctx.Err() == nil {
		if watch(ctx, client, statuses) {
			log.Warn("the process manager went away")
			send(ctx, statuses, nil)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnect):
		}
	}
}

// connect makes a client of the process manager, which need not be there.
func connect(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2,
				MaxDelay: 500 * time.Millisecond}, MinConnectTimeout: time.Second}),
	)
}

// watch follows one connection to its end. It returns true when it had one.
func watch(ctx context.Context, client agentv1.ProcessServiceClient, statuses chan<- *agentv1.ProcessStatus) bool {
	stream, err := client.WatchStatus(ctx, &agentv1.WatchStatusRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return false
	}
	connected := false
	for {
		status, err := stream.Recv()
		if err != nil {
			return connected
		}
		connected = true
		send(ctx, statuses, status)
	}
}

func send(ctx context.Context, statuses chan<- *agentv1.ProcessStatus, status *agentv1.ProcessStatus) {
	select {
	case statuses <- status:
	case <-ctx.Done():
	}
}
