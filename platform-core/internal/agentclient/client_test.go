// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	"github.com/zeroinfra/platform-core/internal/pki"
)

// manager is a process manager that answers from a record by key, as the protocol demands.
type manager struct {
	agentv1.UnimplementedProcessServiceServer
	records map[string]*agentv1.CallRecord
	plans   []string
	// terms that calls were made in.
	terms  []uint64
	refuse error
	// watched has a watch send again.
	watched chan struct{}
}

func (m *manager) WatchStatus(_ *agentv1.WatchStatusRequest,
	stream grpc.ServerStreamingServer[agentv1.ProcessStatus]) error {
	if err := stream.Send(&agentv1.ProcessStatus{}); err != nil {
		return err
	}
	select {
	case <-m.watched:
		return stream.Send(&agentv1.ProcessStatus{})
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func (m *manager) GetStatus(context.Context, *agentv1.GetStatusRequest) (*agentv1.ProcessStatus, error) {
	return &agentv1.ProcessStatus{State: agentv1.ProcessState_PROCESS_STATE_RUNNING, Starts: int64(1 + len(m.records))},
		nil
}

func (m *manager) Restart(_ context.Context, request *agentv1.RestartRequest) (*agentv1.CallResponse, error) {
	if m.refuse != nil {
		return nil, m.refuse
	}
	key := request.GetHeader().GetIdempotencyKey()
	if known := m.records[key]; known != nil {
		return &agentv1.CallResponse{Call: &agentv1.CallRecord{IdempotencyKey: key,
			Phase: agentv1.CallPhase_CALL_PHASE_SUCCEEDED}}, nil
	}
	m.plans, m.terms = append(m.plans, string(request.GetPlan())), append(m.terms, request.GetHeader().GetTerm())
	m.records[key] = &agentv1.CallRecord{IdempotencyKey: key, Method: "Restart",
		Phase: agentv1.CallPhase_CALL_PHASE_RUNNING}
	return &agentv1.CallResponse{Call: m.records[key]}, nil
}

func newAuthority(t *testing.T) *pki.Authority {
	t.Helper()
	data, err := pki.Generate("database", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.Parse("database", data)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// serve runs a process manager for the pod behind mutual TLS and returns its port.
func serve(t *testing.T, authority *pki.Authority, m agentv1.ProcessServiceServer, address, serverName string) int {
	t.Helper()
	return serveOn(t, authority, m, address, serverName, func(l net.Listener) net.Listener { return l })
}

// serveOn does so on another listener around the one it makes.
func serveOn(t *testing.T, authority *pki.Authority, m agentv1.ProcessServiceServer, address, serverName string,
	around func(net.Listener) net.Listener) int {
	t.Helper()
	certPEM, keyPEM, _, err := authority.IssueServer([]string{serverName}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.Bundle())
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13,
	})))
	agentv1.RegisterProcessServiceServer(server, m)
	agentv1.RegisterOpsServiceServer(server, &opsAgent{records: map[string]*agentv1.RunRequest{}})
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(around(listener)) }()
	t.Cleanup(server.Stop)
	return listener.Addr().(*net.TCPAddr).Port
}

func podAt(name, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-of-" + name)},
		Status:     corev1.PodStatus{PodIP: ip},
	}
}

func dial(t *testing.T, authority *pki.Authority, port int, pod *corev1.Pod) (*Connections, Process) {
	t.Helper()
	connections := New(authority, WithPort(port))
	t.Cleanup(connections.Close)
	p, err := connections.Dial(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	return connections, p
}

func TestRestartReachesTheAgentOncePerKey(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "::1"} {
		t.Run(ip, func(t *testing.T) {
			authority := newAuthority(t)
			m := &manager{records: map[string]*agentv1.CallRecord{}}
			port := serve(t, authority, m, ip, pki.AgentServerName("pod-0", "team"))
			_, p := dial(t, authority, port, podAt("pod-0", ip))
			first, err := p.Restart(t.Context(), "op/restart/1", []byte(`{"version":1}`))
			if err != nil {
				t.Fatal(err)
			}
			if want := (report.Call{Key: "op/restart/1", Phase: report.CallRunning}); first != want {
				t.Errorf("first answer is %+v, want %+v", first, want)
			}
			again, err := p.Restart(t.Context(), "op/restart/1", nil)
			if err != nil {
				t.Fatal(err)
			}
			if again.Phase != report.CallSucceeded {
				t.Errorf("second answer has phase %q, want %q", again.Phase, report.CallSucceeded)
			}
			if len(m.plans) != 1 || m.plans[0] != `{"version":1}` {
				t.Errorf("the agent took the plans %q, want the one of the first call", m.plans)
			}
			state, err := p.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if state.GetStarts() != 2 {
				t.Errorf("starts = %d, want 2", state.GetStarts())
			}
		})
	}
}

// TestCallsSayTheirTerm, where they have one.
func TestCallsSayTheirTerm(t *testing.T) {
	authority := newAuthority(t)
	m := &manager{records: map[string]*agentv1.CallRecord{}}
	_, p := dial(t, authority, serve(t, authority, m, "127.0.0.1", pki.AgentServerName("pod-0", "team")),
		podAt("pod-0", "127.0.0.1"))
	for key, ctx := range map[string]context.Context{"with": Within(t.Context(), 7), "without": t.Context()} {
		m.terms = nil
		_, err := p.Restart(ctx, key, nil)
		if want := map[string]uint64{"with": 7}[key]; err != nil || !slices.Equal(m.terms, []uint64{want}) {
			t.Errorf("a call %s a term says %v: %v", key, m.terms, err)
		}
	}
}

