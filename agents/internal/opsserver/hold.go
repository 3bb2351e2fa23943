// SPDX-License-Identifier: Apache-2.0

package opsserver

import (
	"context"
	"time"

	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/hold"
	"github.com/zeroinfra/agents/internal/server"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

var holdPhases = map[hold.Phase]agentv1.HoldPhase{
	hold.Freezing: agentv1.HoldPhase_HOLD_PHASE_FREEZING,
	hold.Held:     agentv1.HoldPhase_HOLD_PHASE_HELD,
	hold.Released: agentv1.HoldPhase_HOLD_PHASE_RELEASED,
	hold.Lost:     agentv1.HoldPhase_HOLD_PHASE_LOST,
}

// Hold implements agentv1.OpsServiceServer.
func (s service) Hold(_ context.Context, r *agentv1.HoldRequest) (*agentv1.HoldStatus, error) {
	now, err := s.Holds.Hold(hold.Request{Key: r.GetHeader().GetIdempotencyKey(), Freeze: r.GetFreeze(), Thaw: r.GetThaw(),
		Lease: time.Duration(r.GetLeaseMs()) * time.Millisecond})
	if err != nil {
		return nil, status.Error(server.CodeOf(err, codesOfActions), err.Error())
	}
	return holdStatus(now), nil
}

// Release implements agentv1.OpsServiceServer.
func (s service) Release(_ context.Context, r *agentv1.ReleaseRequest) (*agentv1.HoldStatus, error) {
	return holdStatus(s.Holds.Release(r.GetHeader().GetIdempotencyKey())), nil
}

func holdStatus(now hold.Status) *agentv1.HoldStatus {
	return &agentv1.HoldStatus{Phase: holdPhases[now.Phase], Thawed: now.Thawed, Message: now.Message,
		Outputs: now.Outputs}
}
