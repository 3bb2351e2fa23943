// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"archive/tar"
	"bytes"
	"context"
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
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

const (
	// noSuchDatabase is what a server says of a database that is not there.
	noSuchDatabase = "3D000"
	// attempts to have the globals and a moment of a database fit each other.
	attempts = 10
	// maxNames is how many bytes of the names of databases are told.
	maxNames = 120
)

// Source is a server that is dumped. Where it is, the environment says, in the variables that its own tools read.
type Source struct {
	// Programs is the folder of the server's programs.
	Programs string
	Log      *slog.Logger
}

// Facts are what is told of a dump.
type Facts struct {
	Header
	// Taken are the databases that are in it.
	Taken []string
}

// Lines are the facts as a mover reads them.
func (f Facts) Lines() string {
	source := "primary"
	if f.Replica {
		source = "replica"
	}
	return fmt.Sprintf("serverVersion=%s\nsource=%s\ndatabases=%d\nnames=%s\n", f.Version, source, len(f.Taken),
		named(f.Taken))
}

// named are as many names as there is room for, in one line.
func named(names []string) string {
	line := ""
	for i, name := range names {
		if strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) || r == ',' || r == '"' || r == ' ' }) {
			name = strconv.Quote(name)
		}
		if i > 0 {
			name = "," + name
		}
		if len(line)+len(name) > maxNames {
			return line + ",…"
		}
		line += name
	}
	return line
}

// Dump writes all of the server.
func (s *Source) Dump(ctx context.Context, to io.Writer) (Facts, error) {
	header, err := s.header(ctx)
	if err != nil {
		return Facts{}, err
	}
	w := &writer{tar: tar.NewWriter(to), at: time.Now()}
	if err := w.json(headerName, header); err != nil {
		return Facts{}, err
	}
	facts := Facts{Header: header}
	for i, name := range header.Databases {
		taken, err := s.take(ctx, w, i+1, name)
		if err != nil {
			return Facts{}, err
		}
		if taken {
			facts.Taken = append(facts.Taken, name)
		}
	}
	return facts, errors.Join(w.json(trailerName, Trailer{Databases: facts.Taken}), w.tar.Close())
}

// take writes a database. It is not taken where it was dropped before.
func (s *Source) take(ctx context.Context, w *writer, number int, name string) (taken bool, failed error) {
	for range attempts {
		session, m, err := hold(ctx, name)
		if err != nil {
			return false, err
		}
		if session == nil {
			s.Log.Info("the database was dropped meanwhile", "database", name)
			return false, nil
		}
		pieces := w.database(number)
		err = s.since(ctx, w, m, pieces)
		link.HangUp(session)
		if err == nil {
			return true, nil
		}
		if ctx.Err() != nil || pieces.begun() {
			return false, err
		}
		// A role or a table that was there at the moment, and is dropped before pg_dumpall or pg_dump has come to it.
		s.Log.Info("it begins anew", "database", name, "error", err)
		failed = err
	}
	return false, failed
}

// header asks the server what there is. A database that lets nobody in cannot be read, and a dump without it is none.
func (s *Source) header(ctx context.Context) (Header, error) {
	session, err := connect(ctx, "postgres")
	if err != nil {
		return Header{}, err
	}
	defer link.HangUp(session)
	is, err := rows(ctx, session,
		"SELECT split_part(current_setting('server_version'), ' ', 1), pg_is_in_recovery()::text")
	if err != nil {
		return Header{}, err
	}
	// What is left of a DROP DATABASE that did not come to its end nobody can read any more, and -2 says so.
	all, err := rows(ctx, session, "SELECT datname, datallowconn::text FROM pg_database WHERE datname <> 'template0' "+
		"AND datconnlimit <> -2 ORDER BY datname <> 'template1', datname")
	if err != nil {
		return Header{}, err
	}
	h := Header{Format: Format, Version: is[0][0], Replica: is[0][1] == "true"}
	for _, database := range all {
		if database[1] != "true" {
			return Header{}, fmt.Errorf("the database %q lets nobody in: ALTER DATABASE … ALLOW_CONNECTIONS true, or drop it",
				database[0])
		}
		h.Databases = append(h.Databases, database[0])
	}
	return h, nil
}

// moment is what a database was like at one time, for as long as a session lasts.
type moment struct {
	name, snapshot string
	// roles that there were then.
	roles []string
}

