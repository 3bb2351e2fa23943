// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zeroinfra/agents/internal/mutualtls"
	"github.com/zeroinfra/agents/internal/processlog"
	"github.com/zeroinfra/agents/internal/server"
	"github.com/zeroinfra/agents/internal/testflood"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/writing"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// lonely are peers that never answer.
type lonely struct{}

func (lonely) Acknowledge(context.Context, string, int64) (*agentv1.AcknowledgeResponse, error) {
	return nil, status.Error(codes.Unavailable, "nobody is there")
}

func (lonely) Close() {}

// memberProcess is a process with a member.
type memberProcess struct {
	*process
	member *writing.Member
}

func (p memberProcess) Member() (*writing.Member, <-chan struct{}, error) { return p.member, nil, nil }

// FuzzCalls sends any bytes as the message of any method, over TLS, as an operator. Whatever comes, the server answers
// with a code, goes on serving, and forgets nothing that was promised.
func FuzzCalls(f *testing.F) {
	methods := []string{
		agentv1.ProcessService_GetStatus_FullMethodName, agentv1.ProcessService_Start_FullMethodName,
		agentv1.ProcessService_Stop_FullMethodName,
		agentv1.ProcessService_Restart_FullMethodName, agentv1.ProcessService_Reload_FullMethodName,
		agentv1.ProcessService_Signal_FullMethodName,
		agentv1.PermissionService_Acknowledge_FullMethodName, agentv1.PermissionService_Promise_FullMethodName,
		agentv1.PermissionService_Learn_FullMethodName, agentv1.PermissionService_GetMember_FullMethodName,
		agentv1.ProcessService_Capabilities_FullMethodName, agentv1.ProcessService_Logs_FullMethodName,
		agentv1.ProcessService_WatchStatus_FullMethodName,
		"/zeroinfra.agent.v1.ProcessService/Unknown", "/", "//x",
	}
	for n, message := range []proto.Message{
		&agentv1.GetStatusRequest{}, &agentv1.StartRequest{Header: header("a", 1)},
		&agentv1.StopRequest{Header: header("", 0)},
		&agentv1.RestartRequest{Header: header("b", 2), Plan: []byte("{}")}, &agentv1.ReloadRequest{Plan: []byte("digest 1")},
		&agentv1.SignalRequest{Signal: "SIGKILL"}, &agentv1.AcknowledgeRequest{Term: 1}, &agentv1.PromiseRequest{Term: -1},
		&agentv1.LearnRequest{Record: &agentv1.PrimaryRecord{Term: 3, Primary: &agentv1.Member{Name: "set-0"},
			List: &agentv1.MemberList{Version: 1,
				Members: []*agentv1.Member{{Name: "set-0"}, nil}}}},
		&agentv1.GetMemberRequest{}, &agentv1.CapabilitiesRequest{}, &agentv1.LogsRequest{TailBytes: 1 << 62, Follow: true},
		&agentv1.WatchStatusRequest{},
	} {
		data, err := proto.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(n), data)
	}
	f.Add(uint8(8), []byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add(uint8(3), []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x07})
	conn, member := fuzzed(f)
	f.Fuzz(func(t *testing.T, method uint8, message []byte) {
		before, err := member.Status()
		if err != nil {
			t.Fatal(err)
		}
		err = first(t.Context(), conn, methods[int(method)%len(methods)], message)
		if status.Code(err) == codes.Unknown {
			t.Errorf("an error without a code: %v", err)
		}
		after, err := member.Status()
		if err != nil || after.GetPromised() < before.GetPromised() || after.GetIdentity() != before.GetIdentity() ||
			after.GetWriting() {
			t.Errorf("the member was %v and is %v, %v", before, after, err)
		}
	})
}

// first sends a message to a method, and returns what comes of it: the end of the call, or nil once there is an answer.
// A method that streams would go on with that for as long as somebody listens.
func first(ctx context.Context, conn *grpc.ClientConn, method string, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method, grpc.ForceCodecV2(testflood.Raw{}))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(mem.BufferSlice{mem.SliceBuffer(message)}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	var answer []byte
	err = stream.RecvMsg(&answer)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// answersWithin is how long an answer is listened for: one that follows a log in which nothing is written has none.
const answersWithin = 100 * time.Millisecond

// fuzzed is a server with a member, and a connection to it.
func fuzzed(f *testing.F) (*grpc.ClientConn, *writing.Member) {
	f.Helper()
	member, err := writing.Open(writing.Config{Pod: "set-1", Set: "set", Dir: f.TempDir(), Peers: lonely{},
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(member.Close)
	ca, dir := testpki.New(f), f.TempDir()
	ca.MountLeaf(f, dir, testpki.Pod("set-1", "default"), ca)
	addresses := make(chan net.Addr, 2)
	ctx, cancel := context.WithCancel(f.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Config{Address: "127.0.0.1:0", Certificates: mutualtls.New(dir, slog.New(slog.DiscardHandler)),
			SocketPath: filepath.Join(dir, "s"),
			Reflection: server.NoReflection, Process: memberProcess{
				&process{status: &agentv1.ProcessStatus{}, changed: make(chan struct{})}, member},
			Memory: func() int64 { return 0 }, Tail: &processlog.Tail{}, Parse: planParser, Log: slog.New(slog.DiscardHandler),
			Listening: func(a net.Addr) { addresses <- a }}.Run(ctx)
	}()
	f.Cleanup(func() { cancel(); <-served })
	address := <-addresses
	if address.Network() != "tcp" {
		address = <-addresses
	}
	conn, err := grpc.NewClient(address.String(),
		grpc.WithTransportCredentials(credentials.NewTLS(ca.ClientConfig(f, ca, testpki.Client(testpki.Operator)))))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { conn.Close() })
	return conn, member
}
