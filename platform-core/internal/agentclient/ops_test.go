// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	"github.com/zeroinfra/platform-core/internal/pki"
)

// opsAgent is an ops agent that begins an action at the first call and has ended it at the next, as the protocol
// allows.
type opsAgent struct {
	agentv1.UnimplementedOpsServiceServer
	mu      sync.Mutex
	records map[string]*agentv1.RunRequest
}

func (o *opsAgent) Run(r *agentv1.RunRequest, stream grpc.ServerStreamingServer[agentv1.RunUpdate]) error {
	o.mu.Lock()
	first := o.records[r.GetHeader().GetIdempotencyKey()]
	o.records[r.GetHeader().GetIdempotencyKey()] = r
	o.mu.Unlock()
	answer := &agentv1.ActionRecord{Record: &agentv1.CallRecord{IdempotencyKey: r.GetHeader().GetIdempotencyKey(),
		Phase: agentv1.CallPhase_CALL_PHASE_RUNNING}}
	switch {
	case r.GetAction() == "none":
		return status.Error(codes.NotFound, `the plugin declares no such action: "none"`)
	case r.GetAction() == "lost":
		answer.Record.Phase = agentv1.CallPhase_CALL_PHASE_INTERRUPTED
	case first != nil && !proto.Equal(first, r):
		return status.Error(codes.InvalidArgument, "another call")
	case first != nil:
		answer.Record.Phase, answer.Outputs = agentv1.CallPhase_CALL_PHASE_SUCCEEDED,
			map[string]string{"to": r.GetParameters()["to"]}
	}
	if err := stream.Send(&agentv1.RunUpdate{Update: &agentv1.RunUpdate_Call{Call: answer}}); err != nil || first != nil {
		return err
	}
	// It runs on, and the caller has not waited for that.
	<-stream.Context().Done()
	return stream.Context().Err()
}

func TestActionIsBegunAndAskedFor(t *testing.T) {
	authority := newAuthority(t)
	pod := podAt("redis-a-redis-main-0", "127.0.0.1")
	port := serve(t, authority, &manager{records: map[string]*agentv1.CallRecord{}}, "127.0.0.1",
		pki.AgentServerName(pod.Name, pod.Namespace))
	c := New(authority, WithPort(port), WithOpsPort(port))
	t.Cleanup(c.Close)
	ops, err := c.DialOps(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	action := Action{Key: "k", Name: "move", Parameters: map[string]string{"to": "b"}}
	for _, want := range []string{report.CallRunning, report.CallSucceeded} {
		call, err := ops.Run(t.Context(), action)
		if err != nil || call.Phase != want || call.Key != "k" || want == report.CallSucceeded && call.Outputs["to"] != "b" {
			t.Errorf("got %+v, %v, want %s", call, err, want)
		}
	}
	if call, err := ops.Run(t.Context(), Action{Key: "l", Name: "lost"}); err != nil ||
		call.Phase != report.CallInterrupted {
		t.Errorf("got %+v, %v", call, err)
	}
	if _, err := ops.Run(t.Context(), Action{Key: "m", Name: "none"}); !IsRefused(err) || !IsUnknown(err) ||
		!IsAlive(err) || !strings.Contains(ProblemOf(err), "no such action") {
		t.Errorf("got %v", err)
	}
	c.Forget(pod.UID)
	if c.Len() != 0 {
		t.Errorf("%d connections are left", c.Len())
	}
}
