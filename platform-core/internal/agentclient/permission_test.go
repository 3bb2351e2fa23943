// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	"github.com/zeroinfra/platform-core/internal/pki"
)

// fencedPod answers about who may write, from what it has promised.
type fencedPod struct {
	agentv1.UnimplementedPermissionServiceServer
	promised int64
	learnt   *agentv1.PrimaryRecord
	// hangs has every call wait until its caller gives up.
	hangs bool
}

func (f *fencedPod) answer(ctx context.Context) (*agentv1.MemberStatus, error) {
	if f.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &agentv1.MemberStatus{Name: "pod-0", Identity: "i", Promised: f.promised}, nil
}

func (f *fencedPod) Promise(ctx context.Context, r *agentv1.PromiseRequest) (*agentv1.MemberStatus, error) {
	if r.GetTerm() < f.promised {
		return nil, status.Errorf(codes.FailedPrecondition, "term %d was promised", f.promised)
	}
	f.promised = r.GetTerm()
	return f.answer(ctx)
}

func (f *fencedPod) Learn(ctx context.Context, r *agentv1.LearnRequest) (*agentv1.MemberStatus, error) {
	f.learnt = r.GetRecord()
	return f.answer(ctx)
}

func (f *fencedPod) GetMember(ctx context.Context, _ *agentv1.GetMemberRequest) (*agentv1.MemberStatus, error) {
	return f.answer(ctx)
}

func TestPermission(t *testing.T) {
	authority := newAuthority(t)
	certificate, key, _, err := authority.IssueServer([]string{pki.AgentServerName("pod-0", "team")}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.Bundle())
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13,
	})))
	pod := &fencedPod{promised: 3}
	agentv1.RegisterPermissionServiceServer(server, pod)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connections := New(authority, WithPort(listener.Addr().(*net.TCPAddr).Port))
	t.Cleanup(connections.Close)
	p, err := connections.DialPermission(t.Context(), podAt("pod-0", "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Promise(t.Context(), 4); err != nil || got.GetPromised() != 4 || got.GetIdentity() != "i" {
		t.Errorf("Promise: %v, %v", got, err)
	}
	if _, err := p.Promise(t.Context(), 2); !IsRefused(err) {
		t.Errorf("an old term: %v", err)
	}
	learnt := &agentv1.PrimaryRecord{Term: 4, Primary: &agentv1.Member{Name: "pod-1"}}
	if _, err := p.Learn(t.Context(), learnt); err != nil || pod.learnt.GetPrimary().GetName() != "pod-1" {
		t.Errorf("Learn: %v, %v", pod.learnt, err)
	}
	pod.hangs = true
	if _, err := p.Member(t.Context()); err == nil || IsRefused(err) {
		t.Errorf("an agent that hangs: %v", err)
	}
	if _, err := connections.DialPermission(t.Context(), podAt("pod-1", "")); err == nil {
		t.Error("a pod without an address can be called")
	}
}
