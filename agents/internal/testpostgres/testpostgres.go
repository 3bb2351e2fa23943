// SPDX-License-Identifier: Apache-2.0

// Package testpostgres runs a real PostgreSQL for tests: Debian's newest one, on loopback, as a user without rights.
package testpostgres

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/testnet"
)

const (
	// Password of the superuser postgres.
	Password = "hunter2"
	// patience bounds every wait for a condition.
	patience = 60 * time.Second
	// nobody runs the server where the tests run as root, as which it does not start.
	nobody = 65534
)

// Server is one server with a folder of its own. It ends with the test.
type Server struct {
	*testing.T
	// Address on loopback: host and port.
	Address string
	// Log is what the server says, with all statements.
	Log string

	root, bin, port string
}

// New makes a server's data and starts it.
func New(t *testing.T, settings ...string) *Server {
	t.Helper()
	bins, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(bins) == 0 {
		t.Fatal("there is no PostgreSQL: install Debian's package postgresql")
	}
	slices.SortFunc(bins, func(a, b string) int { return len(a) - len(b) + strings.Compare(a, b) })
	// Not below the test's own folder, which only its user may enter.
	root, err := os.MkdirTemp("", "postgresql-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	s := &Server{T: t, root: root, bin: filepath.Dir(bins[len(bins)-1]), Log: filepath.Join(root, "log")}
	s.Address = testnet.FreeAddress(t)
	_, s.port, _ = net.SplitHostPort(s.Address)
	password := filepath.Join(root, "password")
	s.own(root)
	s.write(password, []byte(Password))
	out, err := s.command("initdb", "-D", s.data(), "-U", "postgres", "--pwfile="+password, "--auth=scram-sha-256",
		"--no-sync", "--encoding=UTF8", "--locale=C.UTF-8").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	conf := fmt.Sprintf("listen_addresses = '127.0.0.1'\nport = %s\nunix_socket_directories = ''\nfsync = "+
		"off\nshared_buffers = 16MB\nlog_statement = 'all'\n%s\n", s.port, strings.Join(settings, "\n"))
	file, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(conf); err != nil {
		t.Fatal(err)
	}
	file.Close()
	return s
}

func (s *Server) data() string { return filepath.Join(s.root, "data") }

// Put writes a file into the data's folder that only the server can read.
func (s *Server) Put(name string, content []byte) {
	s.Helper()
	s.write(filepath.Join(s.data(), name), content)
}

func (s *Server) write(path string, content []byte) {
	s.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		s.Fatal(err)
	}
	s.own(path)
}

// own gives a file to the server's user.
func (s *Server) own(path string) {
	s.Helper()
	if os.Getuid() != 0 {
		return
	}
	if err := os.Chown(path, nobody, nobody); err != nil {
		s.Fatal(err)
	}
}

// command is one of the server's programs, as the server's user.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = s.root
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + s.root}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// Start starts the server and waits until it answers. It returns what stops it at once, and its process.
func (s *Server) Start() (stop func(), process *os.Process) {
	s.Helper()
	log, err := os.OpenFile(s.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	cmd := s.command("postgres", "-D", s.data())
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Signal(syscall.SIGCONT)
			// SIGQUIT ends all of its processes, which SIGKILL would leave behind.
			_ = cmd.Process.Signal(syscall.SIGQUIT)
			_ = cmd.Wait()
		}
	}
	s.Cleanup(stop)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if out, err := s.psql("postgres", Password, "postgres", "SELECT 1"); err == nil && out == "1" {
			return stop, cmd.Process
		}
		if time.Now().After(end) {
			s.Fatalf("the server does not answer: %s", s.Said())
		}
	}
}

// Said is the server's log.
func (s *Server) Said() string {
	s.Helper()
	data, err := os.ReadFile(s.Log)
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

// SQL runs a statement as the superuser with the real client, and returns what it writes.
func (s *Server) SQL(database, statement string) string {
	s.Helper()
	out, err := s.psql("postgres", Password, database, statement)
	if err != nil {
		s.Fatalf("%s: %v: %s", statement, err, out)
	}
	return out
}

// As runs a statement as another user; what the client says is part of the answer.
func (s *Server) As(user, password, database, statement string) string {
	out, _ := s.psql(user, password, database, statement)
	return out
}

func (s *Server) psql(user, password, database, statement string) (string, error) {
	cmd := exec.Command(filepath.Join(s.bin, "psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1",
		"-p", s.port, "-U", user, "-d", database, "-c", statement)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "PGPASSWORD=" + password, "HOME=" + s.root, "PGCONNECT_TIMEOUT=10"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return strings.TrimSpace(out.String()), err
}
