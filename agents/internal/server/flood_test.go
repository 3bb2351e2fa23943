// SPDX-License-Identifier: Apache-2.0

//go:build processes

package server_test

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/testflood"
	"github.com/zeroinfra/agents/internal/testpki"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// TestAMessageOfAGibibyteIsRefused without being taken in.
func TestAMessageOfAGibibyteIsRefused(t *testing.T) {
	p := serve(t, nil)
	ca := testpki.New(t)
	ca.Mount(t, p.tlsDir, ca)
	conn := dial(t, p.address("tcp").String(),
		credentials.NewTLS(ca.ClientConfig(t, ca, testpki.Client(testpki.Operator))))
	before := heap()
	err := testflood.Gibibyte(deadline(t), conn, agentv1.ProcessService_Restart_FullMethodName)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
	if grown := heap() - before; grown > 64<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	if _, err := agentv1.NewProcessServiceClient(conn).GetStatus(deadline(t), &agentv1.GetStatusRequest{}); err != nil {
		t.Errorf("the server is gone: %v", err)
	}
	if got := p.process.called(); len(got) != 0 {
		t.Errorf("the call got through: %v", got)
	}
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse)
}

// TestAFloodOfConnectionsIsRefused: those that never say who they are do not keep an operator out for long, and are not
// kept.
func TestAFloodOfConnectionsIsRefused(t *testing.T) {
	p := serve(t, nil)
	ca := testpki.New(t)
	ca.Mount(t, p.tlsDir, ca)
	address := p.address("tcp").String()
	// Connected before, as the other members are.
	known := connect(t, mustResolve(t, address), ca.ClientConfig(t, ca, testpki.Client(testpki.Operator)))
	if _, err := known.GetStatus(deadline(t), &agentv1.GetStatusRequest{}); err != nil {
		t.Fatal(err)
	}
	closed := testflood.Silent(t, address, 1000)
	begin := time.Now()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := known.GetStatus(ctx, &agentv1.GetStatusRequest{}); err != nil {
			t.Errorf("a call on a connection from before: %v", err)
		}
		cancel()
	}
	fresh := agentv1.NewProcessServiceClient(
		dial(t, address, credentials.NewTLS(ca.ClientConfig(t, ca, testpki.Client(testpki.Operator)))))
	if _, err := fresh.GetStatus(deadline(t), &agentv1.GetStatusRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Errorf("a new connection: %v", err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("an operator was kept out for %v", took)
	}
	closed()
}

func mustResolve(t *testing.T, address string) net.Addr {
	t.Helper()
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// TestAFloodOfCallsIsServedInTurns: one connection has at most so many calls under way, and the others are served
// beside it.
func TestAFloodOfCallsIsServedInTurns(t *testing.T) {
	p := serve(t, nil)
	ca := testpki.New(t)
	ca.Mount(t, p.tlsDir, ca)
	address := p.address("tcp")
	config := ca.ClientConfig(t, ca, testpki.Client(testpki.Operator))
	greedy := connect(t, address, config)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watching sync.WaitGroup
	got := make(chan struct{}, 1000)
	for range 200 {
		watching.Go(func() {
			stream, err := greedy.WatchStatus(ctx, &agentv1.WatchStatusRequest{})
			if err != nil {
				return
			}
			if _, err := stream.Recv(); err == nil {
				got <- struct{}{}
				_, _ = stream.Recv()
			}
		})
	}
	for range 64 {
		<-got
	}
	if _, err := connect(t, address, config).GetStatus(deadline(t), &agentv1.GetStatusRequest{}); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	if len(got) != 0 {
		t.Errorf("%d more than 64 calls are served at once", len(got))
	}
	cancel()
	watching.Wait()
}

// TestAWatcherDoesNotHoldUpTheEnd of the server, which has a second for calls under way.
func TestAWatcherDoesNotHoldUpTheEnd(t *testing.T) {
	p := serve(t, nil)
	c := agentv1.NewProcessServiceClient(dial(t, "unix:"+p.address("unix").String(), insecure.NewCredentials()))
	stream, err := c.WatchStatus(deadline(t), &agentv1.WatchStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	p.stop()
	<-p.stopped
	if took := time.Since(begin); took > 900*time.Millisecond {
		t.Errorf("a watcher holds the end of the server up for %v", took)
	}
}
