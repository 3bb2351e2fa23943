// SPDX-License-Identifier: Apache-2.0

// Package testminio runs a real MinIO for tests, on loopback, with TLS.
package testminio

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/agents/internal/testpki"
)

// The account that may do everything.
const (
	Root    = "zeroinfra"
	RootKey = "not-a-secret-at-all"
)

// Server is one with a folder of its own. It ends with the test.
type Server struct {
	*testing.T
	// Address on loopback: host and port.
	Address string
	// Roots are what its certificate leads to.
	Roots *x509.CertPool
	// Dir is its folder; ca.crt there is the authority.
	Dir string
	// Env is more of its environment.
	Env []string

	cmd *exec.Cmd
}

// New makes a server that knows an authority, and has its certificate from it. It is not started.
func New(t *testing.T, ca *testpki.Authority) *Server {
	t.Helper()
	s := &Server{T: t, Address: testnet.FreeAddress(t), Roots: x509.NewCertPool(), Dir: t.TempDir()}
	certificate, key := ca.Issue(t, testpki.Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	files := map[string][]byte{"ca.crt": ca.PEM(), "certs/public.crt": certificate, "certs/private.key": key,
		"certs/CAs/ca.crt": ca.PEM()}
	if err := os.MkdirAll(filepath.Join(s.Dir, "certs/CAs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(s.Dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Roots.AppendCertsFromPEM(ca.PEM())
	return s
}

// Start starts it. It does not answer yet.
func (s *Server) Start() {
	s.Helper()
	program, err := exec.LookPath("minio")
	if err != nil {
		s.Fatal("there is no minio: run make tool-minio, and have bin in PATH")
	}
	s.cmd = exec.Command(program, "server", "--quiet", "--address", s.Address, "--certs-dir",
		filepath.Join(s.Dir, "certs"), filepath.Join(s.Dir, "data"))
	s.cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+Root, "MINIO_ROOT_PASSWORD="+RootKey, "MINIO_BROWSER=off",
		"MINIO_UPDATE=off",
		// What failed to be replicated is found when all objects are looked through.
		"MINIO_SCANNER_SPEED=fastest")
	s.cmd.Env = append(s.cmd.Env, s.Env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(s.Kill)
}

// Kill ends it with SIGKILL.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Client is one of somebody; of nobody with an empty name.
func (s *Server) Client(user, key string) *minio.Client {
	s.Helper()
	transport, err := minio.DefaultTransport(true)
	if err != nil {
		s.Fatal(err)
	}
	transport.TLSClientConfig.RootCAs = s.Roots
	client, err := minio.New(s.Address, &minio.Options{
		Creds: credentials.NewStaticV4(user, key, ""), Secure: true, Region: "us-east-1", Transport: transport, MaxRetries: 1,
	})
	if err != nil {
		s.Fatal(err)
	}
	return client
}
