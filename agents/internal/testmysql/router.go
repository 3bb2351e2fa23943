// SPDX-License-Identifier: Apache-2.0

package testmysql

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/mysql/router"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
)

// RouterDirVariable names the folder with MySQL Router as "make server-mysqlrouter" makes it, in place of
// bin/mysqlrouter of the repository.
const RouterDirVariable = "MYSQLROUTER_DIR"

// Router is one with a folder of its own. It ends with the test.
type Router struct {
	*testing.T
	*router.Router
	// Log is what it says.
	Log string

	cmd   *exec.Cmd
	ended chan struct{}
}

// NewRouter has a Router that is not started, with parameters as a JSON object.
func NewRouter(t *testing.T, password, parameters string, members ...string) *Router {
	t.Helper()
	dir := repositoryFolder(t, RouterDirVariable, "mysqlrouter", "mysqlrouter", "make server-mysqlrouter")
	root := t.TempDir()
	r := &Router{T: t, Log: filepath.Join(root, "log"), Router: &router.Router{
		Program: filepath.Join(dir, "mysqlrouter"), KeyringProgram: filepath.Join(dir, "mysqlrouter_keyring"),
		PasswordProgram: filepath.Join(dir, "mysqlrouter_passwd"),
		Plugins:         filepath.Join(dir, "root/usr/lib/mysqlrouter/plugin"),
		Parameters:      filepath.Join(root, "router.json"), Run: root,
		Secrets: filepath.Join(root, "secrets"), Members: members}}
	secret := filepath.Join(r.Secrets, server.RouterCredential)
	if err := os.MkdirAll(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(secret, "password"): password, r.Parameters: parameters} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() {
			log, _ := os.ReadFile(r.Log)
			t.Logf("the Router said:\n%s", log)
		}
	})
	return r
}

// Start starts the Router.
func (r *Router) Start() {
	r.Helper()
	if err := r.Prepare(r.Context()); err != nil {
		r.Fatal(err)
	}
	log, err := os.OpenFile(r.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		r.Fatal(err)
	}
	defer log.Close()
	r.ended = make(chan struct{})
	r.cmd = exec.Command(r.Program, r.Arguments()...)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.ended)
	}()
}

// Ended says whether it has ended.
func (r *Router) Ended() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// Stop ends it as a pod does.
func (r *Router) Stop() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	<-r.ended
	r.cmd = nil
}
