// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"sync"
)

// limited is a listener that keeps no more than so many connections open, whoever makes them. One more is closed at
// once: who has business here tries again, and those that never say who they are do not stay.
type limited struct {
	net.Listener
	slots chan struct{}
}

func limit(l net.Listener, connections int) net.Listener {
	return limited{l, make(chan struct{}, connections)}
}

// Accept implements net.Listener.
func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &slot{Conn: conn, free: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			conn.Close()
		}
	}
}

// slot is a connection that gives its place back when it is closed.
type slot struct {
	net.Conn
	free func()
}

// Close implements net.Conn.
func (s *slot) Close() error {
	defer s.free()
	return s.Conn.Close()
}
