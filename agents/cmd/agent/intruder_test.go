// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"context"
	"crypto/x509"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/testpki"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// TestPeersMayOnlyAskForAnAcknowledgement and nobody else may do that.
func TestPeersMayOnlyAskForAnAcknowledgement(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	s.bootstrap()
	primary, follower := s.members[0], s.members[1]
	follower.says("follower " + primary.fqdn())
	as := func(l testpki.Leaf) *grpc.ClientConn {
		return follower.dialAs(s.ca.ClientConfig(t, s.ca, l))
	}
	acknowledge := func(conn grpc.ClientConnInterface, term int64) error {
		_, err := agentv1.NewPermissionServiceClient(conn).Acknowledge(follower.ctx(),
			&agentv1.AcknowledgeRequest{Term: term}, grpc.WaitForReady(false))
		return err
	}
	peer := as(testpki.Pod(primary.name, namespaced))
	if err := acknowledge(peer, 1); err != nil {
		t.Fatalf("the primary itself is refused: %v", err)
	}
	for what, test := range map[string]struct {
		leaf testpki.Leaf
		term int64
		want codes.Code
	}{
		"another pod of the set": {testpki.Pod(setName+"-7", namespaced), 1, codes.PermissionDenied},
		"another set":            {testpki.Pod("kv-node-b-0", namespaced), 2, codes.PermissionDenied},
		"a longer name":          {testpki.Pod(setName+"-x-0", namespaced), 2, codes.PermissionDenied},
		"the pod itself":         {testpki.Pod(follower.name, namespaced), 2, codes.PermissionDenied},
		"another namespace":      {testpki.Pod(primary.name, "other"), 1, codes.PermissionDenied},
		"an operator":            {testpki.Client(testpki.Operator), 1, codes.PermissionDenied},
		"no term":                {testpki.Pod(primary.name, namespaced), 0, codes.InvalidArgument},
		"a negative term":        {testpki.Pod(primary.name, namespaced), -1, codes.InvalidArgument},
		"a name of something else": {testpki.Leaf{Usages: testpki.Pod("", "").Usages, Names: []string{"example.com"}}, 1,
			codes.Unavailable},
		"a certificate for a server": {testpki.Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			Names: testpki.Pod(primary.name, namespaced).Names}, 1, codes.Unavailable},
	} {
		if err := acknowledge(as(test.leaf), test.term); status.Code(err) != test.want {
			t.Errorf("%s: %v, want %v", what, err, test.want)
		}
	}
	foreign := testpki.New(t)
	if err := acknowledge(follower.dialAs(s.ca.ClientConfig(t, foreign, testpki.Pod(primary.name, namespaced))),
		1); status.Code(err) != codes.Unavailable {
		t.Errorf("a foreign CA: %v", err)
	}
	for what, call := range peersCalls(follower.ctx(), peer) {
		if err := call(); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "may not call") {
			t.Errorf("a peer calls %s: %v", what, err)
		}
	}
	if got := follower.status(); got.GetPromised() != 1 {
		t.Errorf("an intruder changed what was promised: %v", got)
	}
}

// peersCalls are all other calls that the server knows.
func peersCalls(ctx context.Context, conn *grpc.ClientConn) map[string]func() error {
	permissions, processes := agentv1.NewPermissionServiceClient(conn), agentv1.NewProcessServiceClient(conn)
	header := &agentv1.CallHeader{IdempotencyKey: "peer"}
	return map[string]func() error{
		"Promise":    func() error { _, err := permissions.Promise(ctx, &agentv1.PromiseRequest{Term: 9}); return err },
		"Learn":      func() error { _, err := permissions.Learn(ctx, &agentv1.LearnRequest{}); return err },
		"GetMember":  func() error { _, err := permissions.GetMember(ctx, &agentv1.GetMemberRequest{}); return err },
		"AnswerRead": func() error { _, err := permissions.AnswerRead(ctx, &agentv1.AnswerReadRequest{}); return err },
		"WatchReads": func() error {
			stream, err := permissions.WatchReads(ctx, &agentv1.WatchReadsRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"GetStatus": func() error { _, err := processes.GetStatus(ctx, &agentv1.GetStatusRequest{}); return err },
		"WatchStatus": func() error {
			stream, err := processes.WatchStatus(ctx, &agentv1.WatchStatusRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"Start":   func() error { _, err := processes.Start(ctx, &agentv1.StartRequest{Header: header}); return err },
		"Stop":    func() error { _, err := processes.Stop(ctx, &agentv1.StopRequest{Header: header}); return err },
		"Restart": func() error { _, err := processes.Restart(ctx, &agentv1.RestartRequest{Header: header}); return err },
		"Reload":  func() error { _, err := processes.Reload(ctx, &agentv1.ReloadRequest{Header: header}); return err },
		"Signal":  func() error { _, err := processes.Signal(ctx, &agentv1.SignalRequest{Header: header}); return err },
		"Health": func() error {
			_, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
			return err
		},
	}
}
