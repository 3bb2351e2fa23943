// SPDX-License-Identifier: Apache-2.0

package opsserver_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zeroinfra/agents/internal/action"
	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/entity"
	"github.com/zeroinfra/agents/internal/hold"
	"github.com/zeroinfra/agents/internal/mutualtls"
	"github.com/zeroinfra/agents/internal/opsserver"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/server"
	"github.com/zeroinfra/agents/internal/testflood"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// starter starts nothing: a fuzzer has processes of its own, which a reaper would take from it.
type starter struct{ escaped atomic.Bool }

// Start implements command.Starter.
func (s *starter) Start(spec reaper.Spec) (*reaper.Process, error) {
	if len(spec.Command) != 2 || spec.Command[0] != "echo" {
		s.escaped.Store(true)
	}
	return nil, errors.New("nothing is started here")
}

// FuzzCalls sends any bytes as the message of any method, over TLS, as an operator. Whatever comes, the server answers
// with a code and goes on serving, and a parameter is never more than one word of the command that was declared.
func FuzzCalls(f *testing.F) {
	methods := []string{
		agentv1.OpsService_Capabilities_FullMethodName, agentv1.OpsService_Run_FullMethodName,
		agentv1.OpsService_ObserveEntities_FullMethodName,
		agentv1.OpsService_ChangeEntities_FullMethodName, agentv1.OpsService_Hold_FullMethodName,
		agentv1.OpsService_Release_FullMethodName,
		"/zeroinfra.agent.v1.OpsService/Unknown",
	}
	header := &agentv1.CallHeader{IdempotencyKey: "a", Term: 1}
	for n, message := range []proto.Message{
		&agentv1.CapabilitiesRequest{},
		&agentv1.RunRequest{Header: header, Action: "say",
			Parameters: map[string]string{"word": "$(touch escaped); touch escaped"}},
		&agentv1.ObserveEntitiesRequest{}, &agentv1.ChangeEntitiesRequest{Header: header},
		&agentv1.HoldRequest{Header: header, Freeze: "say", LeaseMs: 1000}, &agentv1.ReleaseRequest{Header: header},
	} {
		data, err := proto.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(n), data)
	}
	f.Add(uint8(1), []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x07})
	conn, started := fuzzed(f)
	f.Fuzz(func(t *testing.T, method uint8, message []byte) {
		var answer []byte
		err := conn.Invoke(t.Context(), methods[int(method)%len(methods)], mem.BufferSlice{mem.SliceBuffer(message)}, &answer,
			grpc.ForceCodecV2(testflood.Raw{}))
		if status.Code(err) == codes.Unknown {
			t.Errorf("an error without a code: %v", err)
		}
		can, err := agentv1.NewOpsServiceClient(conn).Capabilities(t.Context(), &agentv1.CapabilitiesRequest{})
		if err != nil || len(can.GetActions()) != 1 || can.GetActions()[0].GetName() != "say" {
			t.Errorf("it can %v, %v", can, err)
		}
		if started.escaped.Load() {
			t.Error("a parameter was more than a word")
		}
	})
}

// nobody is a process manager that is not there.
type nobody struct{}

// Status implements opsserver.Process.
func (nobody) Status(context.Context) (*agentv1.ProcessStatus, error) {
	return nil, errors.New("nobody is there")
}

// fuzzed is a server with one action, a connection to it, and what starts its commands.
func fuzzed(f *testing.F) (*grpc.ClientConn, *starter) {
	f.Helper()
	dirs := testpod.Dirs(f, "set-1", plan.Plan{Actions: []plan.Action{{
		Name: "say", Command: []string{"echo", "${parameters.word}"}, Parameters: map[string]string{"word": "string"},
	}}})
	ca, tlsDir := testpki.New(f), f.TempDir()
	ca.MountLeaf(f, tlsDir, testpki.Pod("set-1", "default"), ca)
	log := slog.New(slog.DiscardHandler)
	store, err := callrecord.OpenActions(dirs.Run)
	if err != nil {
		f.Fatal(err)
	}
	started := &starter{}
	runner := action.New(dirs, action.NewSecrets(dirs).Lookup, started, store, log)
	f.Cleanup(runner.Close)
	holds, err := hold.Open(dirs.Run, runner, log)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(holds.Close)
	addresses := make(chan net.Addr, 1)
	ctx, cancel := context.WithCancel(f.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		opsserver.Server{Runner: runner, Entities: entity.New(runner), Holds: holds, Process: nobody{},
			Version: "fuzz"}.Run(ctx,
			server.Endpoint{Address: "127.0.0.1:0",
				Certificates: mutualtls.New(tlsDir, log), Reflection: server.NoReflection, Log: log,
				Listening: func(a net.Addr) { addresses <- a }})
	}()
	f.Cleanup(func() { cancel(); <-served })
	conn, err := grpc.NewClient((<-addresses).String(),
		grpc.WithTransportCredentials(credentials.NewTLS(ca.ClientConfig(f, ca, testpki.Client(testpki.Operator)))))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { conn.Close() })
	return conn, started
}
