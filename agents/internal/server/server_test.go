// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/mutualtls"
	"github.com/zeroinfra/agents/internal/server"
	"github.com/zeroinfra/agents/internal/supervisor"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/writing"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// patience bounds every wait for a condition.
const patience = 2 * time.Minute

// process records the calls that reach it.
type process struct {
	mu      sync.Mutex
	calls   []supervisor.Call
	refuse  error
	status  *agentv1.ProcessStatus
	changed chan struct{}
	// enforced counts how often the permission was looked at.
	enforced atomic.Int64
}

func (p *process) Status() (*agentv1.ProcessStatus, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.changed
}

func (p *process) set(status *agentv1.ProcessStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.status, p.changed = status, make(chan struct{})
}

func (p *process) Call(_ context.Context, call supervisor.Call) (*agentv1.CallRecord, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return nil, p.refuse
	}
	p.calls = append(p.calls, call)
	return &agentv1.CallRecord{Phase: agentv1.CallPhase_CALL_PHASE_RUNNING}, nil
}

// Member implements server.Process: there is none.
func (p *process) Member() (*writing.Member, <-chan struct{}, error) {
	return nil, nil, errors.New("the plan of this pod has no writing")
}

// Enforce implements server.Process.
func (p *process) Enforce() { p.enforced.Add(1) }

func (p *process) called() []supervisor.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]supervisor.Call(nil), p.calls...)
}

// pod is a served process.
type pod struct {
	*testing.T
	process *process
	tlsDir  string
	socket  string
	stop    context.CancelFunc
	stopped chan struct{}
	listens chan net.Addr
}

func serve(t *testing.T, change func(*server.Config)) *pod {
	t.Helper()
	p := &pod{T: t, tlsDir: t.TempDir(), socket: filepath.Join(t.TempDir(), "s"), stopped: make(chan struct{}),
		listens: make(chan net.Addr, 100),
		process: &process{status: &agentv1.ProcessStatus{Pid: 1}, changed: make(chan struct{})}}
	config := server.Config{Address: "127.0.0.1:0", Certificates: mutualtls.New(p.tlsDir, slog.New(slog.DiscardHandler)),
		SocketPath: p.socket, Reflection: server.NoReflection, Process: p.process,
		Memory: func() int64 { return 4096 }, Version: "1.2.3", Parse: planParser, Log: slog.New(slog.DiscardHandler),
		Listening: func(a net.Addr) { p.listens <- a }}
	if change != nil {
		change(&config)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.stop = cancel
	go func() {
		defer close(p.stopped)
		config.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-p.stopped })
	return p
}

func planParser(data []byte) (*plan.Plan, error) {
	if !strings.HasPrefix(string(data), "digest ") {
		return nil, errors.New("cannot use plan: process: the command is empty")
	}
	return &plan.Plan{Digest: string(data)}, nil
}

// address waits until the network is served.
func (p *pod) address(network string) net.Addr {
	p.Helper()
	timeout := time.After(patience)
	for {
		select {
		case a := <-p.listens:
			if a.Network() == network {
				return a
			}
		case <-timeout:
			p.Fatalf("%s is not served", network)
		}
	}
}

