// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
)

// Parameters of a database, beside connection-limit.
const (
	// parameterOwner is a role; the superuser when empty.
	parameterOwner = "owner"
	// parameterEncoding and parameterLocale are those that it is made with, and cannot change.
	parameterEncoding = "encoding"
	parameterLocale   = "locale"
)

// ownDatabases are there from the beginning.
var ownDatabases = []string{maintenance, "template0", "template1"}

type databases struct{ Options }

func (databases) database(string) string { return "" }

const observeDatabases = `SELECT d.datname, pg_get_userbyid(d.datdba), pg_encoding_to_char(d.encoding),
  CASE WHEN d.datcollate = d.datctype THEN d.datcollate ELSE d.datcollate || ' ' || d.datctype END, d.datconnlimit
FROM pg_database d WHERE d.datname::text IN (SELECT json_array_elements_text($1::json))`

func (databases) observe(ctx context.Context, s *session, queries []driver.Query) ([]driver.State, error) {
	rows, err := s.rows(ctx, observeDatabases, list(queries))
	if err != nil {
		return nil, fmt.Errorf("cannot read the databases: %w", err)
	}
	var states []driver.State
	for _, row := range rows {
		states = append(states, driver.State{Name: row[0], Password: driver.SamePassword, Parameters: map[string]string{
			parameterOwner: row[1], parameterEncoding: row[2], parameterLocale: row[3], parameterConnections: row[4],
		}})
	}
	return states, nil
}

func (k databases) statements(s *session, change driver.Change, there *driver.State) ([]string, error) {
	if slices.Contains(ownDatabases, change.Name) {
		return nil, fmt.Errorf("the database %q is PostgreSQL's own: take another name", change.Name)
	}
	database := name(change.Name)
	if change.Intent == driver.Delete {
		if there == nil {
			return nil, nil
		}
		// Whoever asks for it to be gone does not want to wait for those that are connected.
		return []string{"DROP DATABASE " + database + " WITH (FORCE)"}, nil
	}
	p := change.Parameters
	if err := known(p, parameterOwner, parameterEncoding, parameterLocale, parameterConnections); err != nil {
		return nil, err
	}
	limit, err := connectionLimit(p)
	if err != nil {
		return nil, err
	}
	owner := p[parameterOwner]
	if owner == "" {
		owner = k.Username
	}
	if there == nil {
		return k.create(s, database, owner, limit, p)
	}
	for _, parameter := range []string{parameterEncoding, parameterLocale} {
		if has, wanted := there.Parameters[parameter], p[parameter]; wanted != "" && !strings.EqualFold(has, wanted) {
			return nil, fmt.Errorf("parameter %q is %q and the database has %q, which cannot change once it is made: set it "+
				"back, or make another database", parameter, wanted, has)
		}
	}
	statements := []string{"ALTER DATABASE " + database + limit}
	if there.Parameters[parameterOwner] != owner {
		statements = append(statements, "ALTER DATABASE "+database+" OWNER TO "+name(owner))
	}
	return statements, nil
}

// create makes it of template0: nobody else has put anything there, and it takes every encoding and locale.
func (databases) create(s *session, database, owner, limit string, p map[string]string) ([]string, error) {
	statement := "CREATE DATABASE " + database + " WITH TEMPLATE template0 OWNER " + name(owner)
	for _, option := range []struct{ parameter, sql string }{{parameterEncoding, "ENCODING"},
		{parameterLocale, "LOCALE"}} {
		if value := p[option.parameter]; value != "" {
			quoted, err := s.literal(value)
			if err != nil {
				return nil, err
			}
			statement += " " + option.sql + " " + quoted
		}
	}
	return []string{statement + limit}, nil
}
