// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package forward leads connections from the host's loopback to the API
// server inside the cluster's network. It is the only way in from the host.
package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"time"

	"github.com/vishvananda/netns"
	"github.com/zeroinfra/hack/devcluster/internal/network"
	"github.com/zeroinfra/hack/devcluster/internal/process"
)

// Verb is the hidden verb under which this program forwards.
const Verb = "forward"

// Listen opens the host's port.
func Listen(port int) (*net.TCPListener, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil, fmt.Errorf("cannot use port %d on 127.0.0.1 for the API server: choose another with --api-port: %w", port,
			err)
	}
	return l, nil
}

// Serve forwards every connection of the listener until it fails. target
// returns the process in whose network the API server is; it is asked for
// each connection, because the control plane may have been started anew.
func Serve(l net.Listener, target func() process.Identity) error {
	for {
		in, err := l.Accept()
		if err != nil {
			if temporary(err) {
				continue
			}
			return fmt.Errorf("cannot accept connections: %w", err)
		}
		go func() {
			defer in.Close()
			out, err := dial(target())
			if err != nil {
				slog.Warn("cannot forward a connection", "error", err)
				return
			}
			defer out.Close()
			join(in.(*net.TCPConn), out.(*net.TCPConn))
		}()
	}
}

// temporary tells whether accepting may work again, after a little patience
// when the process has too many files open.
func temporary(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	slog.Warn("cannot accept a connection", "error", err)
	time.Sleep(50 * time.Millisecond)
	return true
}

// dial connects to the API server from inside its network namespace.
func dial(target process.Identity) (net.Conn, error) {
	if !target.Alive() {
		return nil, errors.New("the control plane is switched off")
	}
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer home.Close()
	there, err := netns.GetFromPid(target.PID)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer there.Close()
	if err := netns.Set(there); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(context.Background(), "tcp4",
		net.JoinHostPort(network.ControlPlaneIP, strconv.Itoa(network.APIPort)))
	// A thread that cannot go home stays locked and ends with its goroutine.
	if back := netns.Set(home); back == nil {
		runtime.UnlockOSThread()
	}
	return conn, err
}

// join copies both ways until both sides have said all.
func join(a, b *net.TCPConn) {
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(a, b)
		_ = a.CloseWrite()
		close(done)
	}()
	_, _ = io.Copy(b, a)
	_ = b.CloseWrite()
	<-done
}
