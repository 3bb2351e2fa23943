// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresqlWriter is one connection to a PostgreSQL.
type postgresqlWriter struct{ conn *pgx.Conn }

func dialPostgreSQL(ctx context.Context, to Target, settings map[string]string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(to.address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	config.Host, config.Port, config.User, config.Password, config.Database = host, uint16(number), to.Username,
		to.Password, "postgres"
	config.DialFunc = to.Dial
	// The cluster's names are for who is in it.
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	config.RuntimeParams = settings
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return pgx.ConnectConfig(ctx, config)
}

func connectPostgreSQL(ctx context.Context, to Target) (session, error) {
	conn, err := dialPostgreSQL(ctx, to, nil)
	if err != nil {
		return nil, err
	}
	return postgresqlWriter{conn}, nil
}

// write is acknowledged when it is committed, and a replica has it: the instance's durability says so.
func (s postgresqlWriter) write(ctx context.Context, number int64) error {
	_, err := s.conn.Exec(ctx, "INSERT INTO ha VALUES ($1)", number)
	return err
}

// close does not wait for a server that does not answer.
func (s postgresqlWriter) close() {
	ctx, cancel := context.WithTimeout(context.Background(), probeEvery)
	defer cancel()
	_ = s.conn.Close(ctx)
}

func probePostgreSQL(ctx context.Context, to Target) (at time.Time, err error) {
	conn, err := dialPostgreSQL(ctx, to, map[string]string{"synchronous_commit": "local"})
	if err != nil {
		return time.Time{}, err
	}
	defer postgresqlWriter{conn}.close()
	err = conn.QueryRow(ctx, "INSERT INTO probe VALUES (1) RETURNING clock_timestamp()").Scan(&at)
	return at, err
}

func keptInPostgreSQL(ctx context.Context, to Target, numbers []int64) (map[int64]bool, error) {
	conn, err := dialPostgreSQL(ctx, to, nil)
	if err != nil {
		return nil, err
	}
	defer postgresqlWriter{conn}.close()
	rows, err := conn.Query(ctx, "SELECT n FROM ha WHERE n = ANY ($1)", pgx.QueryExecModeExec, numbers)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	have := map[int64]bool{}
	for _, number := range list {
		have[number] = true
	}
	return have, nil
}
