// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"time"

	"google.golang.org/grpc"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// statusTimeout bounds a question to the process manager, which answers from memory.
const statusTimeout = time.Second

// Manager asks the process manager how the process is now. Statuses that it sends may come later than the process is
// asked for something.
type Manager struct {
	conn   *grpc.ClientConn
	client agentv1.ProcessServiceClient
}

// NewManager makes a Manager that asks at a unix socket, where nobody needs to be yet.
func NewManager(socket string) (*Manager, error) {
	conn, err := connect(socket)
	if err != nil {
		return nil, err
	}
	return &Manager{conn: conn, client: agentv1.NewProcessServiceClient(conn)}, nil
}

// Status returns the present status.
func (m *Manager) Status(ctx context.Context) (*agentv1.ProcessStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	return m.client.GetStatus(ctx, &agentv1.GetStatusRequest{})
}

// Close ends the connection.
func (m *Manager) Close() { _ = m.conn.Close() }
