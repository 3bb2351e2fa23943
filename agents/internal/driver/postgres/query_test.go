// SPDX-License-Identifier: Apache-2.0

//go:build processes

package postgres_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/postgres"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/testpostgres"
)

func TestQueries(t *testing.T) {
	s := newServer(t)
	s.Start()
	s.SQL("postgres", "CREATE DATABASE shop")
	ask := func(text string, access driver.Access, arguments ...string) (driver.Table, error) {
		return s.Query(t.Context(), driver.Statement{Text: text, Arguments: arguments, Database: "shop", Access: access})
	}
	got, err := ask("SELECT current_database() AS base, $1::text AS said, NULL AS nothing", driver.ReadOnly,
		"it's; DROP TABLE x")
	if err != nil || strings.Join(got.Columns, " ") != "base said nothing" || *got.Rows[0][0] != "shop" ||
		*got.Rows[0][1] != "it's; DROP TABLE x" || got.Rows[0][2] != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := ask("CREATE TABLE public.a ()", driver.ReadOnly); err == nil ||
		!strings.Contains(err.Error(), "read-only transaction") {
		t.Errorf("a query that only reads writes: %v", err)
	}
	if _, err := ask("CREATE TABLE public.a ()", driver.ReadWrite); err != nil {
		t.Error(err)
	}
	if _, err := ask("SELECT 1; SELECT 2", driver.ReadWrite); err == nil ||
		!strings.Contains(err.Error(), "multiple commands") {
		t.Errorf("two statements: %v", err)
	}
	if _, err := ask("SELECT repeat('x', 1000) FROM generate_series(1, 20000)", driver.ReadOnly); err == nil ||
		!strings.Contains(err.Error(), "more than 8 MiB") {
		t.Errorf("an answer of 20 MB: %v", err)
	}
}

// At the end of a call, the server does not go on with it.
func TestWhatIsCancelledEndsInTheServer(t *testing.T) {
	s := newServer(t)
	s.Start()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Query(ctx, driver.Statement{Text: "SELECT pg_sleep(1000)", Access: driver.ReadOnly})
		ended <- err
	}()
	running := func() string {
		return s.SQL("postgres", "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(1000)' AND state = "+
			"'active'")
	}
	until := func(count string) {
		for end := time.Now().Add(time.Minute); running() != count; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s of them run, not %s", running(), count)
			}
		}
	}
	until("1")
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "did not end in time") {
		t.Errorf("got %v", err)
	}
	until("0")
}

func TestHungServerIsLeft(t *testing.T) {
	s := newServer(t)
	if _, err := s.Observe(t.Context(), postgres.KindRole, []driver.Query{named("a")}); err == nil {
		t.Error("a server that is not there answers")
	}
	_, process := s.Start()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := s.Observe(ctx, postgres.KindRole, []driver.Query{named("a")}); err == nil ||
		time.Since(begin) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
}

// What waits for somebody's transaction gives up, and the others are changed.
func TestLockOfSomebodyHoldsUpOneObject(t *testing.T) {
	s := newServer(t)
	s.Start()
	s.must(postgres.KindRole, wanted(driver.Create, "held"), wanted(driver.Create, "free"))
	holding := make(chan string, 1)
	go func() {
		holding <- s.As("postgres", testpostgres.Password, "postgres",
			"BEGIN; ALTER ROLE held CONNECTION LIMIT 3; SELECT pg_sleep(60)")
	}()
	for end := time.Now().Add(time.Minute); s.SQL("postgres",
		"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") != "1"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody holds the role")
		}
	}
	problems := s.change(postgres.KindRole, wanted(driver.Update, "held", "login", "yes"),
		wanted(driver.Update, "free", "login", "yes"))
	if len(problems) != 1 || !strings.Contains(problems["held"], "lock timeout") {
		t.Errorf("got %v", problems)
	}
	if got := s.observe(postgres.KindRole, named("free")); got["free"].Parameters["login"] != "yes" {
		t.Errorf("got %v", got)
	}
	s.SQL("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
	<-holding
}

func TestTLS(t *testing.T) {
	ca, other := testpki.New(t), testpki.New(t)
	folder := t.TempDir()
	certificate, key := ca.Issue(t, testpki.Pod("server", "default"))
	s := newServer(t, "ssl = on")
	for name, content := range map[string][]byte{"server.crt": certificate, "server.key": key} {
		s.Put(name, content)
	}
	for name, content := range map[string][]byte{"ca.crt": ca.PEM(), "other.crt": other.PEM()} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Start()
	for file, says := range map[string]string{"ca.crt": "", "other.crt": "unknown authority",
		"none.crt": "cannot read the CA"} {
		d := postgres.New(postgres.Options{
			Target: link.Target{Address: s.Address, CAFile: filepath.Join(folder, file), Username: "postgres",
				Password: func() (string, error) { return testpostgres.Password, nil }}})
		table, err := d.Query(t.Context(), driver.Statement{Text: "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"})
		if says == "" && (err != nil || *table.Rows[0][0] != "t") || says != "" &&
			(err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, %v; want %q", file, table, err, says)
		}
	}
}
