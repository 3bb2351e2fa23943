// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/zeroinfra/agents/internal/driver"
)

// Query implements driver.Querier. It is one statement: the session takes no second one.
func (d *Driver) Query(ctx context.Context, asked driver.Statement) (table driver.Table, err error) {
	err = d.with(ctx, asked.Database, func(s *session) error {
		if err := s.limit(ctx, asked.Access); err != nil {
			return err
		}
		stop, err := d.killAtEnd(ctx, s)
		if err != nil {
			return err
		}
		defer stop()
		table, err = s.table(ctx, asked.Text, anys(asked.Arguments)...)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return driver.Table{}, fmt.Errorf("the query did not end in time: %w", context.Cause(ctx))
	}
	if refused := (*mysql.MySQLError)(nil); errors.As(err, &refused) {
		return driver.Table{}, errors.New(sentenceOf(refused))
	}
	return table, err
}

// limit has the server refuse writes where none are to be, and end what reads for too long.
func (s *session) limit(ctx context.Context, access driver.Access) error {
	var statements []statement
	if access == driver.ReadOnly {
		statements = append(statements, statement{text: "SET SESSION transaction_read_only = 1"})
	}
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline), 0) + killPatience
		statements = append(statements, statement{"SET SESSION max_execution_time = ?", []any{left.Milliseconds()}})
	}
	return s.carryOut(ctx, statements)
}

// killAtEnd has the server end what the session does once the context ends. The function that it returns ends that.
func (d *Driver) killAtEnd(ctx context.Context, s *session) (func() bool, error) {
	rows, err := s.rows(ctx, "SELECT CONNECTION_ID()")
	if err != nil {
		return nil, err
	}
	id := rows[0][0]
	return context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
		defer cancel()
		// A session that has ended already is what it is for.
		_ = d.with(ending, "", func(s *session) error { return s.do(ending, statement{text: "KILL " + id}) })
	}), nil
}
