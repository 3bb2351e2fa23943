// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/mutualtls"
	"github.com/zeroinfra/agents/internal/processlog"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

const (
	// retryInterval between looks for certificates that are not there yet, and between attempts to listen.
	retryInterval = 500 * time.Millisecond
	// maxConnectionAge has clients authenticate anew, so that a certificate or a CA that was withdrawn ends to count.
	maxConnectionAge = time.Hour
	// connectionGrace is for streams of a connection that has reached its age.
	connectionGrace = 10 * time.Second
	// stopTimeout bounds the wait for calls under way when the server ends.
	stopTimeout = time.Second
	// maxMessage is the largest request: a plan with much configuration.
	maxMessage = 4 << 20
	// maxConnections of the TCP server: the operator's replicas, the other members, and a few people.
	maxConnections = 128
	// handshakeTimeout is how long a connection may take to say who is there.
	handshakeTimeout = 3 * time.Second
	// maxStreams is how many calls of one connection are served at once; more of them wait.
	maxStreams = 64
	// bufferSize of a connection: most messages are short.
	bufferSize = 4 << 10
)

// Reflection says whether the server describes itself to clients such as grpcurl.
type Reflection string

// Values of Reflection.
const (
	NoReflection   Reflection = "off"
	WithReflection Reflection = "on"
)

// Config of a server.
type Config struct {
	// Address to listen on with mutual TLS.
	Address string
	// Certificates of the pod. While there are none, the TCP server waits for them.
	Certificates *mutualtls.Certificates
	// SocketPath of the unix socket.
	SocketPath string
	// Reflection of the TCP server.
	Reflection Reflection
	// Process that is served.
	Process Process
	// Tail is the end of what the process wrote.
	Tail *processlog.Tail
	// Memory says how many bytes the container uses that cannot be taken back; 0 where that is not known.
	Memory func() int64
	// Version of the agent, for people.
	Version string
	// Parse reads pushed plans.
	Parse Parser
	// Log of the server.
	Log *slog.Logger
	// Listening, when not nil, is told each address that is served.
	Listening func(net.Addr)
}

// Run serves until the context ends. What stands in the way (certificates, an
// address in use) is logged and tried again: the process is supervised without a server, too.
func (c Config) Run(ctx context.Context) {
	socket := make(chan struct{})
	go func() {
		defer close(socket)
		c.endpoint().retry(ctx, "unix socket", c.serveSocket)
	}()
	e := c.endpoint()
	e.admit, e.before = mutualtls.OperatorsAndPods, c.Process.Enforce
	e.Run(ctx, func(s *grpc.Server) string {
		agentv1.RegisterProcessServiceServer(s,
			service{readOnly: c.readOnly(ctx), parse: c.Parse, tail: c.Tail, memory: c.Memory})
		agentv1.RegisterPermissionServiceServer(s, members{process: c.Process, certificates: c.Certificates})
		return agentv1.ProcessService_ServiceDesc.ServiceName
	})
	<-socket
}

func (c Config) endpoint() Endpoint {
	return Endpoint{Address: c.Address, Certificates: c.Certificates, Reflection: c.Reflection, Log: c.Log,
		Listening: c.Listening}
}

// Endpoint is a TCP server with mutual TLS, for operators unless it says otherwise.
type Endpoint struct {
	// Address, Certificates, Reflection, Log and Listening are as in Config.
	Address      string
	Certificates *mutualtls.Certificates
	Reflection   Reflection
	Log          *slog.Logger
	Listening    func(net.Addr)

	// admit says who may connect; nil is operators only.
	admit func(mutualtls.Caller) error
	// before each call, nil for nothing.
	before func()
}

// Run serves what register adds, which returns the service's name, until the context ends. What stands in the way is
// logged and tried again.
func (e Endpoint) Run(ctx context.Context, register func(*grpc.Server) string) {
	e.retry(ctx, "mutual TLS", func(ctx context.Context) error { return e.serveTLS(ctx, register) })
}

// retry runs a server until the context ends, and logs each new reason why it does not run.
func (e Endpoint) retry(ctx context.Context, name string, serve func(context.Context) error) {
	last := ""
	for ctx.Err() == nil {
		if err := serve(ctx); err != nil && err.Error() != last {
			last = err.Error()
			e.Log.Warn("server waits", "server", name, "error", last)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryInterval):
		}
	}
}

func (e Endpoint) serveTLS(ctx context.Context, register func(*grpc.Server) string) error {
	if err := e.Certificates.Check(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", e.Address)
	if err != nil {
		return fmt.Errorf("cannot listen on %q: %w", e.Address, err)
	}
	admit, before := e.admit, e.before
	if admit == nil {
		admit = mutualtls.Operators
	}
	if before == nil {
		before = func() {}
	}
	server := newGRPC(register, append(authorized(before),
		grpc.Creds(credentials.NewTLS(e.Certificates.Server(admit))))...)
	if e.Reflection == WithReflection {
		reflection.Register(server)
	}
	return e.serve(ctx, server, limit(listener, maxConnections))
}

func (c Config) serveSocket(ctx context.Context) error {
	// What the container before has left.
	if err := atomicfile.Remove(c.SocketPath); err != nil {
		return fmt.Errorf("cannot replace socket: %w", err)
	}
	listener, err := net.Listen("unix", c.SocketPath)
	if err != nil {
		return fmt.Errorf("cannot listen on socket %q: %w", c.SocketPath, err)
	}
	if err := os.Chmod(c.SocketPath, 0o660); err != nil {
		return errors.Join(fmt.Errorf("cannot open socket to the group: %w", err), listener.Close())
	}
	server := newGRPC(func(s *grpc.Server) string {
		agentv1.RegisterProcessServiceServer(s, c.readOnly(ctx))
		agentv1.RegisterPermissionServiceServer(s, reads{process: c.Process, closing: ctx.Done()})
		return agentv1.ProcessService_ServiceDesc.ServiceName
	})
	return c.endpoint().serve(ctx, server, listener)
}

func (c Config) readOnly(ctx context.Context) readOnly {
	return readOnly{process: c.Process, version: c.Version, closing: ctx.Done()}
}

func newGRPC(register func(*grpc.Server) string, options ...grpc.ServerOption) *grpc.Server {
	options = append(options,
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ReadBufferSize(bufferSize), grpc.WriteBufferSize(bufferSize),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: maxConnectionAge,
			MaxConnectionAgeGrace: connectionGrace}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	server := grpc.NewServer(options...)
	answer := health.NewServer()
	answer.SetServingStatus(register(server), healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(server, answer)
	return server
}

// serve serves until the context ends, then gives calls under way a moment.
func (e Endpoint) serve(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	e.Log.Info("serving", "address", listener.Addr().String())
	if e.Listening != nil {
		e.Listening(listener.Addr())
	}
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(stopTimeout, server.Stop)
		defer timer.Stop()
		server.GracefulStop()
	})
	defer stop()
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("cannot serve %q: %w", listener.Addr(), err)
	}
	return nil
}
