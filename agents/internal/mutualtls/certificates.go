// SPDX-License-Identifier: Apache-2.0

// Package mutualtls is how the agents of pods, and operators, know each other: with certificates of their domain's CA.
package mutualtls

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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

// Certificates are read from a folder that somebody else renews. Each handshake
// looks whether the files changed, which costs three stat calls and nothing while nobody calls. It is safe for
// concurrent use.
type Certificates struct {
	dir string
	log *slog.Logger

	mu   sync.Mutex
	seen []fileState
	last *loaded
}

// loaded is one version of the files.
type loaded struct {
	own   tls.Certificate
	roots *x509.CertPool
}

// New returns the certificates of a folder with tls.crt, tls.key and ca.crt.
func New(dir string, log *slog.Logger) *Certificates { return &Certificates{dir: dir, log: log} }

// fileState tells one version of a file from the next. The kubelet swaps a symbolic link, so the inode changes.
type fileState struct {
	modified time.Time
	size     int64
	inode    uint64
}

// Check says why there are no certificates to be used.
func (c *Certificates) Check() error {
	_, err := c.load()
	return err
}

// load reads the files when they changed. With files that cannot be used the last usable ones stay.
func (c *Certificates) load() (*loaded, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.look()
	if err == nil && c.last != nil && slices.Equal(now, c.seen) {
		return c.last, nil
	}
	var next *loaded
	if err == nil {
		next, err = c.read()
	}
	if err != nil {
		if c.last != nil {
			c.log.Warn("keeping the last certificates", "error", err.Error())
			return c.last, nil
		}
		return nil, fmt.Errorf("cannot load certificates from %q: %w", c.dir, err)
	}
	c.seen, c.last = now, next
	c.log.Info("certificates loaded", "dir", c.dir)
	return next, nil
}

func (c *Certificates) look() ([]fileState, error) {
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

func (c *Certificates) read() (*loaded, error) {
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
	return &loaded{own: certificate, roots: roots}, nil
}

// Server takes the present certificates at each handshake, and lets in whom the function does not refuse.
func (c *Certificates) Server(admit func(Caller) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now, err := c.load()
			if err != nil {
				return nil, err
			}
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				Certificates: []tls.Certificate{now.own},
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    now.roots,
				NextProtos:   []string{http2},
				// A resumed session would outlive its CA.
				SessionTicketsDisabled: true,
				VerifyConnection: func(state tls.ConnectionState) error {
					caller, err := CallerOf(state)
					if err != nil {
						return err
					}
					return admit(caller)
				},
			}, nil
		},
	}
}

// Public shows the present certificate at each handshake to anybody.
func (c *Certificates) Public() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			now, err := c.load()
			if err != nil {
				return nil, err
			}
			return &now.own, nil
		},
	}
}

// Client is for one connection to the agent of another pod in the same namespace.
func (c *Certificates) Client(pod string) (*tls.Config, error) {
	now, err := c.load()
	if err != nil {
		return nil, err
	}
	own, err := podOf(now.own.Leaf)
	if err != nil {
		return nil, fmt.Errorf("cannot tell the own namespace: %w", err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		RootCAs:      now.roots,
		ServerName:   pod + "." + own.Namespace + agentSuffix,
		NextProtos:   []string{http2},
		Certificates: []tls.Certificate{now.own},
	}, nil
}

// Own is the pod that the present certificate names.
func (c *Certificates) Own() (Caller, error) {
	now, err := c.load()
	if err != nil {
		return Caller{}, err
	}
	return podOf(now.own.Leaf)
}
