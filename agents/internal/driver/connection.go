// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const (
	// maxReply is how many bytes of answers one connection takes.
	maxReply = 8 << 20
	// dialTimeout of a connection, which never leaves the pod.
	dialTimeout = 2 * time.Second
)

// Dial connects to the process, and takes only so much of what it answers that it cannot fill the memory.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return Bound(connection), nil
}

// Bound takes only so much of what a connection answers that it cannot fill the memory.
func Bound(connection net.Conn) net.Conn { return &bounded{Conn: connection, left: maxReply} }

// TLS is how a driver speaks with a process whose certificate must lead to the CA in the file; nil for an empty name,
// where the process does not speak TLS. The name in the certificate is that of the Service, which nobody asks for
// within the pod: what counts is who issued it.
func TLS(caFile string) (*tls.Config, error) {
	if caFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the CA of the process: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("file %q holds no certificate", caFile)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // The chain is verified below.
		VerifyConnection: func(state tls.ConnectionState) error {
			between := x509.NewCertPool()
			for _, certificate := range state.PeerCertificates[1:] {
				between.AddCert(certificate)
			}
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
			return err
		},
	}, nil
}

// Named also has the certificate be for the host of an address outside of the pod, where that has a name. Who only
// knows an IP address trusts whoever has a certificate of that issuer.
func Named(config *tls.Config, address string) *tls.Config {
	host, _, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) != nil {
		return config
	}
	named, verify := config.Clone(), config.VerifyConnection
	named.ServerName = host
	named.VerifyConnection = func(state tls.ConnectionState) error {
		if err := verify(state); err != nil {
			return err
		}
		return state.PeerCertificates[0].VerifyHostname(host)
	}
	return named
}

// Renew lets a connection that Dial made answer as much as at the beginning: for one that is kept from call to call.
func Renew(connection net.Conn) {
	if b, ok := connection.(*bounded); ok {
		b.left = maxReply
	}
}

// errTooMuch ends a call whose answer would fill the memory.
var errTooMuch = fmt.Errorf("the middleware answered with more than %d MiB", maxReply>>20)

// bounded is a connection from which only so much can be read.
type bounded struct {
	net.Conn
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := io.LimitReader(b.Conn, b.left).Read(p)
	b.left -= int64(n)
	return n, err
}
