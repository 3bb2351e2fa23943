// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
)

// Parameters of an extension.
const (
	// parameterVersion is one that the image has; empty leaves the one that is there, and takes the image's default for a
	// new one.
	parameterVersion = "version"
	// parameterSchema that its objects are in. Default public.
	parameterSchema = "schema"
)

// publicSchema is there in every database.
const publicSchema = "public"

type extensions struct{}

// database is the first part of the name: <database>/<extension>.
func (extensions) database(name string) string {
	database, _, _ := strings.Cut(name, "/")
	return database
}

const observeExtensions = `SELECT q.name, e.extversion, n.nspname
FROM (SELECT json_array_elements_text($1::json) AS name) q
JOIN pg_extension e ON e.extname::text = substr(q.name, strpos(q.name, '/') + 1)
JOIN pg_namespace n ON n.oid = e.extnamespace`

func (extensions) observe(ctx context.Context, s *session, queries []driver.Query) ([]driver.State, error) {
	rows, err := s.rows(ctx, observeExtensions, list(queries))
	if err != nil {
		return nil, fmt.Errorf("cannot read the extensions: %w", err)
	}
	var states []driver.State
	for _, row := range rows {
		states = append(states, driver.State{Name: row[0], Password: driver.SamePassword,
			Parameters: map[string]string{parameterVersion: row[1], parameterSchema: row[2]}})
	}
	return states, nil
}

func (k extensions) statements(s *session, change driver.Change, there *driver.State) ([]string, error) {
	database, short, ok := strings.Cut(change.Name, "/")
	if !ok || database == "" || short == "" {
		return nil, fmt.Errorf("%q is no name of an extension: it must be <database>/<extension>", change.Name)
	}
	extension, p := name(short), change.Parameters
	if change.Intent == driver.Delete {
		if there == nil {
			return nil, nil
		}
		// What was made with it, such as a column of its type, keeps it: that is data.
		return []string{"DROP EXTENSION " + extension}, nil
	}
	if err := known(p, parameterVersion, parameterSchema); err != nil {
		return nil, err
	}
	schema := p[parameterSchema]
	if schema == "" {
		schema = publicSchema
	}
	version, err := s.literal(p[parameterVersion])
	if err != nil {
		return nil, err
	}
	if there == nil {
		statement := "CREATE EXTENSION " + extension + " WITH SCHEMA " + name(schema)
		if p[parameterVersion] != "" {
			statement += " VERSION " + version
		}
		return []string{statement}, nil
	}
	var statements []string
	if wanted := p[parameterVersion]; wanted != "" && wanted != there.Parameters[parameterVersion] {
		statements = append(statements, "ALTER EXTENSION "+extension+" UPDATE TO "+version)
	}
	if schema != there.Parameters[parameterSchema] {
		statements = append(statements, "ALTER EXTENSION "+extension+" SET SCHEMA "+name(schema))
	}
	return statements, nil
}
