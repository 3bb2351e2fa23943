// SPDX-License-Identifier: Apache-2.0

// Package server serves the process manager over gRPC: everything to operators
// over TCP with mutual TLS, Acknowledge alone to the agents of other pods there, and what the status agent needs over a
// unix socket inside the pod.
package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zeroinfra/agents/internal/processlog"
	"github.com/zeroinfra/agents/internal/supervisor"
	"github.com/zeroinfra/agents/internal/writing"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// Process is what is served; *supervisor.Supervisor is one.
type Process interface {
	// Status returns the present status and a channel that is closed at the next change.
	Status() (*agentv1.ProcessStatus, <-chan struct{})
	// Call records a call and begins to carry it out.
	Call(context.Context, supervisor.Call) (*agentv1.CallRecord, error)
	// Member is the pod's part in who may write; the error says why there is none. The channel is closed when that is no
	// longer so.
	Member() (member *writing.Member, changed <-chan struct{}, err error)
	// Enforce ends a primary whose permission has ended.
	Enforce()
}

// Parser reads and checks a plan that came with a call.
type Parser func([]byte) (*plan.Plan, error)

// readOnly serves the status and refuses everything else.
type readOnly struct {
	agentv1.UnimplementedProcessServiceServer
	process Process
	// version of the agent.
	version string
	// closing ends the watches when the server ends.
	closing <-chan struct{}
}

func (s readOnly) GetStatus(context.Context, *agentv1.GetStatusRequest) (*agentv1.ProcessStatus, error) {
	now, _ := s.process.Status()
	return now, nil
}

func (s readOnly) WatchStatus(_ *agentv1.WatchStatusRequest,
	stream grpc.ServerStreamingServer[agentv1.ProcessStatus]) error {
	for {
		now, changed := s.process.Status()
		if err := stream.Send(now); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.closing:
			return status.Error(codes.Unavailable, "the process manager is shutting down")
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// Capabilities says what came after the first version, of all that is served here.
func (s readOnly) Capabilities(context.Context, *agentv1.CapabilitiesRequest) (*agentv1.ProcessCapabilities, error) {
	return &agentv1.ProcessCapabilities{Names: agentv1.ProcessCapabilityNames(), Version: s.version}, nil
}

var errReadOnly = status.Error(codes.PermissionDenied,
	"the unix socket serves Capabilities, GetStatus and WatchStatus only; call over mutual TLS")

func (readOnly) Start(context.Context, *agentv1.StartRequest) (*agentv1.CallResponse, error) {
	return nil, errReadOnly
}

func (readOnly) Stop(context.Context, *agentv1.StopRequest) (*agentv1.CallResponse, error) {
	return nil, errReadOnly
}

func (readOnly) Restart(context.Context, *agentv1.RestartRequest) (*agentv1.CallResponse, error) {
	return nil, errReadOnly
}

func (readOnly) Reload(context.Context, *agentv1.ReloadRequest) (*agentv1.CallResponse, error) {
	return nil, errReadOnly
}

func (readOnly) Signal(context.Context, *agentv1.SignalRequest) (*agentv1.CallResponse, error) {
	return nil, errReadOnly
}

func (readOnly) Logs(*agentv1.LogsRequest, grpc.ServerStreamingServer[agentv1.LogPiece]) error {
	return errReadOnly
}

// service serves everything.
type service struct {
	readOnly
	parse  Parser
	tail   *processlog.Tail
	memory func() int64
}

// GetStatus adds what would be news all the time to those who watch.
func (s service) GetStatus(context.Context, *agentv1.GetStatusRequest) (*agentv1.ProcessStatus, error) {
	now, _ := s.process.Status()
	told := proto.CloneOf(now)
	told.MemoryBytes = s.memory()
	return told, nil
}

func (s service) Logs(r *agentv1.LogsRequest, stream grpc.ServerStreamingServer[agentv1.LogPiece]) error {
	if r.GetTailBytes() < 0 {
		return status.Errorf(codes.InvalidArgument, "tail_bytes is %d; it cannot be negative", r.GetTailBytes())
	}
	for place := s.tail.Last(r.GetTailBytes()); ; {
		pieces, next, missed, more := s.tail.From(place)
		place = next
		if missed > 0 {
			if err := stream.Send(&agentv1.LogPiece{MissedBytes: missed}); err != nil {
				return err
			}
		}
		for _, piece := range pieces {
			if err := stream.Send(logPiece(piece)); err != nil {
				return err
			}
		}
		if !r.GetFollow() {
			return nil
		}
		select {
		case <-more:
		case <-s.closing:
			return status.Error(codes.Unavailable, "the process manager is shutting down")
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

func logPiece(p processlog.Piece) *agentv1.LogPiece {
	if p.Stream == processlog.Stderr {
		return &agentv1.LogPiece{Stderr: p.Data}
	}
	return &agentv1.LogPiece{Stdout: p.Data}
}

func (s service) Start(ctx context.Context, r *agentv1.StartRequest) (*agentv1.CallResponse, error) {
	return s.call(ctx, supervisor.Start(r.GetHeader().GetIdempotencyKey(), r.GetHeader().GetTerm()))
}

func (s service) Stop(ctx context.Context, r *agentv1.StopRequest) (*agentv1.CallResponse, error) {
	return s.call(ctx, supervisor.Stop(r.GetHeader().GetIdempotencyKey(), r.GetHeader().GetTerm()))
}

func (s service) Restart(ctx context.Context, r *agentv1.RestartRequest) (*agentv1.CallResponse, error) {
	p, err := s.pushed(r.GetPlan())
	if err != nil {
		return nil, err
	}
	return s.call(ctx, supervisor.Restart(r.GetHeader().GetIdempotencyKey(), r.GetHeader().GetTerm(), p))
}

func (s service) Reload(ctx context.Context, r *agentv1.ReloadRequest) (*agentv1.CallResponse, error) {
	p, err := s.pushed(r.GetPlan())
	if err != nil {
		return nil, err
	}
	return s.call(ctx, supervisor.Reload(r.GetHeader().GetIdempotencyKey(), r.GetHeader().GetTerm(), p))
}

func (s service) Signal(ctx context.Context, r *agentv1.SignalRequest) (*agentv1.CallResponse, error) {
	return s.call(ctx, supervisor.Signal(r.GetHeader().GetIdempotencyKey(), r.GetHeader().GetTerm(), r.GetSignal()))
}

// pushed reads the plan of a call; nil when it has none.
func (s service) pushed(data []byte) (*plan.Plan, error) {
	if len(data) == 0 {
		return nil, nil
	}
	p, err := s.parse(data)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return p, nil
}

func (s service) call(ctx context.Context, call supervisor.Call) (*agentv1.CallResponse, error) {
	record, err := s.process.Call(ctx, call)
	if err != nil {
		return nil, status.Error(CodeOf(err, codesOfCalls), err.Error())
	}
	return &agentv1.CallResponse{Call: record}, nil
}

// codesOfCalls are those of the errors of a call to the supervisor.
var codesOfCalls = []ErrorCode{
	{supervisor.ErrInvalid, codes.InvalidArgument},
	{supervisor.ErrBusy, codes.Aborted},
	{supervisor.ErrSecretsPending, codes.Aborted},
	{context.Canceled, codes.Canceled},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
}
