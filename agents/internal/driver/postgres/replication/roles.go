// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/postgres"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

// clientRole is the role that clients are told, and clientDatabase the database that it owns.
const (
	clientRole     = "app"
	clientDatabase = "app"
)

// credentials are the roles of which a Secret has the password, by the file that says which one the server has.
var credentials = []struct{ credential, role, file string }{
	{"superuser", "postgres", ".zeroinfra.password"},
	{"replication", Role, ".zeroinfra.replication"},
	{"pooler", "zeroinfra_pooler", ".zeroinfra.pooler"},
	{"app", clientRole, ".zeroinfra.app"},
}

// setPasswords gives roles the passwords of the Secrets, where the data is of a server that had others.
func (s *Server) setPasswords(ctx context.Context, connection *pgconn.PgConn) error {
	for _, c := range credentials {
		if !exists(filepath.Join(s.Secrets, c.credential)) {
			// The topology has none.
			continue
		}
		password, revision, err := link.Password(s.Secrets, c.credential)
		if err != nil {
			return err
		}
		has, err := os.ReadFile(s.data(c.file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if string(has) == revision {
			continue
		}
		verifier, err := postgres.Verifier(password)
		if err != nil {
			return err
		}
		if c.role == clientRole {
			if err := makeClientRole(ctx, connection); err != nil {
				return err
			}
		}
		// A verifier has no quotes.
		if err := run(ctx, connection, "ALTER ROLE "+c.role+" PASSWORD '"+verifier+"'"); err != nil {
			return err
		}
		if err := atomicfile.Write(s.data(c.file), []byte(revision), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// makeClientRole makes the role of clients and its database where they are missing. The start script makes both; a
// replica of a primary that was started by an earlier plugin version has neither when it takes over.
func makeClientRole(ctx context.Context, connection *pgconn.PgConn) error {
	there, err := row(ctx, connection, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1),
		EXISTS (SELECT FROM pg_database WHERE datname = $2)`, clientRole, clientDatabase)
	if err != nil {
		return err
	}
	if there[0] != "t" {
		if err := run(ctx, connection, "CREATE ROLE "+clientRole+" LOGIN"); err != nil {
			return err
		}
	}
	if there[1] == "t" {
		return nil
	}
	return run(ctx, connection, "CREATE DATABASE "+clientDatabase+" WITH TEMPLATE template0 OWNER "+clientRole)
}