func dial(t *testing.T, target string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func connect(t *testing.T, address net.Addr, config *tls.Config) agentv1.ProcessServiceClient {
	t.Helper()
	return agentv1.NewProcessServiceClient(dial(t, address.String(), credentials.NewTLS(config)))
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func header(key string, term uint64) *agentv1.CallHeader {
	return &agentv1.CallHeader{IdempotencyKey: key, Term: term}
}

func TestOperatorMayDoEverything(t *testing.T) {
	p := serve(t, nil)
	ca := testpki.New(t)
	ca.Mount(t, p.tlsDir, ca)
	c := connect(t, p.address("tcp"), ca.ClientConfig(t, ca, testpki.Client(testpki.Operator)))
	ctx := deadline(t)
	if got, err := c.GetStatus(ctx, &agentv1.GetStatusRequest{}); err != nil || got.GetPid() != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	_, e1 := c.Start(ctx, &agentv1.StartRequest{Header: header("a", 1)})
	_, e2 := c.Stop(ctx, &agentv1.StopRequest{Header: header("b", 2)})
	_, e3 := c.Restart(ctx, &agentv1.RestartRequest{Header: header("c", 3), Plan: []byte("digest 1")})
	_, e4 := c.Restart(ctx, &agentv1.RestartRequest{Header: header("d", 4)})
	_, e5 := c.Reload(ctx, &agentv1.ReloadRequest{Header: header("e", 5), Plan: []byte("digest 2")})
	got, e6 := c.Signal(ctx, &agentv1.SignalRequest{Header: header("f", 6), Signal: "SIGHUP"})
	if err := errors.Join(e1, e2, e3, e4, e5, e6); err != nil ||
		got.GetCall().GetPhase() != agentv1.CallPhase_CALL_PHASE_RUNNING {
		t.Fatalf("got %v, %v", got, err)
	}
	want := []supervisor.Call{supervisor.Start("a", 1), supervisor.Stop("b", 2),
		supervisor.Restart("c", 3, &plan.Plan{Digest: "digest 1"}),
		supervisor.Restart("d", 4, nil), supervisor.Reload("e", 5, &plan.Plan{Digest: "digest 2"}),
		supervisor.Signal("f", 6, "SIGHUP")}
	if got := p.process.called(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNobodyElseGetsIn(t *testing.T) {
	p := serve(t, nil)
	ca, foreign := testpki.New(t), testpki.New(t)
	ca.Mount(t, p.tlsDir, ca)
	address := p.address("tcp")
	noUsage, serverOnly := testpki.Client(testpki.Operator), testpki.Client(testpki.Operator)
	noUsage.Usages, serverOnly.Usages = nil, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	expired := testpki.Client(testpki.Operator)
	expired.NotAfter = time.Now().Add(-time.Minute)
	tls12 := ca.ClientConfig(t, ca, testpki.Client(testpki.Operator))
	tls12.MaxVersion = tls.VersionTLS12
	for name, config := range map[string]*tls.Config{
		"no certificate":     ca.ClientConfig(t, nil, testpki.Leaf{}),
		"foreign CA":         ca.ClientConfig(t, foreign, testpki.Client(testpki.Operator)),
		"no name":            ca.ClientConfig(t, ca, testpki.Client()),
		"peer":               ca.ClientConfig(t, ca, testpki.Client("spiffe://zeroinfra.github.com/pod/ns/name")),
		"other trust domain": ca.ClientConfig(t, ca, testpki.Client("spiffe://example.com/operator/database")),
		"longer path":        ca.ClientConfig(t, ca, testpki.Client(testpki.Operator+"/x")),
		"no domain":          ca.ClientConfig(t, ca, testpki.Client("spiffe://zeroinfra.github.com/operator/")),
		"upper case":         ca.ClientConfig(t, ca, testpki.Client("spiffe://zeroinfra.github.com/operator/Database")),
		"query":              ca.ClientConfig(t, ca, testpki.Client(testpki.Operator+"?x=1")),
		"port":               ca.ClientConfig(t, ca, testpki.Client("spiffe://zeroinfra.github.com:1/operator/database")),
		"other scheme":       ca.ClientConfig(t, ca, testpki.Client("https://zeroinfra.github.com/operator/database")),
		"two names": ca.ClientConfig(t, ca,
			testpki.Client(testpki.Operator, "spiffe://zeroinfra.github.com/pod/ns/name")),
		"no key usage":       ca.ClientConfig(t, ca, noUsage),
		"server certificate": ca.ClientConfig(t, ca, serverOnly),
		"expired":            ca.ClientConfig(t, ca, expired),
		"TLS 1.2":            tls12,
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, address, config)
			ctx := deadline(t)
			if _, err := c.Restart(ctx, &agentv1.RestartRequest{Header: header("x", 1)}); status.Code(err) != codes.Unavailable {
				t.Errorf("Restart: got %v", err)
			}
			if got, err := c.GetStatus(ctx, &agentv1.GetStatusRequest{}); status.Code(err) != codes.Unavailable {
				t.Errorf("GetStatus: got %v, %v", got, err)
			}
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		c := agentv1.NewProcessServiceClient(dial(t, address.String(), insecure.NewCredentials()))
		_, err := c.Stop(deadline(t), &agentv1.StopRequest{Header: header("x", 1)})
		if status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	})
	if got := p.process.called(); len(got) != 0 {
		t.Errorf("calls got through: %v", got)
	}
	// The same server lets an operator in: it was not simply down.
	if _, err := connect(t, address, ca.ClientConfig(t, ca, testpki.Client(testpki.Operator))).GetStatus(deadline(t),
		&agentv1.GetStatusRequest{}); err != nil {
		t.Error(err)
	}
}

func TestCertificatesAreReplacedWithoutARestart(t *testing.T) {
	p := serve(t, nil)
	first, second := testpki.New(t), testpki.New(t)
	try := func(address net.Addr, server, issuer *testpki.Authority) error {
		_, err := connect(t, address, server.ClientConfig(t, issuer, testpki.Client(testpki.Operator))).GetStatus(deadline(t),
			&agentv1.GetStatusRequest{})
		return err
	}
	first.Mount(t, p.tlsDir, first)
	address := p.address("tcp")
	if err := try(address, first, first); err != nil {
		t.Fatal(err)
	}
	if err := try(address, first, second); err == nil {
		t.Fatal("a CA that is not trusted yet was accepted")
	}
	// Both CAs are published, then the old one is withdrawn.
	second.Mount(t, p.tlsDir, first, second)
	for _, issuer := range []*testpki.Authority{first, second} {
		if err := try(address, second, issuer); err != nil {
			t.Error(err)
		}
	}
	second.Mount(t, p.tlsDir, second)
	if err := try(address, second, first); err == nil {
		t.Error("a CA that was withdrawn is accepted")
	}
	if err := try(address, second, second); err != nil {
		t.Error(err)
	}
	// A broken file leaves the last certificates in place.
	if err := os.WriteFile(filepath.Join(p.tlsDir, "ca.crt"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := try(address, second, second); err != nil {
		t.Error(err)
	}
}

func TestSocketIsForReadingOnly(t *testing.T) {
	p := serve(t, nil)
	c := agentv1.NewProcessServiceClient(dial(t, "unix:"+p.address("unix").String(), insecure.NewCredentials()))
	ctx := deadline(t)
	if got, err := c.GetStatus(ctx, &agentv1.GetStatusRequest{}); err != nil || got.GetPid() != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	_, e1 := c.Start(ctx, &agentv1.StartRequest{Header: header("a", 1)})
	_, e2 := c.Stop(ctx, &agentv1.StopRequest{Header: header("a", 1)})
	_, e3 := c.Restart(ctx, &agentv1.RestartRequest{Header: header("a", 1)})
	_, e4 := c.Reload(ctx, &agentv1.ReloadRequest{Header: header("a", 1)})
	_, e5 := c.Signal(ctx, &agentv1.SignalRequest{Header: header("a", 1)})
	for i, err := range []error{e1, e2, e3, e4, e5} {
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("call %d: got %v", i, err)
		}
	}
	if got := p.process.called(); len(got) != 0 {
		t.Errorf("calls got through: %v", got)
	}
	if info, err := os.Stat(p.socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
}

// TestMemoryIsACapability: what tells how much memory is in use is announced, to operators only, and is not part of
// what is watched.
func TestMemoryIsACapability(t *testing.T) {
	p := serve(t, nil)
	ca := testpki.New(t)
	ca.Mount(t, p.tlsDir, ca)
	ctx, address := deadline(t), p.address("tcp")
	operator := connect(t, address, ca.ClientConfig(t, ca, testpki.Client(testpki.Operator)))
	socket := agentv1.NewProcessServiceClient(dial(t, "unix:"+p.socket, insecure.NewCredentials()))
	for name, client := range map[string]agentv1.ProcessServiceClient{"operator": operator, "socket": socket} {
		got, err := client.Capabilities(ctx, &agentv1.CapabilitiesRequest{}, grpc.WaitForReady(true))
		if err != nil || !slices.Equal(got.GetNames(), []string{agentv1.CapabilityHooks, agentv1.CapabilityMemory}) ||
			got.GetVersion() != "1.2.3" {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if got, err := operator.GetStatus(ctx, &agentv1.GetStatusRequest{}); err != nil || got.GetMemoryBytes() != 4096 ||
		got.GetPid() != 1 {
		t.Errorf("operator: got %v, %v", got, err)
	}
	if got, err := socket.GetStatus(ctx, &agentv1.GetStatusRequest{}); err != nil || got.GetMemoryBytes() != 0 {
		t.Errorf("socket: got %v, %v", got, err)
	}
	watch, err := operator.WatchStatus(ctx, &agentv1.WatchStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.GetMemoryBytes() != 0 {
		t.Errorf("watch: got %v, %v", got, err)
	}
	peer := connect(t, address, ca.ClientConfig(t, ca, testpki.Client("spiffe://zeroinfra.github.com/pod/ns/name")))
	if _, err := peer.Capabilities(ctx, &agentv1.CapabilitiesRequest{}); err == nil {
		t.Error("the agent of another pod may ask")
	}
}

func TestSocketOfTheContainerBeforeIsReplaced(t *testing.T) {
	leftover := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(leftover, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, func(c *server.Config) { c.SocketPath = leftover })
	c := agentv1.NewProcessServiceClient(dial(t, "unix:"+p.address("unix").String(), insecure.NewCredentials()))
	if _, err := c.GetStatus(deadline(t), &agentv1.GetStatusRequest{}); err != nil {
		t.Error(err)
	}
}

func TestWatch(t *testing.T) {
	p := serve(t, nil)
	c := agentv1.NewProcessServiceClient(dial(t, "unix:"+p.address("unix").String(), insecure.NewCredentials()))
	stream, err := c.WatchStatus(deadline(t), &agentv1.WatchStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for pid := range int64(5) {
		if pid > 0 {
			p.process.set(&agentv1.ProcessStatus{Pid: pid + 1})
		}
		if got, err := stream.Recv(); err != nil || got.GetPid() != pid+1 {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	p.stop()
	<-p.stopped
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	p := serve(t, nil)
	ca := testpki.New(t)
	ca.Mount(t, p.tlsDir, ca)
	c := connect(t, p.address("tcp"), ca.ClientConfig(t, ca, testpki.Client(testpki.Operator)))
	for _, test := range []struct {
		err  error
		want codes.Code
	}{
		{callrecord.ErrBadKey, codes.InvalidArgument},
		{callrecord.ErrKeyReused, codes.InvalidArgument},
		{supervisor.ErrInvalid, codes.InvalidArgument},
		{callrecord.ErrStaleTerm, codes.Aborted},
		{supervisor.ErrBusy, codes.Aborted},
		{supervisor.ErrShuttingDown, codes.Unavailable},
		{errors.New("disk full"), codes.Unavailable},
	} {
		p.process.mu.Lock()
		p.process.refuse = fmt.Errorf("outer: %w", test.err)
		p.process.mu.Unlock()
		_, err := c.Stop(deadline(t), &agentv1.StopRequest{Header: header("a", 1)})
		if status.Code(err) != test.want || !strings.Contains(err.Error(), test.err.Error()) {
			t.Errorf("%v: got %v, want %v", test.err, err, test.want)
		}
	}
	for name, call := range map[string]func() error{
		"Restart": func() error {
			_, err := c.Restart(deadline(t), &agentv1.RestartRequest{Header: header("a", 1), Plan: []byte("bad")})
			return err
		},
		"Reload": func() error {
			_, err := c.Reload(deadline(t), &agentv1.ReloadRequest{Header: header("a", 1), Plan: []byte("bad")})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.InvalidArgument ||
			!strings.Contains(err.Error(), "the command is empty") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestHealthAndReflection(t *testing.T) {
	for _, test := range []struct {
		reflection server.Reflection
		want       codes.Code
	}{{server.NoReflection, codes.Unimplemented}, {server.WithReflection, codes.OK}} {
		t.Run(string(test.reflection), func(t *testing.T) {
			p := serve(t, func(c *server.Config) { c.Reflection = test.reflection })
			ca := testpki.New(t)
			ca.Mount(t, p.tlsDir, ca)
			conn := dial(t, p.address("tcp").String(),
				credentials.NewTLS(ca.ClientConfig(t, ca, testpki.Client(testpki.Operator))))
			for _, service := range []string{"", "zeroinfra.agent.v1.ProcessService"} {
				got, err := healthv1.NewHealthClient(conn).Check(deadline(t), &healthv1.HealthCheckRequest{Service: service})
				if err != nil || got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
					t.Errorf("%q: got %v, %v", service, got, err)
				}
			}
			stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(deadline(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&reflectionv1.ServerReflectionRequest{
				MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); status.Code(err) != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}
