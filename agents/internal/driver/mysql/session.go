// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/zeroinfra/agents/internal/driver"
)

const (
	// statementTimeout bounds one statement.
	statementTimeout = time.Minute
	// killPatience is what the server has to end a statement that it is told to end.
	killPatience = time.Second
)

// Codes of errors of the server that are told apart.
const (
	// errConnections says that there are max_connections already.
	errConnections = 1040
	// errReadOnly is that of a server with read_only or super_read_only.
	errReadOnly = 1290
	// errUnknownVariable and errStaticVariable are those of a SET.
	errUnknownVariable = 1193
	errStaticVariable  = 1238
	// errNoDefault is that of a variable that has none.
	errNoDefault = 1230
)

// settings of each session: what is done here is judged by rules that no parameter of the server changes.
const settings = "SET SESSION sql_mode = 'STRICT_ALL_TABLES', SESSION lock_wait_timeout = 5, " +
	"SESSION innodb_lock_wait_timeout = 5, SESSION time_zone = '+00:00', SESSION autocommit = 1, " +
	"SESSION transaction_read_only = 0, SESSION wait_timeout = 600, SESSION max_execution_time = 0, " +
	// A list that is cut off would look like another one.
	"SESSION group_concat_max_len = 65536"

// statement with its arguments.
type statement struct {
	text      string
	arguments []any
}

// session is one connection.
type session struct{ connection *sql.Conn }

// config leads to the process.
func (o Options) config(database string) (*mysql.Config, error) {
	password, err := o.Password()
	if err != nil {
		return nil, err
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName = "tcp", o.Address, o.Username, password, database
	if strings.HasPrefix(o.Address, "/") {
		c.Net = "unix"
	} else if c.TLS, err = driver.TLS(o.CAFile); err != nil {
		return nil, err
	}
	if c.TLS != nil {
		c.TLS = driver.Named(c.TLS, o.Address)
	}
	c.DialFunc = driver.Dial
	c.InterpolateParams, c.AllowNativePasswords, c.Logger = true, true, &mysql.NopLogger{}
	return c, nil
}

// with calls do with a connection of its own.
func (d *Driver) with(ctx context.Context, database string, do func(*session) error) error {
	config, err := d.options.config(database)
	if err != nil {
		return err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	pool := sql.OpenDB(connector)
	defer pool.Close()
	connection, err := pool.Conn(ctx)
	if err != nil {
		return cannotLogIn(err)
	}
	defer connection.Close()
	if _, err := connection.ExecContext(ctx, settings); err != nil {
		return fmt.Errorf("cannot begin a session: %w", err)
	}
	return do(&session{connection})
}

func cannotLogIn(err error) error {
	refused := (*mysql.MySQLError)(nil)
	if errors.As(err, &refused) && refused.Number == errConnections {
		err = &driver.OutOfConnections{Said: refused.Message}
	}
	return fmt.Errorf("cannot log in to MySQL: %w", err)
}

// carryOut runs statements one after the other.
func (s *session) carryOut(ctx context.Context, statements []statement) error {
	for _, one := range statements {
		if err := s.do(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) do(ctx context.Context, one statement) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	_, err := s.connection.ExecContext(ctx, one.text, one.arguments...)
	return err
}

// rows runs a query; a value that is not there is empty.
func (s *session) rows(ctx context.Context, query string, arguments ...any) ([][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	table, err := s.table(ctx, query, arguments...)
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
func (s *session) table(ctx context.Context, query string, arguments ...any) (table driver.Table, err error) {
	rows, err := s.connection.QueryContext(ctx, query, arguments...)
	if err != nil {
		return driver.Table{}, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if table.Columns, err = rows.Columns(); err != nil {
		return driver.Table{}, err
	}
	values := make([]sql.NullString, len(table.Columns))
	into := make([]any, len(values))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return driver.Table{}, err
		}
		row := make([]*string, len(values))
		for i, value := range values {
			if value.Valid {
				row[i] = new(value.String)
			}
		}
		table.Rows = append(table.Rows, row)
	}
	return table, rows.Err()
}

// name quotes an identifier.
func name(parts ...string) string {
	quoted := make([]string, len(parts))
	for i, part := range parts {
		quoted[i] = "`" + strings.ReplaceAll(part, "`", "``") + "`"
	}
	return strings.Join(quoted, ".")
}

// placeholders are so many, with commas.
func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

func anys(texts []string) []any {
	values := make([]any, len(texts))
	for i, text := range texts {
		values[i] = text
	}
	return values
}