// hold begins the moment of a database. There is no session where the database is gone.
func hold(ctx context.Context, name string) (*pgconn.PgConn, moment, error) {
	m := moment{name: name}
	session, err := connect(ctx, name)
	if said := (*pgconn.PgError)(nil); errors.As(err, &said) && said.Code == noSuchDatabase {
		return nil, m, nil
	}
	if err != nil {
		return nil, m, err
	}
	// Nothing of what users set ends the session before its time. Not every version knows each of these.
	_, err = rows(ctx, session, `SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name IN `+
		`('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`)
	if err == nil {
		_, err = rows(ctx, session, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	}
	var exported [][]string
	if err == nil {
		exported, err = rows(ctx, session, "SELECT pg_catalog.pg_export_snapshot()")
	}
	if err == nil {
		m.snapshot = exported[0][0]
		m.roles, err = allRoles(ctx, session)
	}
	if err != nil {
		link.HangUp(session)
		return nil, m, fmt.Errorf("database %q: %w", name, err)
	}
	return session, m, nil
}

// since writes a database as it was at a moment, and before it the globals of after that: they have every role that
// something in the database is of. pg_dump begins at once, since nobody keeps a table from being dropped before it has
// come to it.
func (s *Source) since(ctx context.Context, w *writer, m moment, to *pieces) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := s.tool(ctx, m.name, "pg_dump", "--format=custom", "--compress=0", "--no-tablespaces", "--snapshot="+m.snapshot)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	globals, err := s.globals(ctx, m)
	if err == nil {
		err = w.since(to.number, globals)
	}
	if err == nil {
		// What carries the dump compresses it.
		_, err = io.Copy(to, out)
	}
	if err != nil {
		cancel()
		_ = cmd.Wait()
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("pg_dump of database %q: %w", m.name, err)
	}
	return to.flush()
}

// rolesOf are those that there are by now.
func rolesOf(ctx context.Context, database string) ([]string, error) {
	session, err := connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer link.HangUp(session)
	return allRoles(ctx, session)
}

func allRoles(ctx context.Context, session *pgconn.PgConn) ([]string, error) {
	all, err := rows(ctx, session, "SELECT rolname FROM pg_catalog.pg_roles")
	if err != nil {
		return nil, err
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i][0]
	}
	slices.Sort(names)
	return names, nil
}

// tool is one of the server's programs, which ends with this one.
func (s *Source) tool(ctx context.Context, database, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.Programs, program), append(args, "--no-password")...)
	// As an argument, a name with an equals sign would be a whole address.
	cmd.Env = append(os.Environ(), "PGDATABASE="+database, "LC_ALL=C")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// globals are what all databases have in common, with all roles of a moment. Passwords are in them as the server keeps
// them.
func (s *Source) globals(ctx context.Context, m moment) ([]byte, error) {
	cmd := s.tool(ctx, "postgres", "pg_dumpall", "--globals-only", "--no-tablespaces")
	var text bounded
	cmd.Stdout = &text
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("pg_dumpall: %w", errors.Join(err, text.full))
	}
	now, err := rolesOf(ctx, m.name)
	if err != nil {
		return nil, err
	}
	gone := slices.DeleteFunc(m.roles, func(role string) bool { _, there := slices.BinarySearch(now, role); return there })
	if len(gone) > 0 {
		return nil, fmt.Errorf("roles went while database %q was about to be dumped, such as %q: try again", m.name, gone[0])
	}
	return text.Bytes(), nil
}

// bounded holds a text that is not too long.
type bounded struct {
	bytes.Buffer
	full error
}

// Write implements io.Writer.
func (b *bounded) Write(data []byte) (int, error) {
	if b.Len()+len(data) > maxText {
		b.full = fmt.Errorf("it writes more than %d MiB", maxText>>20)
		return 0, b.full
	}
	return b.Buffer.Write(data)
}

// connect to a database of the server that the environment leads to.
func connect(ctx context.Context, database string) (*pgconn.PgConn, error) {
	settings := ""
	if os.Getenv("PGSSLMODE") == "disable" {
		// The tools look at no certificate then, and this library would all the same.
		settings = "sslrootcert=''"
	}
	config, err := pgconn.ParseConfig(settings)
	if err != nil {
		return nil, err
	}
	config.Database = database
	// What somebody has the superuser look through does not count.
	config.RuntimeParams["search_path"] = "pg_catalog"
	session, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("cannot ask database %q: %w", database, err)
	}
	return session, nil
}

// rows of the last of some statements, as texts.
func rows(ctx context.Context, session *pgconn.PgConn, statement string) ([][]string, error) {
	results, err := session.Exec(ctx, statement).ReadAll()
	if err != nil || len(results) == 0 {
		return nil, err
	}
	var all [][]string
	for _, row := range results[len(results)-1].Rows {
		texts := make([]string, len(row))
		for i := range row {
			texts[i] = string(row[i])
		}
		all = append(all, texts)
	}
	return all, nil
}
