// SPDX-License-Identifier: Apache-2.0

//go:build processes

package binlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/driver/mysql/binlog"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/pointintime"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/agents/internal/testmysql"
	"github.com/zeroinfra/agents/internal/volumealarm"
)

// archived is a server whose logs are archived in a folder.
type archived struct {
	*testmysql.Server
	archiver *binlog.Archiver
	folder   string
	notes    string
}

func newArchived(t *testing.T) *archived {
	t.Helper()
	s := testmysql.New(t, "server_id = 1", "gtid_mode = ON", "enforce_gtid_consistency = ON", "log_bin = binlog",
		"innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1")
	a := &archived{Server: s, folder: t.TempDir()}
	a.notes = filepath.Join(s.Server.Run, server.ArchiveFile)
	place := binlog.Place{Open: a.open}
	a.archiver = &binlog.Archiver{Driver: s.Server.Driver, Place: func() (binlog.Place, error) { return place, nil },
		Notes: a.notes, Work: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	s.Start()
	return a
}

func (a *archived) open(_ context.Context, id string) (store.Store, error) {
	dir := filepath.Join(a.folder, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return store.NewFolder(dir)
}

// pass closes the log, and archives it.
func (a *archived) pass() {
	a.Helper()
	for range 2 {
		if state, err := a.archiver.Pass(a.Context(), time.Now()); err != nil || state == binlog.StateIdle {
			a.Fatalf("got %q, %v", state, err)
		}
	}
}

// now is the time of the server.
func (a *archived) now() time.Time {
	a.Helper()
	now, err := time.Parse("2006-01-02 15:04:05.000000", a.SQL("SELECT UTC_TIMESTAMP(6)"))
	if err != nil {
		a.Fatal(err)
	}
	return now
}

// dumped is a dump of the server, and when it was whole.
type dumped struct {
	text  []byte
	facts server.Facts
	since time.Time
}

func (a *archived) dump() dumped {
	a.Helper()
	var text bytes.Buffer
	source := &server.Source{Program: filepath.Join(a.Bin, "mysqldump"), Options: mysql.Options{Address: a.Address,
		Username: "root", Password: func() (string, error) { return testmysql.Password, nil }}}
	facts, err := source.Dump(a.Context(), &text)
	if err != nil {
		a.Fatal(err)
	}
	return dumped{text.Bytes(), facts, a.now()}
}

// restore makes a server of a dump at a time.
func (a *archived) restore(d dumped, until time.Time) (*testmysql.Server, error) {
	a.Helper()
	opened, err := a.open(a.Context(), d.facts.Archive)
	if err != nil {
		a.Fatal(err)
	}
	r := testmysql.New(a.T, "server_id = 2", "gtid_mode = ON", "enforce_gtid_consistency = ON", "log_bin = binlog")
	target := &server.Target{Program: r.Server.Program, Client: filepath.Join(a.Bin, "mysql"), Dir: r.Server.Dir,
		Run: r.Server.Run,
		Replay: &binlog.Replay{Archive: &binlog.Archive{Store: opened}, Until: until, Since: d.since,
			Program: filepath.Join(a.Bin, "mysqlbinlog"), Work: a.TempDir(), Log: slog.New(slog.DiscardHandler)}}
	return r, target.Load(a.Context(), bytes.NewReader(d.text))
}

// has restores to a time, and compares which rows there are.
func (a *archived) has(d dumped, until time.Time, want string) *testmysql.Server {
	a.Helper()
	r, err := a.restore(d, until)
	if err != nil {
		a.Fatalf("to %s: %v", until, err)
	}
	r.Start()
	if got := r.SQL("SELECT GROUP_CONCAT(n ORDER BY n) FROM app.rows_ WHERE n < 100"); got != want {
		a.Errorf("at %s there are the rows %s, want %s", until, got, want)
	}
	return r
}

// refused restores to a time that cannot be reached.
func (a *archived) refused(d dumped, until time.Time, want string) {
	a.Helper()
	_, err := a.restore(d, until)
	if !errors.As(err, new(pointintime.OutOfRange)) || !strings.Contains(err.Error(), want) {
		a.Errorf("to %s: got %v, want %q", until, err, want)
	}
}

// committed is when the last transaction of the newest closed log was.
func (a *archived) committed() time.Time {
	a.Helper()
	names := strings.Fields(a.SQL("SHOW BINARY LOGS"))
	file, err := os.Open(filepath.Join(a.Server.Server.Dir, "mysql", names[len(names)-6]))
	if err != nil {
		a.Fatal(err)
	}
	defer file.Close()
	var last time.Time
	if _, _, err := binlog.Scan(file, func(t binlog.Transaction) error {
		last = t.Committed
		return nil
	}); err != nil || last.IsZero() {
		a.Fatalf("%s has %v, %v", file.Name(), last, err)
	}
	return last
}

// writing has a client write rows from 100 on until it is stopped, and returns how many were acknowledged.
func (a *archived) writing() (stop func() int) {
	ctx, cancel := context.WithCancel(a.Context())
	count := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			if _, err := a.TrySQL(fmt.Sprintf("INSERT INTO app.rows_ (n) VALUES (%d)", 100+n)); err != nil {
				a.Errorf("row %d: %v", n, err)
				break
			}
		}
		count <- n
	}()
	return func() int {
		cancel()
		return <-count
	}
}

