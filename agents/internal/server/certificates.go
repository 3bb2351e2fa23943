// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Files of the TLS folder.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
	caFile   = "ca.crt"
)

// operatorID is who may call: an operator of any domain. The CA is the domain's own.
var operatorID = regexp.MustCompile(`^spiffe://zeroinfra\.github\.com/operator/[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// certificates are read from a folder that somebody else renews. Each handshake
// looks whether the files changed, which costs three stat calls and nothing while nobody calls.
type certificates struct {
	dir string
	log *slog.Logger

	mu     sync.Mutex
	seen   []fileState
	config *tls.Config
}

// fileState tells one version of a file from the next. The kubelet swaps a symbolic link, so the inode changes.
type fileState struct {
	modified time.Time
	size     int64
	inode    uint64
}

// load reads the files when they changed. With files that cannot be used the last usable ones stay.
func (c *certificates) load() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.look()
	if err == nil && c.config != nil && slices.Equal(now, c.seen) {
		return c.config, nil
	}
	var config *tls.Config
	if err == nil {
		config, err = c.read()
	}
	if err != nil {
		if c.config != nil {
			c.log.Warn("keeping the last certificates", "error", err.Error())
			return c.config, nil
		}
		return nil, fmt.Errorf("cannot load certificates from %q: %w", c.dir, err)
	}
	c.seen, c.config = now, config
	c.log.Info("certificates loaded", "dir", c.dir)
	return config, nil
}

func (c *certificates) look() ([]fileState, error) {
	var states []fileState
	for _, name := range []string{certFile, keyFile, caFile} {
		info, err := os.Stat(filepath.Join(c.dir, name))
		if err != nil {
			return nil, err
		}
		states = append(states, fileState{modified: info.ModTime(), size: info.Size(), inode: inodeOf(info)})
	}
	return states, nil
}

func inodeOf(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

func (c *certificates) read() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(c.dir, certFile), filepath.Join(c.dir, keyFile))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(c.dir, caFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("file %q holds no certificate", caFile)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    roots,
		NextProtos:   []string{"h2"},
		// A resumed session would outlive its CA.
		SessionTicketsDisabled: true,
		VerifyConnection:       verifyOperator,
	}, nil
}

// serverConfig takes the present certificates at each handshake.
func (c *certificates) serverConfig() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.load() },
	}
}

// verifyOperator refuses a client whose certificate chains to the CA but is not an operator's.
func verifyOperator(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the client has no certificate")
	}
	leaf := state.PeerCertificates[0]
	// A certificate without any extended key usage would pass the chain's check.
	if !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return errors.New("the client's certificate is not for client authentication")
	}
	if len(leaf.URIs) != 1 || !operatorID.MatchString(leaf.URIs[0].String()) {
		return errors.New("the client's certificate does not name an operator")
	}
	return nil
}
