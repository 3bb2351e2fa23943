// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
)

// Parameters of a database. Empty ones are the server's defaults when it is made, and stay as they are later.
const (
	parameterCharset   = "charset"
	parameterCollation = "collation"
)

// ownDatabases are there from the beginning, or made by this package.
var ownDatabases = []string{"information_schema", "mysql", "performance_schema", "sys", MetadataDatabase}

// wordForm is that of character sets and collations, which are no values in SQL.
var wordForm = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

type databases struct{}

func (databases) observe(ctx context.Context, s *session, queries []driver.Query) ([]driver.State, error) {
	names := namesOf(queries)
	rows, err := s.rows(ctx, `SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME
FROM information_schema.SCHEMATA WHERE CONVERT(SCHEMA_NAME USING utf8mb4) COLLATE utf8mb4_bin IN (`+
		placeholders(len(names))+")", anys(names)...)
	if err != nil {
		return nil, fmt.Errorf("cannot read the databases: %w", err)
	}
	var states []driver.State
	for _, row := range rows {
		states = append(states, driver.State{Name: row[0], Password: driver.SamePassword,
			Parameters: map[string]string{parameterCharset: row[1], parameterCollation: row[2]}})
	}
	return states, nil
}

func namesOf(queries []driver.Query) []string {
	names := make([]string, len(queries))
	for i, query := range queries {
		names[i] = query.Name
	}
	return names
}

func (databases) statements(change driver.Change, there *driver.State) ([]statement, error) {
	if slices.Contains(ownDatabases, strings.ToLower(change.Name)) {
		return nil, fmt.Errorf("the database %q is MySQL's own: take another name", change.Name)
	}
	if change.Intent == driver.Delete {
		if there == nil {
			return nil, nil
		}
		return []statement{{text: "DROP DATABASE " + name(change.Name)}}, nil
	}
	if err := known(change.Parameters, parameterCharset, parameterCollation); err != nil {
		return nil, err
	}
	options := ""
	for _, option := range []struct{ parameter, sql string }{{parameterCharset, "CHARACTER SET"},
		{parameterCollation, "COLLATE"}} {
		value := change.Parameters[option.parameter]
		switch {
		case value == "":
		case !wordForm.MatchString(value):
			return nil, errors.New(option.parameter +
				" must be a name of small letters, digits and underscores, such as utf8mb4")
		default:
			options += " " + option.sql + " " + value
		}
	}
	if there == nil {
		return []statement{{text: "CREATE DATABASE " + name(change.Name) + options}}, nil
	}
	if options == "" {
		return nil, nil
	}
	// Tables that are there keep what they have.
	return []statement{{text: "ALTER DATABASE " + name(change.Name) + options}}, nil
}
