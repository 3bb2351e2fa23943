// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/agents/internal/testpostgres"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// verification is what a restore drill runs on a server, of the plugin.
type verification struct {
	*testing.T
	command []string
	env     []string
}

// verificationOf reads the action of a component, with its placeholders replaced.
func verificationOf(t *testing.T, plugin, component, action string, placeholders *strings.Replacer) *verification {
	t.Helper()
	for _, a := range componentOf(t, plugin, component).Actions {
		if a.Name != action {
			continue
		}
		v := &verification{T: t}
		for _, word := range a.Command {
			v.command = append(v.command, placeholders.Replace(word))
		}
		return v
	}
	t.Fatalf("component %s of plugin %s has no action %s", component, plugin, action)
	return nil
}

// ends runs it and checks how it ends, and what it says.
func (v *verification) ends(code int, says string) {
	v.Helper()
	cmd := exec.CommandContext(v.Context(), v.command[0], v.command[1:]...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, v.env...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err, ended := cmd.Run(), (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &ended) {
		v.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(said.String(), says) {
		v.Errorf("it ends with exit code %d, want %d: %s", got, code, said.String())
	}
}

// Only what the data itself shows says that it is bad.
func TestVerificationOfPostgreSQL(t *testing.T) {
	s := testpostgres.New(t)
	stop, _ := s.Start()
	s.SQL("postgres", "CREATE TABLE things AS SELECT generate_series(1, 1000) AS id")
	// So that the log has nothing to mend the page with.
	s.SQL("postgres", "CHECKPOINT")
	version := s.SQL("postgres", "SELECT current_setting('server_version_num')::int / 10000")
	file := filepath.Join(s.SQL("postgres", "SHOW data_directory"),
		s.SQL("postgres", "SELECT pg_relation_filepath('things')"))
	host, port, _ := net.SplitHostPort(s.Address)
	v := verificationOf(t, "postgresql", "postgresql", "check-all", strings.NewReplacer("${app.version}", version))
	address := []string{"PGHOST=" + host, "PGPORT=" + port, "PGCONNECT_TIMEOUT=5", "PGOPTIONS=-c lc_messages=C",
		"PGUSER=postgres"}
	v.env = append(address, "PGPASSWORD="+testpostgres.Password)
	v.ends(0, "databases=2")
	v.env = append(address, "PGPASSWORD=another")
	v.ends(1, "password authentication failed")
	v.env = append(address, "PGPASSWORD="+testpostgres.Password)
	stop()
	v.ends(1, "refused")

	page, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := page.WriteAt(bytes.Repeat([]byte{0xff}, 64), 0); err != nil {
		t.Fatal(err)
	}
	page.Close()
	stop, _ = s.Start()
	v.ends(plan.ExitDataBad, "database postgres cannot be read")
	stop()
	v.ends(1, "refused")
}

func TestVerificationOfRedis(t *testing.T) {
	const password = "hunter2"
	for name, tc := range map[string]struct {
		settings []string
		password string
		code     int
		says     string
	}{
		"good":          {nil, password, 0, "keys=1"},
		"not let in":    {nil, "another", 1, "AUTH"},
		"does not read": {[]string{"--rename-command", "DUMP", ""}, password, plan.ExitDataBad, "database 0"},
	} {
		t.Run(name, func(t *testing.T) {
			port, stop := redisWithKey(t, append(tc.settings, "--requirepass", password), "REDISCLI_AUTH="+password)
			v := verificationOf(t, "redis", "redis", "read-all",
				strings.NewReplacer("-p 6379", "-p "+port, "${app.tls ? '--tls --cacert /zeroinfra/certs/ca.crt' : ''}", ""))
			v.env = []string{"REDISCLI_AUTH=" + tc.password}
			v.ends(tc.code, tc.says)
			stop()
			v.ends(1, "refused")
		})
	}
}

// redisWithKey starts a server with one key.
func redisWithKey(t *testing.T, settings []string, auth string) (port string, stop func()) {
	t.Helper()
	_, port, _ = net.SplitHostPort(testnet.FreeAddress(t))
	server := exec.CommandContext(t.Context(), "redis-server",
		append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", ""}, settings...)...)
	if err := server.Start(); err != nil {
		t.Fatalf("%v: install Debian's package redis-server", err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = server.Process.Kill()
			_ = server.Wait()
		}
	}
	t.Cleanup(stop)
	testpod.Eventually(t, func() error {
		cmd := exec.CommandContext(t.Context(), "redis-cli", "-e", "-p", port, "SET", "key", "value")
		cmd.Env = append(os.Environ(), auth)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	return port, stop
}
