// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	"github.com/zeroinfra/platform-core/internal/pki"
)

// TestAConnectionInUseIsNotClosedForAnother: the bound is for those that nobody calls on.
func TestAConnectionInUseIsNotClosedForAnother(t *testing.T) {
	authority := newAuthority(t)
	m := &manager{records: map[string]*agentv1.CallRecord{}, watched: make(chan struct{})}
	port := serve(t, authority, m, "127.0.0.1", pki.AgentServerName("pod", "team"))
	connections := New(authority, WithPort(port), WithMaxOpen(1))
	t.Cleanup(connections.Close)
	_, conn, err := connections.dial(podAt("pod", "127.0.0.1"), port)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := agentv1.NewProcessServiceClient(conn).WatchStatus(ctx, &agentv1.WatchStatusRequest{},
		grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		pod := podAt("pod", "127.0.0.1")
		pod.UID = podAt(fmt.Sprintf("pod-%d", n), "").UID
		p, err := connections.Dial(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(m.watched)
	if _, err := stream.Recv(); err != nil {
		t.Errorf("the stream that was open all the while: %v", err)
	}
	if got := connections.Len(); got != 1 {
		t.Errorf("%d connections are kept", got)
	}
}
