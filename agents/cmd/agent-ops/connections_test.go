// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// hogged has clients of the superuser take all connections of a server.
func (n *node) hogged() {
	n.Helper()
	for range 12 {
		client := exec.Command(filepath.Join(n.programs, "psql"), "-X", "-h", n.path("run"), "-U", "postgres",
			"-c", "SELECT pg_sleep(1000)")
		client.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + n.root}
		client.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := client.Start(); err != nil {
			n.Fatal(err)
		}
		n.Cleanup(func() {
			_ = client.Process.Kill()
			_ = client.Wait()
		})
	}
	said := ""
	n.await(n.pod+" has no connection left", func() bool {
		said, _ = n.ask("SELECT 1")
		return strings.Contains(said, "too many clients")
	})
}

// reserved asks by the way that is left.
func (n *node) reserved(statement string) string {
	n.Helper()
	client := exec.Command(filepath.Join(n.programs, "psql"), "-X", "-A", "-t", "-q", "-h", n.path("run"),
		"-U", "postgres", "-d", "dbname=postgres replication=database", "-c", statement)
	client.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + n.root}
	out, err := client.CombinedOutput()
	if err != nil {
		n.Fatalf("%s: %s: %v: %s", n.pod, statement, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestTheAgentIsLetInWhereClientsHaveAllConnections: what the engine has servers do is done there, too. A pause that
// begins ends, and another server takes over when it is told to.
func TestTheAgentIsLetInWhereClientsHaveAllConnections(t *testing.T) {
	f := newFlock(t, 2)
	for _, n := range f.nodes {
		configuration, err := os.ReadFile(n.path("postgresql.conf"))
		if err != nil {
			t.Fatal(err)
		}
		n.put("postgresql.conf", "max_connections = 10\n"+string(configuration))
	}
	a, others := f.begin(1)
	b := others[0]
	a.hogged()
	b.hogged()
	waitsFor := `ANY 1 ("db-postgresql-main-1")`
	f.record(a, 0, f.nodes...)
	a.must("update-members")
	if got := a.reserved("SHOW synchronous_standby_names"); got != "" {
		t.Errorf("the primary waits for %q", got)
	}
	f.record(a, 1, f.nodes...)
	a.must("update-members")
	a.must("reload")
	if got := a.reserved("SHOW synchronous_standby_names"); got != waitsFor {
		t.Errorf("the primary waits for %q, want %q", got, waitsFor)
	}
	a.must("pause", "--length", "1s", "--patience", "10s")
	f.await("the pause ends", func() bool { return a.reserved("SHOW synchronous_standby_names") == waitsFor })
	b.must("follow", a.address, "--patience", "10s")

	f.fail(a, b, 0, f.nodes...)
	if got := b.reserved("SELECT pg_is_in_recovery()"); got != "f" {
		t.Errorf("whether it recovers is %q", got)
	}
	if got, _ := b.ask("SELECT 1"); !strings.Contains(got, "too many clients") {
		t.Errorf("it had connections left: %s", got)
	}
}
