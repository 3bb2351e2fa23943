// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/zeroinfra/platform-core/internal/pki"
)

// present are the credentials of the authority at the time of each handshake: it may be another one by then, and a
// connection that is made again lives on.
type present struct {
	authority  *pki.Authority
	serverName string
	// made is called when a connection is about to be made, each time.
	made func()
}

func (p present) now() credentials.TransportCredentials {
	return credentials.NewTLS(p.authority.ClientTLS(p.serverName))
}

// ClientHandshake implements credentials.TransportCredentials.
func (p present) ClientHandshake(ctx context.Context, authority string,
	conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	p.made()
	return p.now().ClientHandshake(ctx, authority, conn)
}

// ServerHandshake implements credentials.TransportCredentials; nobody connects to the operator so.
func (present) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("an operator calls agents and is not called")
}

// Info implements credentials.TransportCredentials.
func (p present) Info() credentials.ProtocolInfo { return p.now().Info() }

// Clone implements credentials.TransportCredentials.
func (p present) Clone() credentials.TransportCredentials { return p }

// OverrideServerName implements credentials.TransportCredentials: the name is the pod's and stays.
func (present) OverrideServerName(string) error { return nil }
