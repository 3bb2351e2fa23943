// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReplicationOfPostgreSQL: what the agents do makes one primary and two that follow, through the loss of two
// primaries.
func TestReplicationOfPostgreSQL(t *testing.T) {
	t.Parallel()
	f, a, others := began(t, 3, 1)
	b, c := others[0], others[1]
	a.sql("INSERT INTO t VALUES (1)")
	if got := a.sql("SHOW synchronous_standby_names"); got != `ANY 1 ("db-postgresql-main-1", "db-postgresql-main-2")` {
		t.Errorf("the primary waits for %s", got)
	}
	got := a.sql("SELECT string_agg(slot_name, ' ' ORDER BY slot_name) FROM pg_replication_slots WHERE active")
	if got != "member_1 member_2" {
		t.Errorf("the slots are %q", got)
	}
	c.gives("1", "SELECT count(*) FROM t")

	f.fail(a, b, 1, f.nodes...)
	// The other one repoints without being started anew.
	started := c.process.Process.Pid
	c.follows(b)
	b.sql("INSERT INTO t VALUES (2)")
	c.gives("2", "SELECT count(*) FROM t")
	if c.process.Process.Pid != started {
		t.Error("a follower was started anew to follow another primary")
	}
	a.follow(b)
	a.gives("2", "SELECT count(*) FROM t")

	f.fail(b, c, 1, f.nodes...)
	a.follows(c)
	c.sql("INSERT INTO t VALUES (3)")
	b.follow(c)
	b.gives("3", "SELECT count(*) FROM t")
	const slots = "SELECT string_agg(slot_name, ' ' ORDER BY slot_name) FROM pg_replication_slots WHERE active"
	if got := c.sql(slots); got != "member_0 member_1" {
		t.Errorf("after two failovers the slots are %q", got)
	}
	if got, _ := os.ReadFile(a.path("data/pgdata/zeroinfra.timelines")); string(got) != "2 2\n3 3\n" {
		t.Errorf("the timelines are of the terms %q", got)
	}
	if secrets, err := exec.Command("grep", "-rl", "fol:low", f.root).Output(); err == nil {
		for _, path := range strings.Fields(string(secrets)) {
			if !strings.Contains(path, "/secrets/") && !strings.HasSuffix(path, "/start") && path != f.binary {
				t.Errorf("a password is in %s", path)
			}
		}
	}
}

// TestDataThatWentElsewhere is brought back: what nobody else had is gone, and nothing else.
func TestDataThatWentElsewhere(t *testing.T) {
	t.Parallel()
	f, a, others := began(t, 2, 0)
	b := others[0]
	a.sql("INSERT INTO t VALUES (1)")
	b.gives("1", "SELECT count(*) FROM t")
	// The follower hears nothing of this.
	b.signal(syscall.SIGKILL)
	a.sql("INSERT INTO t SELECT generate_series(100, 199)")
	a.signal(syscall.SIGKILL)
	f.term++
	f.record(b, 0, f.nodes...)
	// It is named while its process is down.
	b.start("--writer")
	b.gives("f", "SELECT pg_is_in_recovery()")
	b.sql("INSERT INTO t VALUES (2)")
	if got := b.sql("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"); got != "00000002" {
		t.Errorf("it goes on on timeline %s: others may have more of the first one", got)
	}
	// While the primary is away, what went elsewhere is there to be looked at, and follows nobody.
	a.put("data/.zeroinfra.rejoin", "Rewinds")
	if err := b.process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.start("--primary", b.address)
	a.gives("101", "SELECT count(*) FROM t")
	if got := a.sql("SHOW primary_conninfo"); got != "" {
		t.Errorf("it follows %s", got)
	}
	if err := b.process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.follows(b)
	a.gives("2", "SELECT count(*) FROM t")
	if said := a.whole(); !strings.Contains(said, "is rewound") ||
		strings.Contains(said, "all data of the primary is copied") {
		t.Errorf("the data was not rewound: %s", said)
	}
	if _, err := os.Stat(a.path("data/.zeroinfra.rejoin")); err == nil {
		t.Error("the repair is still to be done")
	}
	// A timeline of the same number that began in another term. It is found out when a follower starts: one that runs has
	// gone on with its primary.
	a.signal(syscall.SIGKILL)
	b.signal(syscall.SIGKILL)
	a.put("data/pgdata/zeroinfra.timelines", "2 77\n")
	f.term++
	f.record(b, 0, f.nodes...)
	b.start("--writer")
	b.gives("f", "SELECT pg_is_in_recovery()")
	b.sql("INSERT INTO t VALUES (3)")
	a.follows(b)
	a.gives("3", "SELECT count(*) FROM t")
	if said := a.whole(); !strings.Contains(said, "began in term 77") ||
		!strings.Contains(said, "all data of the primary is copied") {
		t.Errorf("data of another term was followed: %s", said)
	}
}