// between looks at all that was made between the dump and a time.
func (a *archived) between(base dumped, between time.Time, written int) {
	a.Helper()
	r := a.has(base, between, "1,2")
	if got := r.SQL("SELECT COUNT(*) FROM app.rows_ WHERE n >= 100 AND m = 'it''s'"); got != fmt.Sprint(written) {
		a.Errorf("of %d rows that were written during the dump there are %s", written, got)
	}
	if got := r.SQL("SELECT HEX(b) FROM more.t"); got != "00FF0A27" {
		a.Errorf("got %s", got)
	}
	if _, err := r.As("later", "later", r.Address, "").Content(a.Context()); err != nil {
		a.Error(err)
	}
	if got := r.SQL("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'zeroinfra_archive'"); got != "0" {
		a.Error("what is restored is archived as its source")
	}
}

func TestArchiveAndRestoreToATime(t *testing.T) {
	a := newArchived(t)
	a.SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY); INSERT INTO app.rows_ VALUES (1)")
	before := a.dump()
	if before.facts.Archive != "" {
		t.Errorf("a dump from before the archive leads to %q", before.facts.Archive)
	}
	a.pass()

	t.Log("a dump is made while a client writes")
	stop := a.writing()
	base := a.dump()
	written := stop()
	if !binlog.IsID(base.facts.Archive) || written == 0 {
		t.Fatalf("the facts are %+v, with %d rows", base.facts, written)
	}
	a.SQL("INSERT INTO app.rows_ VALUES (2); ALTER TABLE app.rows_ ADD COLUMN m VARCHAR(9) DEFAULT 'it''s'")
	a.SQL("CREATE USER later IDENTIFIED BY 'later'; GRANT SELECT ON app.* TO later")
	a.SQL("CREATE DATABASE more; CREATE TABLE more.t (b BLOB, id INT PRIMARY KEY); INSERT INTO more.t VALUES " +
		"(x'00ff0a27', 1)")
	between := a.now()
	a.SQL("INSERT INTO app.rows_ (n) VALUES (3)")
	a.pass()
	third := a.committed()

	t.Log("the server is killed, and goes on")
	a.SQL("INSERT INTO app.rows_ (n) VALUES (4)")
	a.Kill()
	a.Start()
	a.SQL("INSERT INTO app.rows_ (n) VALUES (5)")
	a.pass()
	fifth := a.committed()
	a.SQL("INSERT INTO app.rows_ (n) VALUES (6)")
	a.pass()

	a.between(base, between, written)
	t.Log("the time itself is not in it")
	a.has(base, third, "1,2")
	a.has(base, third.Add(time.Microsecond), "1,2,3")
	a.has(base, fifth.Add(time.Microsecond), "1,2,3,4,5")

	a.refused(base, base.since.Add(-time.Hour), "is before")
	a.refused(base, a.now().Add(time.Hour), "what is archived goes up to")
	before.facts.Archive = base.facts.Archive
	a.refused(before, between, "the dump does not say which transactions it has")

	t.Log("a log is missing")
	logs, err := filepath.Glob(filepath.Join(a.folder, base.facts.Archive, "logs", "*", "*.json"))
	if err != nil || len(logs) < 3 {
		t.Fatalf("there are %v, %v", logs, err)
	}
	if err := os.Remove(logs[1]); err != nil {
		t.Fatal(err)
	}
	a.refused(base, fifth, "the archive lacks the transactions")
}

// The metrics say how archiving goes, and so does the file of the probe. Logs that wait are counted, and when little of
// the volume is free that is a reason to worry.
func TestMetricsOfAnArchive(t *testing.T) {
	a := newArchived(t)
	place := binlog.Place{Open: a.open, Alarm: 0}
	a.archiver.Place = func() (binlog.Place, error) { return place, nil }
	said := func(want string) {
		t.Helper()
		_, err := a.archiver.Pass(t.Context(), time.Now())
		if got := a.SQL("SELECT CONCAT_WS(' ', archived, failures, failing, COALESCE(waiting, 'unknown'), last_archived IS " +
			"NOT NULL, volume > 0) FROM " + mysql.ArchivingTable); got != want {
			t.Errorf("the metrics say %q after %v, want %q", got, err, want)
		}
	}
	if got := a.SQL("SELECT COUNT(*) FROM " + mysql.ArchivingTable); got != "0" {
		t.Errorf("before anything is archived there are %s rows", got)
	}
	said("0 0 0 0 0 1")
	before := a.SQL("SELECT @@global.gtid_executed")
	said("0 0 0 0 0 1")
	if after := a.SQL("SELECT @@global.gtid_executed"); after != before {
		t.Errorf("what the metrics are told is in the binary log: %s after %s", after, before)
	}
	a.SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY); FLUSH BINARY LOGS")
	said("2 0 0 0 1 1")
	broken := errors.New("the store is away")
	place.Open = func(context.Context, string) (store.Store, error) { return nil, broken }
	a.SQL("INSERT INTO app.rows_ VALUES (1); FLUSH BINARY LOGS; INSERT INTO app.rows_ VALUES (2); FLUSH BINARY LOGS")
	said("2 1 1 2 1 1")
	place.Alarm = 100
	said("2 2 1 2 1 1")
	if level := a.archiver.Level(); level == volumealarm.LevelNone {
		t.Error("less than all of the volume is free, and nobody worries")
	}
	place.Alarm, place.Open = 0, a.open
	said("4 2 0 0 1 1")
	if level := a.archiver.Level(); level != volumealarm.LevelNone {
		t.Errorf("nothing waits, and it is %q", level)
	}
}