func TestOnlyTheRightPeersMeet(t *testing.T) {
	authority, foreign := newAuthority(t), newAuthority(t)
	m := &manager{records: map[string]*agentv1.CallRecord{}}
	port := serve(t, authority, m, "127.0.0.1", pki.AgentServerName("pod-0", "team"))
	for _, tc := range []struct {
		name      string
		authority *pki.Authority
		pod       string
	}{
		{"foreign authority", foreign, "pod-0"},
		{"server of another pod", authority, "pod-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, p := dial(t, tc.authority, port, podAt(tc.pod, "127.0.0.1"))
			_, err := p.Restart(t.Context(), "k", nil)
			if err == nil {
				t.Fatal("the call succeeds")
			}
			if IsRefused(err) || IsAlive(err) || !strings.Contains(err.Error(), tc.pod+"-agent") {
				t.Errorf("error is %v, want one to repeat that names Secret %s-agent", err, tc.pod)
			}
		})
	}
	t.Run("no certificate", func(t *testing.T) {
		config := authority.ClientTLS(pki.AgentServerName("pod-0", "team"))
		config.GetClientCertificate = nil
		conn, err := grpc.NewClient("passthrough:///"+net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
			grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := agentv1.NewProcessServiceClient(conn).GetStatus(t.Context(), &agentv1.GetStatusRequest{}); err == nil {
			t.Error("a client without a certificate is served")
		}
	})
	if len(m.records) != 0 {
		t.Errorf("the agent took %d calls of strangers", len(m.records))
	}
}

func TestErrorsSayWhetherToRepeat(t *testing.T) {
	authority := newAuthority(t)
	m := &manager{records: map[string]*agentv1.CallRecord{}}
	port := serve(t, authority, m, "127.0.0.1", pki.AgentServerName("pod-0", "team"))
	_, p := dial(t, authority, port, podAt("pod-0", "127.0.0.1"))

	m.refuse = status.Error(codes.FailedPrecondition, "term 3 is older than 4")
	_, err := p.Restart(t.Context(), "k", nil)
	if !IsRefused(err) || !strings.Contains(err.Error(), "term 3 is older than 4") ||
		!strings.Contains(err.Error(), "team/pod-0") {
		t.Errorf("a refusal gave %v", err)
	}
	m.refuse = status.Error(codes.Unavailable, "going down")
	if _, err = p.Restart(t.Context(), "k", nil); err == nil || IsRefused(err) || IsAlive(err) {
		t.Errorf("an agent that goes down gave %v, want an error to repeat", err)
	}
	// Who refuses is there, whether or not it is of use to call again.
	for code, refuses := range map[codes.Code]bool{codes.FailedPrecondition: true, codes.PermissionDenied: false,
		codes.Unauthenticated: false, codes.Aborted: false} {
		m.refuse = status.Error(code, "no")
		if _, err = p.Restart(t.Context(), "k", nil); !IsAlive(err) || IsRefused(err) != refuses {
			t.Errorf("an agent that answers %s gave %v", code, err)
		}
	}
	if _, err = p.Reload(t.Context(), "k", nil); !IsRefused(err) || !strings.Contains(ProblemOf(err), "too old") {
		t.Errorf("a method that the agent does not know gave %v", err)
	}
	var e *Error
	if _, err = New(authority).Dial(t.Context(), podAt("pod-9", "")); !errors.As(err, &e) || e.Kind != Unreachable {
		t.Errorf("a pod without an address gave %v", err)
	}
}

func TestADeadAgentIsToldByAStableSentence(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	_, p := dial(t, newAuthority(t), port, podAt("pod-0", "127.0.0.1"))
	_, first := p.Restart(t.Context(), "k", nil)
	_, second := p.Restart(t.Context(), "k", nil)
	if first == nil || second == nil {
		t.Fatal("a call without an agent succeeds")
	}
	if IsRefused(first) || ProblemOf(first) != ProblemOf(second) ||
		!strings.Contains(ProblemOf(first), "no connection to 127.0.0.1") {
		t.Errorf("problems are %q and %q", ProblemOf(first), ProblemOf(second))
	}
}

func TestACallOfASilentAgentEnds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, p := dial(t, newAuthority(t), listener.Addr().(*net.TCPAddr).Port, podAt("pod-0", "127.0.0.1"))
	// The first call waits for the connection, the next one may be told what became of that.
	for range 2 {
		_, err = p.Status(t.Context())
		if err == nil || IsRefused(err) || IsAlive(err) || !strings.Contains(ProblemOf(err), "no answer from 127.0.0.1") {
			t.Errorf("an agent that accepts and says nothing gave %v", err)
		}
	}
}

func TestConnectionsAreKeptAndForgotten(t *testing.T) {
	authority := newAuthority(t)
	m := &manager{records: map[string]*agentv1.CallRecord{}}
	port := serve(t, authority, m, "127.0.0.1", pki.AgentServerName("pod-0", "team"))
	pod := podAt("pod-0", "127.0.0.2")
	connections, p := dial(t, authority, port, pod)
	if _, err := p.Status(t.Context()); err == nil {
		t.Fatal("nobody listens at the first address, and the call succeeds")
	}
	pod.Status.PodIP = "127.0.0.1"
	p, err := connections.Dial(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Status(t.Context()); err != nil {
		t.Errorf("after the pod's address changed: %v", err)
	}
	if got := connections.Len(); got != 1 {
		t.Errorf("%d connections to one pod", got)
	}
	connections.Handler().OnDelete(cache.DeletedFinalStateUnknown{Obj: pod})
	if got := connections.Len(); got != 0 {
		t.Errorf("%d connections after the pod went", got)
	}
}