// TestACopyThatIsCutOff is begun anew, and half of it is never taken for data.
func TestACopyThatIsCutOff(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 2)
	a, b := f.nodes[0], f.nodes[1]
	f.record(a, 0, a)
	a.start("--writer")
	a.answers()
	a.sql("CREATE TABLE t AS SELECT n, repeat('x', 1000) FROM generate_series(1, 50000) n")
	b.start("--primary", a.address)
	f.await("the copy has begun", func() bool {
		_, err := os.Stat(b.path("data/pgdata.new/base"))
		return err == nil
	})
	b.signal(syscall.SIGKILL)
	if _, err := os.Stat(b.path("data/pgdata")); err == nil {
		t.Fatal("half a copy is taken for data")
	}
	b.follow(a)
	b.gives("50000", "SELECT count(*) FROM t")
	left, err := filepath.Glob(b.path("data/pgdata.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind are %v, %v", left, err)
	}
	// An empty volume is no primary of those that have data.
	b.signal(syscall.SIGKILL)
	if err := os.RemoveAll(b.path("data/pgdata")); err != nil {
		t.Fatal(err)
	}
	f.term++
	f.record(b, 0, a, b)
	if err := b.do("start", "--writer"); err == nil ||
		!strings.Contains(err.Error(), "an empty server never becomes the primary") {
		t.Errorf("it says %v", err)
	}
	// Data that was being rewound is none.
	f.record(a, 0, a, b)
	b.follow(a)
	b.signal(syscall.SIGINT)
	b.put("data/.zeroinfra.rejoin", "Broken")
	if err := b.do("start", "--writer"); err == nil || !strings.Contains(err.Error(), "is incomplete") {
		t.Errorf("it says %v", err)
	}
	b.follow(a)
	b.gives("50000", "SELECT count(*) FROM t")
}

// TestALogThatIsGone has the follower copy all data.
func TestALogThatIsGone(t *testing.T) {
	t.Parallel()
	_, a, others := began(t, 2, 0)
	b := others[0]
	b.signal(syscall.SIGINT)
	a.sql("SELECT pg_drop_replication_slot('member_1')")
	for range 12 {
		a.sql("INSERT INTO t SELECT generate_series(1, 100000)")
		a.sql("SELECT pg_switch_wal()")
		a.sql("CHECKPOINT")
	}
	b.follow(a)
	b.gives("1200000", "SELECT count(*) FROM t")
	if said := b.whole(); !strings.Contains(said, "the primary no longer has the log") ||
		strings.Count(said, "all data of the primary is copied") != 2 {
		t.Errorf("it followed without the log: %s", said)
	}
}

