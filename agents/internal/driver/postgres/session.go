// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

const (
	// statementTimeout ends a statement in the server, and lockTimeout one that waits for somebody else's transaction.
	statementTimeout = time.Minute
	lockTimeout      = 5 * time.Second
	// grace is how much longer a server has for an answer before it counts as hung.
	grace = 5 * time.Second
	// cancelPatience is how long a server may take to end what it was told to end, before the connection is closed.
	cancelPatience = time.Second
)

// SQLSTATE codes that are told apart.
const (
	invalidCatalogName = "3D000"
	// prerequisiteState is that of a database that takes no connections.
	prerequisiteState = "55000"
)

// session is a connection to one database.
type session struct{ connection *pgconn.PgConn }

// with calls do with a connection of its own to a database; the middleware's own one when it is empty.
func (d *Driver) with(ctx context.Context, database string, do func(*session) error) error {
	config, err := d.config(database)
	if err != nil {
		return err
	}
	connection, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("cannot log in to PostgreSQL: %w", cmp.Or(turnedAway(err), err))
	}
	defer func() {
		// Whatever became of the call, the server is told that nobody comes any more.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelPatience)
		defer cancel()
		_ = connection.Close(ending)
	}()
	return do(&session{connection})
}

func (d *Driver) config(database string) (*pgconn.Config, error) {
	config, err := d.options.Config(cmp.Or(database, maintenance))
	if err != nil {
		return nil, err
	}
	config.BuildContextWatcherHandler = func(connection *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: connection, DeadlineDelay: cancelPatience}
	}
	config.RuntimeParams = map[string]string{
		"application_name": "zeroinfra", "client_encoding": "UTF8", "standard_conforming_strings": "on",
		"DateStyle": "ISO, YMD",
		// What users have in their schemas is never taken for what the server has.
		"search_path":       "pg_catalog, pg_temp",
		"statement_timeout": milliseconds(statementTimeout), "lock_timeout": milliseconds(lockTimeout),
		"idle_in_transaction_session_timeout": milliseconds(statementTimeout),
	}
	return config, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// rows runs a query with arguments; a value that is not there is empty.
func (s *session) rows(ctx context.Context, query string, arguments ...string) ([][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout+grace)
	defer cancel()
	table, err := s.table(ctx, query, arguments)
	var rows [][]string
	for _, row := range table.Rows {
		texts := make([]string, len(row))
		for i, value := range row {
			if value != nil {
				texts[i] = *value
			}
		}
		rows = append(rows, texts)
	}
	return rows, err
}

// table runs one query in the server's own words for values.
func (s *session) table(ctx context.Context, query string, arguments []string) (driver.Table, error) {
	values := make([][]byte, len(arguments))
	for i, argument := range arguments {
		values[i] = []byte(argument)
	}
	var table driver.Table
	reader := s.connection.ExecParams(ctx, query, values, nil, nil, nil)
	for _, column := range reader.FieldDescriptions() {
		table.Columns = append(table.Columns, column.Name)
	}
	for reader.NextRow() {
		row := make([]*string, len(reader.Values()))
		for i, value := range reader.Values() {
			if value != nil {
				row[i] = new(string(value))
			}
		}
		table.Rows = append(table.Rows, row)
	}
	_, err := reader.Close()
	return table, err
}

// carryOut runs statements without results in one transaction; a single one may be one that wants none.
func (s *session) carryOut(ctx context.Context, statements []string) error {
	if len(statements) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout+grace)
	defer cancel()
	_, err := s.connection.Exec(ctx, strings.Join(statements, ";\n")).ReadAll()
	return err
}

// literal is a text in a statement that takes no arguments.
func (s *session) literal(text string) (string, error) {
	if strings.ContainsRune(text, 0) {
		return "", errors.New("a text has a NUL byte")
	}
	escaped, err := s.connection.EscapeString(text)
	return "'" + escaped + "'", err
}

// name quotes an identifier.
func name(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

// list is names as one argument, for json_array_elements_text.
func list(queries []driver.Query) string {
	names := make([]string, len(queries))
	for i, query := range queries {
		names[i] = query.Name
	}
	return encoded(names)
}

// encoded is JSON of texts, and lists and maps of them.
func encoded(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// isAbsent says that there is no such database.
func isAbsent(err error) bool {
	refused := (*pgconn.PgError)(nil)
	return errors.As(err, &refused) && refused.Code == invalidCatalogName
}

// turnedAway is the error of a server that has no connection left; nil for any other error.
func turnedAway(err error) error {
	if refused := link.TurnedAway(err); refused != nil {
		return &driver.OutOfConnections{Said: refused.Message}
	}
	return nil
}

// isClosed says that a database lets nobody in.
func isClosed(err error) bool {
	refused := (*pgconn.PgError)(nil)
	return errors.As(err, &refused) && refused.Code == prerequisiteState && refused.Severity == "FATAL"
}

var verifierForm = regexp.MustCompile(`SCRAM-SHA-256\$[A-Za-z0-9+/=:$]*`)

// sentenceOf is what the server says, without verifiers of passwords.
func sentenceOf(refused *pgconn.PgError) string {
	sentence := "PostgreSQL refuses it: " + refused.Message
	if refused.Detail != "" {
		sentence += ": " + strings.Join(strings.Fields(refused.Detail), " ")
	}
	return verifierForm.ReplaceAllString(sentence, "***")
}
