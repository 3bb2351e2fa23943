// SPDX-License-Identifier: Apache-2.0

//go:build integration

package entity

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// manager plays the process manager of a pod for its ops agent.
type manager struct {
	agentv1.UnimplementedProcessServiceServer

	mu     sync.Mutex
	status *agentv1.ProcessStatus
}

// serve has it answer at a unix socket.
func (m *manager) serve(t *testing.T, socket string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	agentv1.RegisterProcessServiceServer(server, m)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-ended })
}

// GetStatus implements agentv1.ProcessServiceServer.
func (m *manager) GetStatus(context.Context, *agentv1.GetStatusRequest) (*agentv1.ProcessStatus, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status, nil
}

// tells how the process is from now on.
func (m *manager) tells(state agentv1.ProcessState, starts int64, pid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status = &agentv1.ProcessStatus{State: state, Starts: starts, Pid: int64(pid)}
}

// What a process forgot is no drift, though the pod still reports the process before.
func TestRestartThatIsNotReportedYet(t *testing.T) {
	f := newFixture(t)
	f.secret("users", map[string]string{"alice": "secret"})
	alice := f.entity("alice", nil)
	f.create(alice)
	f.run(-1)
	f.ready(alice)
	f.looks(2)
	f.admin("SHUTDOWN", "NOSAVE")
	f.Write(nil, "config", "users", "entities.conf")
	f.launch()
	f.says("PONG", "alice", "secret", "PING")
	f.looks(2)
	f.ready(alice)
	if alice.Status.DriftRepairs != 0 {
		t.Errorf("what a process forgot counts as drift: %+v", alice.Status)
	}
	f.admin("ACL", "DELUSER", "alice")
	f.says("PONG", "alice", "secret", "PING")
	testkit.WaitFor(t, env.Client, alice, "one repair of drift", func() error {
		if alice.Status.DriftRepairs != 1 {
			return fmt.Errorf("the status is %+v", alice.Status)
		}
		return nil
	})
}