// TestALogThatIsGoneWhileAFollowerRuns: it asks for that in vain until it is looked after, and that does no harm to one
// who follows.
func TestALogThatIsGoneWhileAFollowerRuns(t *testing.T) {
	t.Parallel()
	_, a, others := began(t, 2, 0)
	b := others[0]
	started := b.process.Process.Pid
	b.must("follow", a.address)
	a.sql("ALTER ROLE zeroinfra_replication NOLOGIN")
	a.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
	a.gives("0", "SELECT count(*) FROM pg_replication_slots WHERE active")
	a.sql("SELECT pg_drop_replication_slot('member_1')")
	for range 12 {
		a.sql("INSERT INTO t SELECT generate_series(1, 100000)")
		a.sql("SELECT pg_switch_wal()")
		a.sql("CHECKPOINT")
	}
	a.sql("ALTER ROLE zeroinfra_replication LOGIN")
	if b.process.Process.Pid != started {
		t.Error("it was started anew while its writer was away")
	}
	b.follows(a)
	b.gives("1200000", "SELECT count(*) FROM t")
	if said := b.whole(); !strings.Contains(said, "the primary no longer has the log") {
		t.Errorf("it says %s", said)
	}
}

// TestTooFewToWaitFor: writes wait for who can have them, and for nobody else.
func TestTooFewToWaitFor(t *testing.T) {
	t.Parallel()
	f, a, others := began(t, 3, 1)
	b, c := others[0], others[1]
	for _, n := range others {
		n.signal(syscall.SIGKILL)
	}
	if out, err := a.ask("INSERT INTO t VALUES (1)"); err == nil {
		t.Errorf("a write was acknowledged that nobody else has: %s", out)
	}
	// One that is no member counts for nothing.
	f.record(a, 1, a, b)
	a.must("update-members")
	c.follow(a)
	if out, err := a.ask("INSERT INTO t VALUES (2)"); err == nil {
		t.Errorf("a write was acknowledged by one that is no member: %s", out)
	}
	// Nobody is left to wait for.
	f.record(a, 1, a)
	a.must("update-members")
	if out, err := a.ask("INSERT INTO t VALUES (3)"); err == nil {
		t.Errorf("a write was acknowledged that one other should have: %s", out)
	}
	f.record(a, 0, a)
	a.must("update-members")
	a.sql("INSERT INTO t VALUES (4)")
	f.nodes = slices.Delete(f.nodes, 2, 3)
	c.signal(syscall.SIGKILL)
	a.gives("0", "SELECT count(*) FROM pg_replication_slots WHERE active")
	const slots = "SELECT string_agg(slot_name, ' ' ORDER BY slot_name) FROM pg_replication_slots"
	f.record(a, 0, a, b, c)
	a.must("update-members")
	if got := a.sql(slots); got != "member_1 member_2" {
		t.Errorf("the slots are %q, and there are three members", got)
	}
	f.record(a, 0, a)
	a.must("update-members")
	if got := a.sql(slots); got != "member_1" {
		t.Errorf("the slots are %q, and there are two pods", got)
	}
}

// TestAPause has writes wait, and ends by itself: where others have copies, and where nobody is waited for.
func TestAPause(t *testing.T) {
	for copies, waitsFor := range map[int]string{0: "", 1: `ANY 1 ("db-postgresql-main-1")`} {
		t.Run(fmt.Sprintf("%d copies", copies), func(t *testing.T) {
			f, a, _ := began(t, 2, copies)
			a.must("pause", "--length", "3s", "--patience", "5s")
			begin := time.Now()
			if got := a.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"); got != "0" {
				t.Errorf("%s sessions of the pause itself are left", got)
			}
			a.sql("INSERT INTO t VALUES (1)")
			if took := time.Since(begin); took < 2*time.Second || took > 5*time.Second {
				t.Errorf("a write waited for %v of 3 s", took)
			}
			if got := a.sql("SHOW synchronous_standby_names"); got != waitsFor {
				t.Errorf("after the pause the primary waits for %q", got)
			}
			// A server that ends with its pause does not begin with one.
			a.must("pause", "--length", "20s", "--patience", "5s")
			a.signal(syscall.SIGKILL)
			f.record(a, 0, f.nodes...)
			a.start("--writer")
			a.answers()
			a.sql("INSERT INTO t VALUES (2)")
		})
	}
}

