// SPDX-License-Identifier: Apache-2.0

// Package teststorage runs a real object storage for tests, on loopback: versitygw, with TLS and a CA of its own.
package teststorage

import (
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/agents/internal/testpki"
)

// The one account that there is, and the one bucket, in the one region.
const (
	Account   = "archiver"
	SecretKey = "not-a-secret-at-all"
	Bucket    = "logs"
	Region    = "eu-test-1"
)

// patience bounds the wait for an answer.
const patience = 30 * time.Second

// Server is one storage with a folder of its own. It ends with the test.
type Server struct {
	*testing.T
	// Address on loopback: host and port.
	Address string
	// CA that its certificate leads to.
	CA *testpki.Authority

	root    string
	process *exec.Cmd
	// more arguments of the backend.
	more []string
}

// New makes a storage with a bucket, and starts it.
func New(t *testing.T) *Server {
	t.Helper()
	return begin(&Server{T: t, root: t.TempDir()})
}

// NewVersioned makes one whose buckets can have versions.
func NewVersioned(t *testing.T) *Server {
	t.Helper()
	s := &Server{T: t, root: t.TempDir()}
	versions := filepath.Join(s.root, "versions")
	if err := os.Mkdir(versions, 0o700); err != nil {
		t.Fatal(err)
	}
	s.more = []string{"--versioning-dir", versions}
	return begin(s)
}

func begin(s *Server) *Server {
	s.Helper()
	t := s.T
	s.CA = testpki.New(t)
	s.Address = testnet.FreeAddress(t)
	certificate, key := s.CA.Issue(t, testpki.Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(s.root, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(s.root, "buckets", Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s
}

// Start starts it, and waits until it answers.
func (s *Server) Start() {
	s.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		s.Fatal("there is no versitygw: run make tool-versitygw, and have bin in PATH")
	}
	log, err := os.OpenFile(filepath.Join(s.root, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	arguments := []string{"--access", Account, "--secret", SecretKey, "--region", Region, "--port", s.Address, "--quiet",
		"--cert", filepath.Join(s.root, "tls.crt"), "--key", filepath.Join(s.root, "tls.key"), "posix"}
	s.process = exec.Command(program, append(append(arguments, s.more...), filepath.Join(s.root, "buckets"))...)
	s.process.Stdout, s.process.Stderr = log, log
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(s.Kill)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		connection, err := net.Dial("tcp", s.Address)
		if err == nil {
			connection.Close()
			return
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(filepath.Join(s.root, "log"))
			s.Fatalf("the storage does not answer: %s", said)
		}
	}
}

// Kill ends it with SIGKILL.
func (s *Server) Kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// Hang has it take connections and say nothing, until the returned function is called.
func (s *Server) Hang() (goOn func()) {
	s.Helper()
	process := s.process.Process
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		s.Fatal(err)
	}
	return func() { _ = process.Signal(syscall.SIGCONT) }
}

// Endpoint is its URL.
func (s *Server) Endpoint() string { return "https://" + s.Address }
