// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/driver"
)

// Query implements driver.Querier. It is one statement: the protocol takes no second one along with arguments.
func (d *Driver) Query(ctx context.Context, statement driver.Statement) (table driver.Table, err error) {
	err = d.with(ctx, statement.Database, func(s *session) error {
		settings := []string{"SET default_transaction_read_only = off"}
		if statement.Access == driver.ReadOnly {
			settings = []string{"SET default_transaction_read_only = on"}
		}
		if deadline, ok := ctx.Deadline(); ok {
			// The server ends it by itself, too, should nobody be left to tell it.
			settings = append(settings, "SET statement_timeout = "+milliseconds(max(time.Until(deadline), 0)+cancelPatience))
		}
		if err := s.carryOut(ctx, settings); err != nil {
			return err
		}
		table, err = s.table(ctx, statement.Text, statement.Arguments)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return driver.Table{}, fmt.Errorf("the query did not end in time: %w", context.Cause(ctx))
	}
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
		return driver.Table{}, errors.New(sentenceOf(refused))
	}
	return table, err
}