// TestALimitThatIsLowered keeps no follower from following: it has the primary's until it is one itself.
func TestALimitThatIsLowered(t *testing.T) {
	f, a, others := began(t, 2, 0)
	b := others[0]
	configuration, err := os.ReadFile(b.path("postgresql.conf"))
	if err != nil {
		t.Fatal(err)
	}
	b.put("postgresql.conf", "max_connections = 50\n"+string(configuration))
	b.signal(syscall.SIGINT)
	b.follow(a)
	b.gives("100", "SHOW max_connections")
	a.sql("INSERT INTO t VALUES (1)")
	b.gives("1", "SELECT count(*) FROM t")
	f.fail(a, b, 0, f.nodes...)
	b.gives("max_connections", "SELECT string_agg(name, ' ') FROM pg_settings WHERE pending_restart AND name <> "+
		"'max_wal_senders'")
	b.signal(syscall.SIGINT)
	b.start("--writer")
	b.gives("50", "SHOW max_connections")
}

// TestALimitThatIsLoweredBeforeItIsNamed: a follower whose server is down when it becomes the primary recovers with the
// limits that its data needs.
func TestALimitThatIsLoweredBeforeItIsNamed(t *testing.T) {
	t.Parallel()
	f, a, others := began(t, 2, 0)
	b := others[0]
	configuration, err := os.ReadFile(b.path("postgresql.conf"))
	if err != nil {
		t.Fatal(err)
	}
	a.sql("INSERT INTO t VALUES (1)")
	b.gives("1", "SELECT count(*) FROM t")
	b.put("postgresql.conf", "max_connections = 50\n"+string(configuration))
	b.signal(syscall.SIGINT)
	a.signal(syscall.SIGKILL)
	f.term++
	f.record(b, 0, f.nodes...)
	b.start("--writer")
	b.gives("1", "SELECT count(*) FROM t")
	b.gives("f", "SELECT pg_is_in_recovery()")
	b.sql("INSERT INTO t VALUES (2)")
}

// TestAPauseThatWasGivenUp does not come back with a later reload: it may be in the file of settings although the
// server never went by it.
func TestAPauseThatWasGivenUp(t *testing.T) {
	t.Parallel()
	_, a, _ := began(t, 2, 0)
	const left = "SELECT count(*) FROM pg_file_settings WHERE name = 'synchronous_standby_names' AND setting LIKE " +
		"'%paused%'"
	a.sql(`ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ("zeroinfra-paused-99")'`)
	a.must("resume", "zeroinfra-paused-98")
	a.gives("1", left)
	a.must("resume", "zeroinfra-paused-99")
	a.gives("0", left)
	a.sql("SELECT pg_reload_conf()")
	a.sql("INSERT INTO t VALUES (1)")
}

// TestANewPasswordForFollowers: one that the primary does not have yet keeps nobody from following.
func TestANewPasswordForFollowers(t *testing.T) {
	t.Parallel()
	f, a, others := began(t, 3, 0)
	b, c := others[0], others[1]
	for _, n := range f.nodes {
		n.secret("replication", "another", "2")
		n.secret("superuser", "chief", "2")
	}
	for _, n := range others {
		n.signal(syscall.SIGINT)
		n.follow(a)
	}
	f.fail(a, b, 0, f.nodes...)
	c.follows(b)
	a.follow(b)
	for _, n := range f.nodes {
		if got, _ := os.ReadFile(n.path("run/replication.pass")); n != b && !strings.Contains(string(got), ":another\n") {
			t.Errorf("%s goes on with %q", n.pod, got)
		}
	}
	cmd := exec.Command(filepath.Join(f.programs, "psql"), "-X", "-A", "-t", "-h", b.address, "-U", "postgres", "-d",
		"postgres", "-c", "SELECT 1")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "PGPASSWORD=chief"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the new password of the superuser does not do: %s", out)
	}
}

