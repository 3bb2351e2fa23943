// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/driver/postgres/alone"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

const (
	// duplicate is what a server says of a role that is there.
	duplicate = "42710"
	// patient has what is loaded not be stopped by what users set for a database or a role, the superuser included.
	patient = "-c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=0 -c " +
		"idle_in_transaction_session_timeout=0 -c role=none -c search_path=pg_catalog -c session_replication_role=origin"
	// settings of the server while it is loaded. Its log is of no use to anybody, the memory is that of a mover, and who
	// has a statement carried out is told what is wrong with it.
	settings = `wal_level = minimal
max_wal_senders = 0
max_connections = 20
max_locks_per_transaction = 512
max_wal_size = 128MB
min_wal_size = 32MB
checkpoint_timeout = 1h
full_page_writes = off
synchronous_commit = off
maintenance_work_mem = 64MB
max_parallel_maintenance_workers = 0
max_parallel_workers_per_gather = 0
log_min_messages = fatal
log_checkpoints = off
`
)

// initOptions are those of the data that the start script of the image makes.
var initOptions = []string{"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums"}

// owns are the roles of the platform. Whoever starts the server gives them their passwords, and those that they had are
// nobody's.
var owns = []string{alone.User, "zeroinfra_replication", "zeroinfra_pooler"}

// Target is new data that a dump goes into.
type Target struct {
	// Programs is the folder of the server's programs, Data that of the data, which is made, and Work one beside it for
	// what is needed meanwhile.
	Programs, Data, Work string
	Log                  *slog.Logger

	server *alone.Running
	// from and to are the major versions of the dump and of this server.
	from, to int
	header   Header
	open     *loading
	whole    *Trailer
	loaded   []string
}

// Load makes the data of a dump. When it fails, the data is not to be used.
func (t *Target) Load(ctx context.Context, from io.Reader) (err error) {
	files := &reader{tar: tar.NewReader(from)}
	if err := t.begins(ctx, files); err != nil {
		return err
	}
	if err := t.make(ctx); err != nil {
		return err
	}
	server := &alone.Server{Programs: t.Programs, Data: t.Data, Work: t.Work, Settings: settings}
	if t.server, err = server.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.server.Close()) }()
	if err := t.server.Ready(ctx); err != nil {
		if errors.Is(err, alone.ErrEnded) {
			err = fmt.Errorf("%w: %s", err, t.server.Why())
		}
		return err
	}
	if err := t.takes(ctx, files); err != nil {
		return err
	}
	t.learns(ctx)
	if err := t.disowns(ctx); err != nil {
		return err
	}
	t.Log.Info("the dump is loaded, and the server is stopped", "databases", len(t.loaded))
	return t.server.Stop()
}

// begins refuses what this server cannot take, before anything is made.
func (t *Target) begins(ctx context.Context, files *reader) error {
	said, err := exec.CommandContext(ctx, filepath.Join(t.Programs, "postgres"), "--version").Output()
	if err != nil {
		return fmt.Errorf("postgres --version: %w", err)
	}
	words := strings.Fields(string(said))
	if len(words) < 3 {
		return fmt.Errorf("postgres --version says %q", said)
	}
	first, err := files.next()
	if err != nil {
		return err
	}
	if first.name != headerName {
		return fmt.Errorf("the dump begins with %s, and not with %s", first.name, headerName)
	}
	if err := first.json(&t.header); err != nil {
		return err
	}
	var err1, err2 error
	t.from, err1 = major(t.header.Version)
	t.to, err2 = major(words[2])
	switch {
	case t.header.Format > Format:
		return fmt.Errorf("the dump has the format %d, and this program knows those up to %d: use a newer operator",
			t.header.Format, Format)
	case err1 != nil || err2 != nil:
		return errors.Join(err1, err2)
	case t.from > t.to:
		return fmt.Errorf("the dump is of PostgreSQL %d, and this is %d, which is older", t.from, t.to)
	}
	return nil
}

func major(version string) (int, error) {
	text, _, _ := strings.Cut(version, ".")
	// A version that is not out yet is such as 19beta1.
	if i := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		text = text[:i]
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no version of PostgreSQL", version)
	}
	return number, nil
}

