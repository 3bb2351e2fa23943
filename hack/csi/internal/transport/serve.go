// SPDX-License-Identifier: Apache-2.0

//go:build linux

package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// Server is a gRPC server that logs what changes something and what fails.
func Server() *grpc.Server { return grpc.NewServer(grpc.UnaryInterceptor(logged)) }

func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	start := time.Now()
	response, err := handle(ctx, request)
	call := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	quiet := strings.HasPrefix(call, "Probe") || strings.Contains(call, "Get") || strings.HasPrefix(call, "List")
	switch {
	case err != nil:
		log.Printf("%s: %s: %s (%s)", call, status.Code(err), status.Convert(err).Message(),
			time.Since(start).Round(time.Millisecond))
	case !quiet:
		log.Printf("%s: done (%s)", call, time.Since(start).Round(time.Millisecond))
	}
	return response, err
}

// ListenUnix listens on a socket that only root can use, in place of one that
// an ended process has left.
func ListenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("cannot make the folder of socket %q: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot remove old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("cannot guard socket: %w", err)
	}
	return l, nil
}

// Serve serves calls on a socket until the context ends.
func Serve(ctx context.Context, server *grpc.Server, l net.Listener) error {
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	if err := server.Serve(l); err != nil {
		return fmt.Errorf("cannot serve on %q: %w", l.Addr(), err)
	}
	return nil
}

// ServeTLS serves calls and files on one listener until the context ends.
func ServeTLS(ctx context.Context, l net.Listener, c Credentials, calls *grpc.Server, files http.Handler) error {
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
				calls.ServeHTTP(w, r)
			} else {
				files.ServeHTTP(w, r)
			}
		}),
	}
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close() // what has not ended by now is cut off
		}
	})
	defer stop()
	// HTTP/2 has to be set up by the server itself, so it gets the plain listener.
	server.TLSConfig = c.server()
	if err := server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// Dial returns a connection for calls to another part. It is made when needed.
func Dial(address string, c Credentials) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(c.client())))
	if err != nil {
		return nil, fmt.Errorf("cannot call %q: %w", address, err)
	}
	return conn, nil
}

// Client returns an HTTP client for files of other parts. Proxies are not for
// them.
func Client(c Credentials) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: c.client(), ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
	}}
}
