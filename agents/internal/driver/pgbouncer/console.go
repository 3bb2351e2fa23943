// SPDX-License-Identifier: Apache-2.0

package pgbouncer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/driver"
)

const (
	// consoleDatabase is where PgBouncer answers itself, and consoleUser whom it lets in over the socket.
	consoleDatabase = "pgbouncer"
	consoleUser     = "pgbouncer"
	// dialTimeout of a connection within the pod.
	dialTimeout = 2 * time.Second
)

// open logs in at a console. The library's own parameters are none of PgBouncer's.
func open(ctx context.Context, config *pgconn.Config) (*pgconn.PgConn, error) {
	config.Fallbacks, config.ConnectTimeout = nil, dialTimeout
	config.RuntimeParams = map[string]string{"application_name": "zeroinfra"}
	return pgconn.ConnectConfig(ctx, config)
}

// ask carries out one command of the console, and returns what it answers.
func ask(ctx context.Context, connection *pgconn.PgConn, command string) (driver.Table, error) {
	results, err := connection.Exec(ctx, command).ReadAll()
	if err != nil || len(results) == 0 {
		return driver.Table{}, err
	}
	var table driver.Table
	for _, column := range results[0].FieldDescriptions {
		table.Columns = append(table.Columns, column.Name)
	}
	for _, values := range results[0].Rows {
		row := make([]*string, len(values))
		for i, value := range values {
			if value != nil {
				row[i] = new(string(value))
			}
		}
		table.Rows = append(table.Rows, row)
	}
	return table, nil
}

// mayShow refuses what is more than one question.
func mayShow(command string) error {
	words := strings.Fields(command)
	if len(words) < 2 || !strings.EqualFold(words[0], "SHOW") || strings.ContainsRune(command, ';') {
		return fmt.Errorf("%q is no SHOW command, and nothing else can be asked", command)
	}
	return nil
}
