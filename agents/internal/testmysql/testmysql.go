// SPDX-License-Identifier: Apache-2.0

// Package testmysql runs a real MySQL for tests, on loopback, as its pod would.
package testmysql

import (
	"context"
	"errors"
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

	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/testnet"
)

// Passwords of the accounts root and app. They have what ends a text in SQL.
const (
	Password    = `hun"ter'2\`
	AppPassword = "app-password"
)

// DirVariable names the folder with MySQL's bin, lib and share, in place of bin/mysql of the repository.
const DirVariable = "MYSQL_DIR"

// patience bounds every wait for a condition.
const patience = 3 * time.Minute

// Server is one server with a folder of its own. It ends with the test.
type Server struct {
	*testing.T
	// Server is what its pod has.
	Server *server.Server
	// Address on loopback, and Admin that of the administrative interface: host and port.
	Address, Admin string
	// Log is what it says.
	Log string
	// Bin is the folder of its programs.
	Bin string

	options []string
	cmd     *exec.Cmd
	exited  chan struct{}
}

// New has a server that is not started. Options are lines of its file.
func New(t *testing.T, options ...string) *Server {
	t.Helper()
	// The path of a socket may have 107 bytes.
	root, err := os.MkdirTemp("", "mysql-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{T: t, Address: testnet.FreeAddress(t), Admin: testnet.FreeAddress(t), Log: filepath.Join(root, "log"),
		Bin: filepath.Join(folder(t), "bin"), options: options}
	s.Server = &server.Server{Program: filepath.Join(s.Bin, "mysqld"), Config: filepath.Join(root, "my.cnf"),
		Dir: filepath.Join(root, "data"),
		Run: filepath.Join(root, "run"), Secrets: filepath.Join(root, "secrets"), SlowLog: filepath.Join(root, "slow.log")}
	for _, dir := range []string{s.Server.Dir, s.Server.Run, filepath.Join(s.Server.Secrets, "root"),
		filepath.Join(s.Server.Secrets, "app")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			log, _ := os.ReadFile(s.Log)
			t.Logf("the server said:\n%s", log)
		}
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	s.SetPassword("root", Password)
	s.SetPassword("app", AppPassword)
	s.Configure(options...)
	return s
}

// folder finds MySQL.
func folder(t *testing.T) string {
	t.Helper()
	return repositoryFolder(t, DirVariable, "mysql", "bin/mysqld", "make server-mysql")
}

// repositoryFolder is that which a variable names, or else the one of this name in bin of the repository. It has a
// file, or else a command makes it.
func repositoryFolder(t *testing.T, variable, name, file, command string) string {
	t.Helper()
	dir := os.Getenv(variable)
	for at := "."; dir == ""; at = filepath.Join(at, "..") {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			dir = filepath.Join(at, "bin", name)
		}
		if path, err := filepath.Abs(at); err != nil || path == "/" {
			t.Fatalf("this is not the repository: name the folder in %s", variable)
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		t.Fatalf("there is no %s in %s: run %s", file, dir, command)
	}
	return dir
}

// SetPassword mounts another password of a credential.
func (s *Server) SetPassword(credential, password string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.Server.Secrets, credential, "password"), []byte(password), 0o600); err != nil {
		s.Fatal(err)
	}
}

// Configure writes the option file. What a small server needs comes first.
func (s *Server) Configure(options ...string) {
	s.Helper()
	_, port, _ := net.SplitHostPort(s.Address)
	_, admin, _ := net.SplitHostPort(s.Admin)
	lines := append([]string{"[mysqld]", "bind_address = 127.0.0.1", "port = " + port, "admin_address = 127.0.0.1",
		"admin_port = " + admin,
		"mysqlx = OFF", "skip_name_resolve = ON", "persisted_globals_load = OFF", "innodb_redo_log_capacity = 8M",
		"innodb_flush_log_at_trx_commit = 0",
		"sync_binlog = 0"}, options...)
	if !slices.ContainsFunc(options, func(option string) bool {
		return strings.HasPrefix(option, "innodb_buffer_pool_size")
	}) {
		lines = append(lines, "innodb_buffer_pool_size = 32M")
	}
	if err := os.WriteFile(s.Server.Config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.Fatal(err)
	}
}

// Add has the option file have more lines.
func (s *Server) Add(options ...string) {
	s.Helper()
	s.options = append(s.options, options...)
	s.Configure(s.options...)
}

// Start starts the server and waits until it answers.
func (s *Server) Start() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := s.Server.Prepare(ctx); err != nil {
		s.Fatal(err)
	}
	log, err := os.OpenFile(s.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	arguments := s.Server.Arguments(s.Server.Program)
	s.cmd = exec.Command(arguments[0], arguments[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	exited := make(chan struct{})
	s.exited = exited
	go func() {
		_ = s.cmd.Wait()
		close(exited)
	}()
	s.Until("the server answers", func(ctx context.Context) error {
		select {
		case <-exited:
			s.Fatal("the server has ended")
		default:
		}
		d, err := s.Server.Driver()
		if err != nil {
			return err
		}
		_, err = d.Content(ctx)
		return err
	})
}

// Until waits for a condition, which is an error until it holds.
func (s *Server) Until(what string, check func(context.Context) error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.Fatalf("not within %s: %s: %v", patience, what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Ended says whether the server has ended by itself.
func (s *Server) Ended() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// Kill ends the server at once.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends it as a pod does.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

func (s *Server) end(signal syscall.Signal) {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	if err := s.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.Error(err)
	}
	<-s.exited
	s.cmd = nil
}

// Driver logs in as the account root, by the administrative interface.
func (s *Server) Driver(caFile string) *mysql.Driver { return s.As("root", Password, s.Admin, caFile) }

// As logs in as somebody.
func (s *Server) As(username, password, address, caFile string) *mysql.Driver {
	return mysql.New(mysql.Options{Address: address, CAFile: caFile, Username: username,
		Password: func() (string, error) { return password, nil }})
}

// SQL has the server carry out a statement by its own client, as the pod's account, and returns what it says.
func (s *Server) SQL(text string) string {
	s.Helper()
	out, err := s.TrySQL(text)
	if err != nil {
		s.Fatalf("%s: %v", text, err)
	}
	return out
}

// TrySQL is SQL of which an error is nobody's fault.
func (s *Server) TrySQL(text string) (string, error) {
	cmd := exec.Command(filepath.Join(s.Bin, "mysql"), "--defaults-file="+filepath.Join(s.Server.Run, server.ClientFile),
		"--batch", "--skip-column-names", "--execute="+text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
