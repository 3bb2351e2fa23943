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
	// TLSDir holds tls.crt, tls.key and ca.crt. While it does not, the TCP server waits for them.
	TLSDir string
	// SocketPath of the unix socket.
	SocketPath string
	// Reflection of the TCP server.
	Reflection Reflection
	// Process that is served.
	Process Process
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
		c.retry(ctx, "unix socket", c.serveSocket)
	}()
	c.retry(ctx, "mutual TLS", c.serveTLS)
	<-socket
}

// retry runs a server until the context ends, and logs each new reason why it does not run.
func (c Config) retry(ctx context.Context, name string, serve func(context.Context) error) {
	last := ""
	for ctx.Err() == nil {
		if err := serve(ctx); err != nil && err.Error() != last {
			last = err.Error()
			c.Log.Warn("server waits", "server", name, "error", last)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryInterval):
		}
	}
}

func (c Config) serveTLS(ctx context.Context) error {
	certs := &certificates{dir: c.TLSDir, log: c.Log}
	if _, err := certs.load(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Address)
	if err != nil {
		return fmt.Errorf("cannot listen on %q: %w", c.Address, err)
	}
	server := newGRPC(grpc.Creds(credentials.NewTLS(certs.serverConfig())))
	agentv1.RegisterProcessServiceServer(server, service{readOnly: c.readOnly(ctx), parse: c.Parse})
	if c.Reflection == WithReflection {
		reflection.Register(server)
	}
	return c.serve(ctx, server, listener)
}

func (c Config) serveSocket(ctx context.Context) error {
	// What the container before has left.
	if err := os.Remove(c.SocketPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot replace socket: %w", err)
	}
	listener, err := net.Listen("unix", c.SocketPath)
	if err != nil {
		return fmt.Errorf("cannot listen on socket %q: %w", c.SocketPath, err)
	}
	if err := os.Chmod(c.SocketPath, 0o660); err != nil {
		return errors.Join(fmt.Errorf("cannot open socket to the group: %w", err), listener.Close())
	}
	server := newGRPC()
	agentv1.RegisterProcessServiceServer(server, c.readOnly(ctx))
	return c.serve(ctx, server, listener)
}

func (c Config) readOnly(ctx context.Context) readOnly {
	return readOnly{process: c.Process, closing: ctx.Done()}
}

func newGRPC(options ...grpc.ServerOption) *grpc.Server {
	options = append(options,
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: maxConnectionAge, MaxConnectionAgeGrace: connectionGrace}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	server := grpc.NewServer(options...)
	answer := health.NewServer()
	answer.SetServingStatus(agentv1.ProcessService_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(server, answer)
	return server
}

// serve serves until the context ends, then gives calls under way a moment.
func (c Config) serve(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	c.Log.Info("serving", "address", listener.Addr().String())
	if c.Listening != nil {
		c.Listening(listener.Addr())
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