// make makes the data as a server does that begins empty.
func (t *Target) make(ctx context.Context) error {
	password := filepath.Join(t.Work, "password")
	// Nobody ever logs in with it.
	if err := os.WriteFile(password, []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	cmd := t.tool(ctx, "initdb", append([]string{"-D", t.Data, "-U", alone.User, "--pwfile=" + password, "--no-sync"},
		initOptions...)...)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	return os.Remove(password)
}

// tool is one of the server's programs, which ends with this one.
func (t *Target) tool(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(t.Programs, program), args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGUSER="+alone.User, "PGPORT="+alone.Port, "PGOPTIONS="+patient)
	if t.server != nil {
		cmd.Env = append(cmd.Env, "PGHOST="+t.server.Socket)
	}
	// What it says while it works is for people.
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// takes reads the dump to its end.
func (t *Target) takes(ctx context.Context, files *reader) (err error) {
	defer func() {
		if t.open != nil {
			t.open.kill()
		}
	}()
	for {
		f, err := files.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = t.take(ctx, f)
		}
		if err != nil {
			return err
		}
	}
	if t.whole == nil {
		return errors.New("the dump is incomplete: it has no end")
	}
	if !slices.Equal(t.whole.Databases, t.loaded) {
		return fmt.Errorf("the dump has the databases %q, and was to have %q", t.loaded, t.whole.Databases)
	}
	return nil
}

// take does what a file of the dump is for.
func (t *Target) take(ctx context.Context, f file) error {
	if t.whole != nil {
		return fmt.Errorf("the dump goes on with %s after its end", f.name)
	}
	if t.open != nil && (f.name != databaseName || f.number != t.open.number) {
		if err := t.closes(); err != nil {
			return err
		}
	}
	switch f.name {
	case globalsName:
		text, err := f.text()
		if err != nil {
			return err
		}
		return t.globals(ctx, string(text))
	case databaseName:
		if t.open == nil {
			if err := t.opens(ctx, f.number); err != nil {
				return err
			}
		}
		return t.open.feed(f)
	case trailerName:
		t.whole = &Trailer{}
		return f.json(t.whole)
	}
	return fmt.Errorf("the dump has %s once more", f.name)
}

// globals carries them out.
func (t *Target) globals(ctx context.Context, text string) error {
	statements, err := statementsOf(text)
	if err != nil {
		return err
	}
	return t.in(ctx, "template1", func(session *pgconn.PgConn) error {
		for _, statement := range statements {
			statement = fitting(statement, t.from, t.to)
			_, err := session.Exec(ctx, statement).ReadAll()
			if said := (*pgconn.PgError)(nil); errors.As(err, &said) && said.Code == duplicate && makesRole(statement) {
				continue
			}
			if err != nil {
				// Some have what the server keeps of a password.
				what, _, _ := strings.Cut(statement, " WITH ")
				return fmt.Errorf("the globals of the dump: %.200s: %w", what, err)
			}
		}
		return nil
	})
}

// in does something in a session of the superuser.
func (t *Target) in(ctx context.Context, database string, do func(*pgconn.PgConn) error) error {
	config, err := t.server.Config(database)
	if err != nil {
		return err
	}
	config.RuntimeParams["options"] = patient
	session, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer link.HangUp(session)
	return do(session)
}

// opens begins with a database.
func (t *Target) opens(ctx context.Context, number int) error {
	if number < 1 || number > len(t.header.Databases) {
		return fmt.Errorf("the dump has a database %d, and speaks of %d", number, len(t.header.Databases))
	}
	name := t.header.Databases[number-1]
	args := []string{"--exit-on-error", "--no-tablespaces", "--create"}
	switch name {
	// Those that are there are made anew: their settings and rights are of what the dump has, too.
	case "template1":
		args = append(args, "--clean", "--if-exists", "--dbname=postgres")
	case "postgres":
		args = append(args, "--clean", "--if-exists", "--dbname=template1")
	default:
		args = append(args, "--dbname=postgres")
	}
	l := &loading{number: number, name: name, tool: t.tool(ctx, "pg_restore", args...)}
	var err error
	if l.input, err = l.tool.StdinPipe(); err != nil {
		return err
	}
	if err := l.tool.Start(); err != nil {
		return err
	}
	t.open = l
	return nil
}

// closes ends with a database.
func (t *Target) closes() error {
	l := t.open
	t.open = nil
	// Where it has ended by itself its input is closed.
	_ = l.input.Close()
	if err := l.ends(); err != nil {
		return err
	}
	t.loaded = append(t.loaded, l.name)
	return nil
}

// loading is a database that is on its way.
type loading struct {
	number, pieces int
	name           string
	tool           *exec.Cmd
	input          io.WriteCloser
}

// feed gives it a piece more.
func (l *loading) feed(f file) error {
	if l.pieces++; f.piece != l.pieces {
		return fmt.Errorf("the dump of database %q goes on with piece %d after piece %d", l.name, f.piece, l.pieces-1)
	}
	_, err := io.Copy(l.input, f.content)
	switch {
	case errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed):
		// It has failed, or needs no more of it.
		_ = l.input.Close()
		return l.ends()
	case err != nil:
		return fmt.Errorf("the dump of database %q cannot be read: %w", l.name, err)
	}
	return nil
}

func (l *loading) ends() error {
	if l.tool.ProcessState == nil {
		_ = l.tool.Wait()
	}
	if !l.tool.ProcessState.Success() {
		return fmt.Errorf("pg_restore of database %q: %s", l.name, l.tool.ProcessState)
	}
	return nil
}

func (l *loading) kill() {
	if l.tool.ProcessState == nil {
		_ = l.tool.Process.Kill()
		_ = l.tool.Wait()
	}
}

// learns has the server know what its tables hold, so that the first to ask need not wait for that. What it lacks it
// finds out by itself.
func (t *Target) learns(ctx context.Context) {
	if err := t.tool(ctx, "vacuumdb", "--all", "--analyze-only", "--quiet").Run(); err != nil {
		t.Log.Info("the server does not know yet what its tables hold", "error", err)
	}
}

// disowns has nobody log in with the passwords that the platform's roles had.
func (t *Target) disowns(ctx context.Context) error {
	return t.in(ctx, "template1", func(session *pgconn.PgConn) error {
		roles, err := allRoles(ctx, session)
		if err != nil {
			return err
		}
		for _, role := range owns {
			if slices.Contains(roles, role) {
				if _, err := rows(ctx, session, "ALTER ROLE "+role+" PASSWORD NULL"); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
