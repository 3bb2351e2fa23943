// SPDX-License-Identifier: Apache-2.0

package pgbouncer

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

// Driver is a driver.Querier for one process. It keeps no connection: a call makes its own.
type Driver struct{ target link.Target }

// New returns a driver that logs in as one of stats_users.
func New(target link.Target) *Driver { return &Driver{target} }

// errNoObjects is what is said to who wants objects kept.
var errNoObjects = errors.New("a PgBouncer has no objects that could be kept")

// Kinds implements driver.Driver: there are none.
func (d *Driver) Kinds() []string { return nil }

// Observe implements driver.Driver.
func (d *Driver) Observe(context.Context, string, []driver.Query) ([]driver.State, error) {
	return nil, errNoObjects
}

// Change implements driver.Driver.
func (d *Driver) Change(context.Context, string, []driver.Change) (driver.Problems, error) {
	return nil, errNoObjects
}

// Query implements driver.Querier. What can be asked are the SHOW commands, whoever asks: they change nothing.
func (d *Driver) Query(ctx context.Context, statement driver.Statement) (driver.Table, error) {
	if err := mayShow(statement.Text); err != nil {
		return driver.Table{}, err
	}
	if len(statement.Arguments) > 0 || statement.Database != "" {
		return driver.Table{}, errors.New("a command of PgBouncer takes neither arguments nor a database")
	}
	config, err := d.target.Config(consoleDatabase)
	if err != nil {
		return driver.Table{}, err
	}
	connection, err := open(ctx, config)
	if err != nil {
		return driver.Table{}, fmt.Errorf("cannot log in at the console: %w", err)
	}
	defer link.HangUp(connection)
	table, err := ask(ctx, connection, statement.Text)
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
		return driver.Table{}, errors.New("PgBouncer refuses it: " + refused.Message)
	}
	return table, err
}
