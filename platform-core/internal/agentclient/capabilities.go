// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// capabilities are what the agent at the other end of a connection has said that it can.
type capabilities struct {
	mu sync.Mutex
	// names is nil until it was asked.
	names []string
}

// forget is called whenever a connection is made: the agent at the other end may be another one than before.
func (c *capabilities) forget() { c.remember(nil) }

func (c *capabilities) told() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names
}

func (c *capabilities) remember(names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = names
}

// question asks an agent for the names of its capabilities.
type question func(context.Context, grpc.ClientConnInterface) ([]string, error)

// ofProcess asks a process manager.
func ofProcess(ctx context.Context, conn grpc.ClientConnInterface) ([]string, error) {
	answer, err := agentv1.NewProcessServiceClient(conn).Capabilities(ctx, &agentv1.CapabilitiesRequest{})
	return answer.GetNames(), err
}

// ofOps asks an ops agent.
func ofOps(ctx context.Context, conn grpc.ClientConnInterface) ([]string, error) {
	answer, err := agentv1.NewOpsServiceClient(conn).Capabilities(ctx, &agentv1.CapabilitiesRequest{})
	return answer.GetNames(), err
}

// can says whether the agent has a capability, one of those of package agentv1. It is asked once for each connection
// that is made, by the first who wants something that came after the first version; an agent that does not know the
// question has none.
func (l *line) can(ctx context.Context, name string, ask question) (bool, error) {
	conn, err := l.connections.take(l)
	if err != nil {
		return false, err
	}
	defer l.connections.release(conn)
	names := conn.capabilities.told()
	// What is not connected now will be made anew by the next call: who answers that is yet to be known.
	if names == nil || conn.conn.GetState() != connectivity.Ready {
		answer, err := ask(ctx, conn.conn)
		if err != nil && status.Code(err) != codes.Unimplemented {
			return false, err
		}
		names = append([]string{}, answer...)
		conn.capabilities.remember(names)
	}
	return slices.Contains(names, name), nil
}

// Memory implements Process.
func (p *process) Memory(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	tells, err := p.line.can(ctx, agentv1.CapabilityMemory, ofProcess)
	if err != nil {
		return 0, p.failure("Capabilities", err)
	}
	if !tells {
		return 0, nil
	}
	status, err := p.Status(ctx)
	if err != nil {
		return 0, err
	}
	return status.GetMemoryBytes(), nil
}