// TestAPlannedChangeIsShort: how long no write is acknowledged while another server takes over, without the time that
// the engine takes to decide. The one that follows is told at the same time as the one that is promoted, as by the
// engine.
func TestAPlannedChangeIsShort(t *testing.T) {
	f, a, others := began(t, 3, 1)
	b, c := others[0], others[1]
	const rounds = 3
	var gaps []time.Duration
	for range rounds {
		a.sql("INSERT INTO t VALUES (1)")
		last := time.Now()
		a.must("pause", "--length", "5s", "--patience", "5s")
		paused := time.Since(last)
		a.signal(syscall.SIGKILL)
		f.term++
		f.record(b, 1, f.nodes...)
		told, followed := time.Now(), make(chan time.Duration, 1)
		go func() {
			for delay := 200 * time.Millisecond; c.do("follow", b.address) != nil; delay *= 2 {
				time.Sleep(delay)
			}
			followed <- time.Since(told)
		}()
		b.must("promote")
		promoted := time.Since(told)
		b.sql("INSERT INTO t VALUES (2)")
		gaps = append(gaps, time.Since(last))
		t.Logf("nobody was served for %v: paused in %v, promoted in %v, and the other one follows after %v", time.Since(last),
			paused, promoted, <-followed)
		a.follow(b)
		a, b = b, a
	}
	if shortest := slices.Min(gaps); shortest > 2*time.Second {
		t.Errorf("the shortest of %d changes took %v", rounds, shortest)
	}
}

// TestAReload has the server take over what it can, says what it cannot take, and sets the passwords that the Secrets
// have by now.
func TestAReload(t *testing.T) {
	f, a, others := began(t, 2, 0)
	b := others[0]
	configuration, err := os.ReadFile(a.path("postgresql.conf"))
	if err != nil {
		t.Fatal(err)
	}
	pooler := func(password string) error {
		cmd := exec.Command(filepath.Join(f.programs, "psql"), "-X", "-A", "-t", "-h", a.address, "-U", "zeroinfra_pooler",
			"-d", "postgres",
			"-c", "SELECT verifier FROM zeroinfra.pooler_user('postgres')", "-c",
			"SELECT name FROM zeroinfra.pooler_user('zeroinfra_replication')")
		cmd.Env = []string{"PATH=/usr/bin:/bin", "PGPASSWORD=" + password, "PGCONNECT_TIMEOUT=5"}
		out, err := cmd.CombinedOutput()
		if err == nil && (!strings.HasPrefix(string(out), "SCRAM-SHA-256$") || strings.Count(string(out), "\n") != 1) {
			return fmt.Errorf("it is told %q", out)
		}
		return err
	}
	if err := pooler("swim"); err != nil {
		t.Fatal(err)
	}
	for _, n := range f.nodes {
		n.secret("pooler", "float", "2")
		n.put("postgresql.conf", string(configuration)+"work_mem = 5MB\nmax_connections = 77\n")
	}
	a.must("reload")
	a.gives("5MB", "SHOW work_mem")
	a.gives("100", "SHOW max_connections")
	if err := pooler("float"); err != nil {
		t.Error(err)
	}
	if err := pooler("swim"); err == nil {
		t.Error("the password before does still")
	}
	if err := b.do("reload"); err != nil {
		t.Errorf("one that follows: %v", err)
	}
	a.put("postgresql.conf", string(configuration)+"work_mem = 9MB\nrandom_page_cost = much\n")
	if err := a.do("reload"); err == nil || !strings.Contains(err.Error(), "random_page_cost") {
		t.Errorf("it says %v", err)
	}
	a.gives("5MB", "SHOW work_mem")

	// Rules of who may come are read as well: one that is none is said, and those of before stay.
	a.put("postgresql.conf", string(configuration))
	rules, err := os.ReadFile(a.path("pg_hba.conf"))
	if err != nil {
		t.Fatal(err)
	}
	a.put("pg_hba.conf", string(rules)+"host all all 10.0.0.0/33 reject\n")
	if err := a.do("reload"); err == nil || !strings.Contains(err.Error(), "line 4 of pg_hba.conf") {
		t.Errorf("it says %v", err)
	}
	if err := pooler("float"); err != nil {
		t.Error(err)
	}
	a.put("pg_hba.conf", strings.Replace(string(rules), "host all", "host all zeroinfra_pooler all reject\nhost all", 1))
	a.must("reload")
	if err := pooler("float"); err == nil {
		t.Error("who is kept out comes in")
	}
}
