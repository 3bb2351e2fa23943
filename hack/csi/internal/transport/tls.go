// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package transport carries calls between the parts of the driver: from the
// controller to nodes and between nodes, with mutual TLS, and from Kubernetes'
// programs through sockets of the machine.
package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Peer is the name in the certificates of all parts. Others of the same
// authority, such as kubelets, are not let in.
const Peer = "devcluster:csi-peer"

// Credentials are read from a folder with ca.crt, csi.crt and csi.key.
type Credentials struct {
	pair tls.Certificate
	pool *x509.CertPool
}

// LoadCredentials reads credentials from a folder.
func LoadCredentials(dir string) (Credentials, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "csi.crt"), filepath.Join(dir, "csi.key"))
	if err != nil {
		return Credentials{}, fmt.Errorf("cannot read the driver's certificate: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return Credentials{}, fmt.Errorf("cannot read the driver's authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return Credentials{}, fmt.Errorf("cannot read the driver's authority: no certificate in %q",
			filepath.Join(dir, "ca.crt"))
	}
	return Credentials{pair: pair, pool: pool}, nil
}

// server is the configuration of who is called.
func (c Credentials) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.pair},
		ClientCAs: c.pool, ClientAuth: tls.RequireAndVerifyClientCert, VerifyConnection: isPeer,
		NextProtos: []string{"h2"},
	}
}

// client is the configuration of who calls.
func (c Credentials) client() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.pair},
		RootCAs: c.pool, VerifyConnection: isPeer,
	}
}

func isPeer(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the other side shows no certificate")
	}
	if name := state.PeerCertificates[0].Subject.CommonName; name != Peer {
		return fmt.Errorf("the other side is %q and not %q", name, Peer)
	}
	return nil
}
