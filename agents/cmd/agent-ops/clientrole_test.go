// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// withClientRole gives pods the credential of the role that clients log in with.
func (f *flock) withClientRole(password, revision string, pods ...*node) {
	f.Helper()
	for _, n := range pods {
		if err := os.MkdirAll(n.path("secrets/app"), 0o700); err != nil {
			f.Fatal(err)
		}
		f.own(n.path("secrets/app"))
		n.secret("app", password, revision)
	}
}

// client is a session of the role that clients log in with.
func (n *node) client(password, statement string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(n.programs, "psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1",
		"-h", n.address, "-U", "app", "-d", "app", "-c", statement)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + n.root, "PGPASSWORD=" + password, "PGCONNECT_TIMEOUT=5"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// says checks what clients are told by a server; what it refuses is part of that.
func (n *node) says(want, password, statement string) {
	n.Helper()
	out, err := n.client(password, statement).CombinedOutput()
	if got := strings.TrimSpace(string(out)); got != want && (want == "" || !strings.Contains(got, want)) {
		n.Errorf("%s: %s: got %q, %v; want %q", n.pod, statement, got, err, want)
	}
}

// occupied has clients take so many connections; those that are turned away try again until the test ends.
func (n *node) occupied(count int) {
	ctx, stop := context.WithCancel(n.Context())
	var clients sync.WaitGroup
	n.Cleanup(func() {
		stop()
		clients.Wait()
	})
	for range count {
		clients.Go(func() {
			for ctx.Err() == nil {
				client := n.client("given", "SELECT pg_sleep(1000)")
				if client.Start() != nil {
					return
				}
				ends := context.AfterFunc(ctx, func() { _ = client.Process.Kill() })
				_ = client.Wait()
				ends()
			}
		})
	}
}

// The role of clients is no superuser, owns its database, and is nothing else.
const (
	clientRoleIs = "SELECT rolsuper, rolcreaterole, rolreplication, rolbypassrls, rolcanlogin FROM pg_roles " +
		"WHERE rolname = 'app'"
	clientDatabase = "SELECT count(*), min(pg_get_userbyid(datdba)) FROM pg_database WHERE datname = 'app'"
)

// TestClientsHaveARoleThatOwnsItsDatabase: the start makes both, another password is taken over by a reload, by a start
// and by a replica that takes over.
func TestClientsHaveARoleThatOwnsItsDatabase(t *testing.T) {
	f := newFlock(t, 2)
	f.withClientRole("it's", "1", f.nodes...)
	a, others := f.begin(1)
	b := others[0]
	a.gives("f|f|f|f|t", clientRoleIs)
	a.gives("1|app", clientDatabase)
	a.says("", "it's", "CREATE TABLE goods (n int)")
	a.says("", "it's", "INSERT INTO goods VALUES (7)")
	a.says("must be superuser", "it's", "COPY goods TO PROGRAM 'true'")
	a.says("permission denied", "it's", "CREATE ROLE other")
	a.says("permission denied", "it's", "SELECT pg_read_file('PG_VERSION')")

	f.withClientRole(`a "new\ one`, "2", f.nodes...)
	a.must("reload")
	a.says("7", `a "new\ one`, "SELECT n FROM goods")
	a.says("password authentication failed", "it's", "SELECT n FROM goods")

	// The replica has what it needs by the log, and a password that came meanwhile by its Secret.
	f.withClientRole("third", "3", f.nodes...)
	f.fail(a, b, 0, f.nodes...)
	b.says("7", "third", "SELECT n FROM goods")
	b.says("", "third", "INSERT INTO goods VALUES (8)")

	f.withClientRole("fourth", "4", f.nodes...)
	b.signal(syscall.SIGINT)
	b.start("--writer")
	b.answers()
	b.says("15", "fourth", "SELECT sum(n) FROM goods")
	b.gives("1|app", clientDatabase)
	if strings.Contains(a.whole()+b.whole(), "fourth") {
		t.Error("a password is in the log")
	}
}

// TestClientsGetTheirRoleWhenAnEarlierServerIsUpgraded: pods are replaced one at a time, and the replica that has the
// password takes over from a primary that has never heard of it. What the server has under these names stays.
func TestClientsGetTheirRoleWhenAnEarlierServerIsUpgraded(t *testing.T) {
	for _, c := range []struct {
		name, before, owner string
		made                bool
	}{
		{name: "nothing there", before: "SELECT 1", owner: "1|app", made: true},
		{name: "role there", before: "CREATE ROLE app LOGIN PASSWORD 'own' CONNECTION LIMIT 5", owner: "1|app", made: true},
		{name: "database there", before: "CREATE DATABASE app", owner: "1|postgres"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, a, others := began(t, 2, 1)
			b := others[0]
			a.sql(c.before)
			f.withClientRole("given", "1", b)
			f.fail(a, b, 0, f.nodes...)
			b.gives(c.owner, clientDatabase)
			b.says("app", "given", "SELECT current_user")
			if c.made {
				b.says("", "given", "CREATE TABLE goods (n int)")
			}
			// The other pod, which comes with the password as well, finds all that there is to be.
			f.withClientRole("given", "1", a)
			a.follow(b)
			f.fail(b, a, 0, f.nodes...)
			a.says("app", "given", "SELECT current_user")
		})
	}
}

// TestClientsHaveNoReservedConnections: what they leave free is for the superuser, so that the agent's ordinary way in
// is open while clients are turned away.
func TestClientsHaveNoReservedConnections(t *testing.T) {
	f := newFlock(t, 1)
	a := f.nodes[0]
	configuration, err := os.ReadFile(a.path("postgresql.conf"))
	if err != nil {
		t.Fatal(err)
	}
	a.put("postgresql.conf", "max_connections = 10\n"+string(configuration))
	f.withClientRole("given", "1", a)
	f.begin(0)
	a.occupied(7)
	a.gives("7", "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'")
	a.says("remaining connection slots are reserved", "given", "SELECT 1")
	a.must("reload")
}
