// SPDX-License-Identifier: Apache-2.0

package action

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/reaper"
)

// query asks the driver in place of a command: what comes of it is put as a command would.
func (j *job) query(ctx context.Context) (command.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, j.spec.Timeout,
		fmt.Errorf("%w of %v", command.ErrTimeout, j.spec.Timeout))
	defer cancel()
	q := j.filled.Query
	table, err := j.drivers.Query(ctx, j.driver, driver.Statement{
		Text: q.Statement, Arguments: q.Arguments, Database: q.Database, Access: driver.ReadWrite, Report: j.report,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return command.Result{}, context.Cause(ctx)
	case err != nil:
		return command.Result{Stderr: err.Error(), Exit: reaper.Exit{Code: 1}}, nil
	}
	rows, err := rowsOf(table)
	if err == nil && j.spec.Follow != nil {
		j.spec.Follow(command.Stdout, rows)
	}
	return command.Result{Stdout: string(rows)}, err
}

// report streams how far a query is, as a line of its own on standard error. A sentence in the column of
// driver.Progress is on record while the query runs.
func (j *job) report(table driver.Table) {
	if at := slices.Index(table.Columns, driver.Progress); at >= 0 && len(table.Rows) > 0 && j.progress != nil {
		if text := table.Rows[0][at]; text != nil {
			j.progress(*text)
		}
	}
	// What is too long to be told is told when it is done.
	if rows, err := rowsOf(table); err == nil && j.spec.Follow != nil {
		j.spec.Follow(command.Stderr, append(rows, '\n'))
	}
}

// rowsOf is what plan.Query promises.
func rowsOf(table driver.Table) ([]byte, error) {
	var rows bytes.Buffer
	rows.WriteByte('[')
	for i, row := range table.Rows {
		if i > 0 {
			rows.WriteByte(',')
		}
		object := make(map[string]*string, len(row))
		for j, value := range row {
			object[table.Columns[j]] = value
		}
		// A map of texts.
		data, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		if rows.Write(data); rows.Len() > command.MaxOutput {
			return nil, command.ErrTooMuchOutput
		}
	}
	rows.WriteByte(']')
	return rows.Bytes(), nil
}
