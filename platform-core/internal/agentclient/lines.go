// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/internal/pki"
)

// DefaultMaxOpen is how many connections are kept where WithMaxOpen says nothing else: an operator has thousands of
// pods, and calls few of them at a time.
const DefaultMaxOpen = 128

// WithMaxOpen bounds the connections that are kept while nobody calls on them. Beyond it the one that was used longest
// ago is closed.
func WithMaxOpen(connections int) Option {
	return func(c *Connections) { c.maxOpen = connections }
}

// connection to one agent.
type connection struct {
	address string
	conn    *grpc.ClientConn
	// capabilities of the agent.
	capabilities capabilities
	// calls that are under way on it, and when the last one began.
	calls int
	used  time.Time
}

// line is the way to one agent. Each call takes the connection and gives it back, and makes one when there is none.
type line struct {
	connections *Connections
	key         endpoint
	pod         types.NamespacedName
	address     string
}

func (c *Connections) line(pod types.NamespacedName, uid types.UID, ip string, port int) *line {
	return &line{connections: c, key: endpoint{uid, port}, pod: pod, address: net.JoinHostPort(ip, strconv.Itoa(port))}
}

// Invoke implements grpc.ClientConnInterface.
func (l *line) Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error {
	conn, err := l.connections.take(l)
	if err != nil {
		return err
	}
	defer l.connections.release(conn)
	return conn.conn.Invoke(ctx, method, request, response, options...)
}

// NewStream implements grpc.ClientConnInterface. The connection is given back when the context ends, which must come to
// that.
func (l *line) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (
	grpc.ClientStream, error) {
	conn, err := l.connections.take(l)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { l.connections.release(conn) })
	return conn.conn.NewStream(ctx, desc, method, options...)
}

// take finds the connection of a line, or makes it.
func (c *Connections) take(l *line) (*connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[l.key]
	if known != nil && known.address != l.address {
		// The pod got another address, as after a reboot of its node.
		_ = known.conn.Close()
		known = nil
	}
	if known == nil {
		known = &connection{address: l.address}
		conn, err := c.connect(l.address, present{c.authority, pki.AgentServerName(l.pod.Name, l.pod.Namespace),
			known.capabilities.forget})
		if err != nil {
			return nil, status.Errorf(codes.Unavailable, "the connection cannot be set up: %v", err)
		}
		known.conn = conn
		c.open[l.key] = known
	}
	known.calls++
	known.used = time.Now()
	c.trim()
	return known, nil
}

func (c *Connections) release(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.calls--
	c.trim()
}

// trim closes connections beyond the bound on which nobody calls. Called with the lock.
func (c *Connections) trim() {
	excess := len(c.open) - c.maxOpen
	if excess <= 0 {
		return
	}
	free := slices.DeleteFunc(slices.Collect(maps.Keys(c.open)), func(key endpoint) bool { return c.open[key].calls > 0 })
	slices.SortFunc(free, func(a, b endpoint) int {
		return cmp.Compare(c.open[a].used.UnixNano(), c.open[b].used.UnixNano())
	})
	for _, key := range free[:min(excess, len(free))] {
		_ = c.open[key].conn.Close()
		delete(c.open, key)
	}
}
