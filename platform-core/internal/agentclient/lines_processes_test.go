// SPDX-License-Identifier: Apache-2.0

//go:build processes

package agentclient

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	"github.com/zeroinfra/platform-core/internal/pki"
)

// counted is a listener that knows how many of its connections are open.
type counted struct {
	net.Listener
	open, most atomic.Int64
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.most.Store(max(c.most.Load(), c.open.Add(1)))
	return &countedConn{Conn: conn, closed: sync.OnceFunc(func() { c.open.Add(-1) })}, nil
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// TestTwoThousandPodsAreReachedOverFewConnections calls each of many pods, and some of them at once, and counts at the
// other end.
func TestTwoThousandPodsAreReachedOverFewConnections(t *testing.T) {
	const pods, kept, callers = 2000, 32, 8
	authority := newAuthority(t)
	m := &manager{records: map[string]*agentv1.CallRecord{}}
	listener := &counted{}
	port := serveOn(t, authority, m, "127.0.0.1", pki.AgentServerName("pod", "team"), func(l net.Listener) net.Listener {
		listener.Listener = l
		return listener
	})
	connections := New(authority, WithPort(port), WithMaxOpen(kept))
	t.Cleanup(connections.Close)
	next := make(chan int)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for n := range next {
				// All have the one name that the certificate is for, and are pods of their own all the same.
				pod := podAt("pod", "127.0.0.1")
				pod.UID = podAt(fmt.Sprintf("pod-%d", n), "").UID
				p, err := connections.Dial(t.Context(), pod)
				if err == nil {
					_, err = p.Status(t.Context())
				}
				if err != nil {
					t.Errorf("pod %d: %v", n, err)
				}
			}
		})
	}
	for n := range pods {
		next <- n
	}
	close(next)
	group.Wait()
	if got := connections.Len(); got > kept {
		t.Errorf("%d connections are kept, want at most %d", got, kept)
	}
	// What is closed here the other end finds out a moment later.
	if most := listener.most.Load(); most > 4*(kept+callers) {
		t.Errorf("%d connections were open at once", most)
	}
	connections.Close()
	if got := connections.Len(); got != 0 {
		t.Errorf("%d connections after the end", got)
	}
}
