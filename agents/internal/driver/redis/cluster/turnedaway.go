// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net"
	"strings"
	"sync/atomic"

	"github.com/zeroinfra/agents/internal/driver"
)

// tooManyClients is what a server says that has as many clients as it may have. It says so before it is asked anything,
// and closes the connection; over TLS it closes without a word.
const tooManyClients = "max number of clients reached"

// Heard is a connection that keeps the beginning of what the server says: the library takes it for an answer to its
// first command, which it may do without, and tells of the connection that is closed then.
type Heard struct {
	net.Conn
	first atomic.Pointer[string]
}

// Read implements io.Reader.
func (h *Heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if n > 0 && h.first.Load() == nil {
		said := string(p[:min(n, 2*len(tooManyClients))])
		h.first.Store(&said)
	}
	return n, err
}

// TurnedAway is the error of a call on the connection: another one where the server has as many clients as it may have.
func (h *Heard) TurnedAway(err error) error {
	if err == nil || h == nil {
		return err
	}
	if said := h.first.Load(); said == nil || !strings.HasPrefix(*said, "-ERR "+tooManyClients) {
		return err
	}
	return &driver.OutOfConnections{Said: tooManyClients}
}
