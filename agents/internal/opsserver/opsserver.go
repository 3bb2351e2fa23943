// SPDX-License-Identifier: Apache-2.0

// Package opsserver serves the actions of a pod to operators.
package opsserver

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/action"
	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/entity"
	"github.com/zeroinfra/agents/internal/hold"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/server"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// Server serves the actions of a pod.
type Server struct {
	// Runner of the actions.
	Runner *action.Runner
	// Entities inside the middleware.
	Entities *entity.Keeper
	// Holds of the middleware.
	Holds *hold.Keeper
	// Process tells how the process is now.
	Process Process
	// Version of the agent.
	Version string
}

// Process is who tells how the process of the pod is.
type Process interface {
	// Status returns the present status.
	Status(ctx context.Context) (*agentv1.ProcessStatus, error)
}

// Run serves at the endpoint until the context ends.
func (o Server) Run(ctx context.Context, e server.Endpoint) {
	e.Run(ctx, func(s *grpc.Server) string {
		agentv1.RegisterOpsServiceServer(s, service{Server: o, closing: ctx.Done()})
		return agentv1.OpsService_ServiceDesc.ServiceName
	})
}

type service struct {
	agentv1.UnimplementedOpsServiceServer
	Server
	// closing ends the streams when the server ends.
	closing <-chan struct{}
}

func (s service) Capabilities(context.Context, *agentv1.CapabilitiesRequest) (*agentv1.CapabilitiesResponse, error) {
	p, err := s.Runner.Plan()
	if err != nil {
		return nil, status.Error(server.CodeOf(err, codesOfActions), err.Error())
	}
	actions := slices.Clone(p.Actions)
	slices.SortFunc(actions, func(a, b plan.Action) int { return strings.Compare(a.Name, b.Name) })
	response := &agentv1.CapabilitiesResponse{Version: s.Version, Names: agentv1.OpsCapabilityNames()}
	for _, a := range actions {
		response.Actions = append(response.Actions, &agentv1.ActionInfo{
			Name: a.Name, Description: a.Description,
			Parameters: slices.Sorted(maps.Keys(a.Parameters)), Outputs: slices.Sorted(maps.Keys(a.Outputs)),
			TimeoutSeconds: int32(planfile.Seconds(a.TimeoutSeconds, plan.DefaultActionSeconds) / time.Second),
		})
	}
	for _, t := range p.Entities {
		response.EntityTypes = append(response.EntityTypes, t.Type)
	}
	slices.Sort(response.EntityTypes)
	if p.Driver != nil {
		response.Protocol = p.Driver.Protocol
	}
	return response, nil
}

func (s service) Run(r *agentv1.RunRequest, stream grpc.ServerStreamingServer[agentv1.RunUpdate]) error {
	run, err := s.Runner.Run(action.Call{
		Key: r.GetHeader().GetIdempotencyKey(), Term: r.GetHeader().GetTerm(), Action: r.GetAction(),
		Parameters: r.GetParameters(), Timeout: time.Duration(r.GetTimeoutMs()) * time.Millisecond,
	})
	if err != nil {
		return status.Error(server.CodeOf(err, codesOfActions), err.Error())
	}
	pieces, stop := run.Listen()
	defer stop()
	first := run.Record()
	if err := stream.Send(recordUpdate(first)); err != nil || first.Phase != callrecord.Running {
		return err
	}
	for {
		select {
		case piece := <-pieces:
			if err := stream.Send(outputUpdate(piece)); err != nil {
				return err
			}
		case <-run.Done():
			return s.finish(run, pieces, stream)
		case <-s.closing:
			return status.Error(codes.Unavailable, "the ops agent is shutting down")
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// finish sends what is left of the output, and the outcome.
func (s service) finish(run *action.Run, pieces <-chan action.Piece,
	stream grpc.ServerStreamingServer[agentv1.RunUpdate]) error {
	for len(pieces) > 0 {
		if err := stream.Send(outputUpdate(<-pieces)); err != nil {
			return err
		}
	}
	return stream.Send(recordUpdate(run.Record()))
}

func outputUpdate(p action.Piece) *agentv1.RunUpdate {
	output := &agentv1.Output{Stdout: p.Data}
	if p.Stream == command.Stderr {
		output = &agentv1.Output{Stderr: p.Data}
	}
	return &agentv1.RunUpdate{Update: &agentv1.RunUpdate_Output{Output: output}}
}

var actionPhases = map[callrecord.Phase]agentv1.CallPhase{
	callrecord.Running:     agentv1.CallPhase_CALL_PHASE_RUNNING,
	callrecord.Succeeded:   agentv1.CallPhase_CALL_PHASE_SUCCEEDED,
	callrecord.Failed:      agentv1.CallPhase_CALL_PHASE_FAILED,
	callrecord.Interrupted: agentv1.CallPhase_CALL_PHASE_INTERRUPTED,
}

func recordUpdate(r callrecord.Record) *agentv1.RunUpdate {
	return &agentv1.RunUpdate{Update: &agentv1.RunUpdate_Call{
		Call: &agentv1.ActionRecord{Record: callRecord(r), Outputs: r.Outputs}}}
}

func callRecord(r callrecord.Record) *agentv1.CallRecord {
	return &agentv1.CallRecord{IdempotencyKey: r.Key, Method: r.Method, Phase: actionPhases[r.Phase], Message: r.Message,
		Reason: r.Reason}
}

// codesOfActions are those of the errors of running an action.
var codesOfActions = []server.ErrorCode{
	{Err: action.ErrParameters, Code: codes.InvalidArgument},
	{Err: action.ErrUnknown, Code: codes.NotFound},
	{Err: entity.ErrUnknown, Code: codes.NotFound},
	{Err: entity.ErrRequest, Code: codes.InvalidArgument},
	{Err: hold.ErrUnknown, Code: codes.NotFound},
	{Err: hold.ErrRequest, Code: codes.InvalidArgument},
	{Err: hold.ErrBusy, Code: codes.Aborted},
	// To be called again: another answer than that of an agent that cannot be reached.
	{Err: entity.ErrMiddleware, Code: codes.Aborted},
}
