// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/postgres/wal"
	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/agents/internal/testpostgres"
)

// redisServer is one with a folder of its own, on loopback.
func (m *carrier) redisServer(dir string, flags ...string) (ask func(words ...string) string, port string) {
	m.Helper()
	if err := os.MkdirAll(m.path(dir), 0o755); err != nil {
		m.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(testnet.FreeAddress(m))
	server := exec.Command("redis-server",
		append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", m.path(dir), "--requirepass", "hunter22",
			"--repl-diskless-sync-delay", "0",
			"--enable-debug-command", "local"}, flags...)...)
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	ask = func(words ...string) string {
		client := exec.Command("redis-cli", append([]string{"-p", port}, words...)...)
		client.Env = append(os.Environ(), "REDISCLI_AUTH=hunter22")
		said, _ := client.CombinedOutput()
		return strings.TrimSpace(string(said))
	}
	m.await("the server answers", func() bool { return ask("ping") == "PONG" })
	return ask, port
}

// TestMoverRedis carries the data of a real server into another.
func TestMoverRedis(t *testing.T) {
	m := newMover(t)
	m.env = []string{"REDISCLI_AUTH=hunter22"}
	ask, port := m.redisServer("source")
	ask("debug", "populate", "100000", "key", "100")
	before := ask("debug", "digest")
	made := m.succeeds(backup("mover-1", "exec redis-cli -p "+port+" --rdb -"))
	if made.RawSize < 1<<20 {
		t.Errorf("the data has %d bytes", made.RawSize)
	}
	ask("flushall")
	plan := restore()
	plan.Command = shell("mkdir target && cat > target/dump.rdb")
	m.succeeds(plan)
	restored, _ := m.redisServer("target")
	if got := restored("debug", "digest"); got != before || len(got) != 40 {
		t.Errorf("the data is %s, and was %s", got, before)
	}
	// The plugin's own way back, for a server that reads its snapshot and for one that reads its log of writes, and goes
	// on with that.
	for _, appendonly := range []string{"no", "yes"} {
		m.disk()
		m.env = []string{"REDISCLI_AUTH=hunter22", "APPENDONLY=" + appendonly}
		m.succeeds(m.wayBack("redis", "redis", "rdb"))
		if has(m.path("disk", "appendonlydir")) != (appendonly == "yes") {
			t.Errorf("with appendonly %s there is %v", appendonly, m.on())
		}
		restored, _ := m.redisServer("disk", "--appendonly", appendonly)
		if got := restored("debug", "digest"); got != before {
			t.Errorf("with appendonly %s the data is %s, and was %s", appendonly, got, before)
		}
		restored("set", "new", "new")
		after := restored("debug", "digest")
		restored("shutdown", "save")
		again, _ := m.redisServer("disk", "--appendonly", appendonly)
		if got := again("debug", "digest"); got != after || again("get", "new") != "new" {
			t.Errorf("with appendonly %s the data is %s after a restart, and was %s", appendonly, got, after)
		}
	}
	ask("shutdown", "nosave")
	m.succeeds(of("delete"))
	m.fails(backup("mover-2", "exec redis-cli -p "+port+" --rdb -"), "CommandFailed", "Connection refused")
}

// TestMoverPostgreSQL carries the data of a real server, and the server's own tool finds it as it was.
func TestMoverPostgreSQL(t *testing.T) {
	m := newMover(t)
	s := testpostgres.New(t, "wal_level = replica", "max_wal_senders = 4")
	s.Start()
	s.SQL("postgres", "CREATE TABLE t AS SELECT n, repeat('x', 100) FROM generate_series(1, 100000) n")
	host, port, _ := net.SplitHostPort(s.Address)
	bins, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_verifybackup")
	if err != nil || len(bins) == 0 {
		t.Fatal("there is no pg_verifybackup: install Debian's package postgresql")
	}
	programs := filepath.Dir(bins[len(bins)-1])
	m.env = []string{"PGPASSWORD=" + testpostgres.Password, fmt.Sprintf("PGHOST=%s", host), "PGPORT=" + port,
		"PGUSER=postgres"}
	plan := backup("mover-1", "exec "+programs+"/pg_basebackup -D - -Ft -X fetch --checkpoint=fast --no-password")
	plan.Facts = shell("exec " + programs +
		`/psql -X -A -t -q -d postgres -c "SELECT 'timeline=' || timeline_id FROM pg_control_checkpoint()"`)
	made := m.succeeds(plan)
	if made.Facts["timeline"] != "1" || made.RawSize < 20<<20 {
		t.Errorf("the result is %+v", made)
	}
	into := restore()
	into.Command = shell("mkdir -m 700 target && tar -x -C target && exec " + programs + "/pg_verifybackup target")
	m.succeeds(into)
	// The plugin's own way back. It refuses data of another major version, and what is none.
	major := filepath.Base(filepath.Dir(programs))
	m.disk()
	m.env = append(m.env, asAgent+"=1", "VERSION="+major)
	m.succeeds(m.wayBack("postgresql", "postgresql", "base"))
	if said, err := exec.Command(programs+"/pg_verifybackup", "--ignore="+wal.RestoredFile, "--ignore="+wal.ArchiveFile,
		m.path("disk", "pgdata")).CombinedOutput(); err != nil {
		t.Errorf("what is restored is not what was kept: %v: %s", err, said)
	}
	if info, err := os.Stat(m.path("disk", "pgdata")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info, err)
	}
	m.disk()
	m.env[len(m.env)-1] = "VERSION=9"
	m.fails(m.wayBack("postgresql", "postgresql", "base"), "CommandFailed", "and this is 9")
	m.succeeds(of("delete"))
	m.env[0] = "PGPASSWORD=wrong-password"
	m.fails(plan, "CommandFailed", "password authentication failed")
}
