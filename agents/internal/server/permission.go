// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/mutualtls"
	"github.com/zeroinfra/agents/internal/writing"
	"github.com/zeroinfra/platform-core/agentproto/permission"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// members serves who may write over TCP. The interceptors have seen to it that a pod calls Acknowledge, and an operator
// the rest.
type members struct {
	agentv1.UnimplementedPermissionServiceServer
	process      Process
	certificates *mutualtls.Certificates
}

// codesOfMembers are those of the errors of a member.
var codesOfMembers = []ErrorCode{
	{writing.ErrStale, codes.FailedPrecondition},
	{writing.ErrNotPeer, codes.PermissionDenied},
	{writing.ErrInvalid, codes.InvalidArgument},
	{writing.ErrMemberFile, codes.FailedPrecondition},
	{context.Canceled, codes.Canceled},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
}

func memberError(err error) error {
	return status.Error(CodeOf(err, codesOfMembers), err.Error())
}

// memberOf is the member of the pod, or says why there is none.
func memberOf(p Process) (*writing.Member, error) {
	m, _, err := p.Member()
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return m, nil
}

func (s members) Acknowledge(ctx context.Context, r *agentv1.AcknowledgeRequest) (*agentv1.AcknowledgeResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	own, err := s.certificates.Own()
	if err != nil || caller.Namespace != own.Namespace {
		return nil, status.Errorf(codes.PermissionDenied, "%s is not in the namespace of this pod", caller)
	}
	m, err := memberOf(s.process)
	if err != nil {
		return nil, err
	}
	answer, err := m.Acknowledge(ctx, caller.Pod, r.GetTerm())
	if err != nil {
		return nil, memberError(err)
	}
	return answer, nil
}

func (s members) Promise(ctx context.Context, r *agentv1.PromiseRequest) (*agentv1.MemberStatus, error) {
	return s.answer(func(m *writing.Member) (*agentv1.MemberStatus, error) { return m.Promise(ctx, r.GetTerm()) })
}

func (s members) Learn(ctx context.Context, r *agentv1.LearnRequest) (*agentv1.MemberStatus, error) {
	return s.answer(func(m *writing.Member) (*agentv1.MemberStatus, error) {
		return m.Learn(ctx, recordOf(r.GetRecord()))
	})
}

func (s members) GetMember(context.Context, *agentv1.GetMemberRequest) (*agentv1.MemberStatus, error) {
	return s.answer((*writing.Member).Status)
}

func (s members) answer(call func(*writing.Member) (*agentv1.MemberStatus, error)) (*agentv1.MemberStatus, error) {
	m, err := memberOf(s.process)
	if err != nil {
		return nil, err
	}
	answer, err := call(m)
	if err != nil {
		return nil, memberError(err)
	}
	return answer, nil
}

// reads serves the status agent over the unix socket.
type reads struct {
	agentv1.UnimplementedPermissionServiceServer
	process Process
	// closing ends the streams when the server ends.
	closing <-chan struct{}
}

// errNoReads is told at the end; the status agent asks again.
var errNoReads = status.Error(codes.Unavailable, "the process manager is shutting down")

func (s reads) GetMember(ctx context.Context, r *agentv1.GetMemberRequest) (*agentv1.MemberStatus, error) {
	return members{process: s.process}.GetMember(ctx, r)
}

func (s reads) WatchReads(_ *agentv1.WatchReadsRequest, stream grpc.ServerStreamingServer[agentv1.WantedRead]) error {
	for {
		m, another, err := s.process.Member()
		var more <-chan struct{}
		if err == nil {
			var wanted *agentv1.WantedRead
			if wanted, more = m.Reads(); wanted != nil {
				if err := stream.Send(wanted); err != nil {
					return err
				}
			}
		}
		select {
		case <-another:
		case <-more:
		case <-s.closing:
			return errNoReads
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

func (s reads) AnswerRead(_ context.Context, r *agentv1.AnswerReadRequest) (*agentv1.AnswerReadResponse, error) {
	m, err := memberOf(s.process)
	if err != nil {
		return nil, err
	}
	if err := m.AnswerRead(r.GetId(), recordOf(r.GetRecord()), r.GetError()); err != nil {
		return nil, memberError(err)
	}
	return &agentv1.AnswerReadResponse{}, nil
}

// recordOf reads a record from the wire; the zero record where there is none.
func recordOf(r *agentv1.PrimaryRecord) permission.Record {
	record := permission.Record{Term: r.GetTerm()}
	if p := r.GetPrimary(); p != nil {
		record.Primary = new(memberFrom(p))
	}
	if l := r.GetList(); l != nil {
		record.List = listOf(l)
	}
	if l := r.GetPrevious(); l != nil {
		record.Previous = new(listOf(l))
	}
	return record
}

func memberFrom(m *agentv1.Member) permission.Member {
	return permission.Member{Name: m.GetName(), Identity: m.GetIdentity()}
}

func listOf(l *agentv1.MemberList) permission.List {
	list := permission.List{Version: l.GetVersion(), SynchronousReplicas: int(l.GetSynchronousReplicas())}
	for _, m := range l.GetMembers() {
		list.Members = append(list.Members, memberFrom(m))
	}
	return list
}
