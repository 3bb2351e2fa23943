// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
)

// parameterPrivileges of a grant: words such as SELECT INSERT, in alphabetical order where they are read back.
const parameterPrivileges = "privileges"

// Levels of a grant by the number of parts of its name.
const (
	partsOfDatabase = 2
	partsOfSchema   = 3
	partsOfTable    = 4
)

// levels are the privileges that there are, and what they are on.
var levels = map[int]struct {
	on         string
	privileges []string
}{
	partsOfDatabase: {"DATABASE", []string{"CONNECT", "CREATE", "TEMPORARY"}},
	partsOfSchema:   {"SCHEMA", []string{"CREATE", "USAGE"}},
	partsOfTable:    {"TABLE", []string{"DELETE", "INSERT", "REFERENCES", "SELECT", "TRIGGER", "TRUNCATE", "UPDATE"}},
}

type grants struct{}

// database is the second part of the name.
func (grants) database(name string) string {
	if parts := strings.Split(name, "/"); len(parts) > 1 {
		return parts[1]
	}
	return ""
}

// What a role has by being the owner, by PUBLIC or as a member is no grant to it. A star is after what it may pass on.
const observeGrants = `
WITH q AS (SELECT name, string_to_array(name, '/') AS part FROM json_array_elements_text($1::json) AS name),
acl AS (
  SELECT q.name, q.part, d.datacl AS items FROM q JOIN pg_database d ON d.datname::text = q.part[2]
    WHERE cardinality(q.part) = 2
  UNION ALL
  SELECT q.name, q.part, n.nspacl FROM q JOIN pg_namespace n ON n.nspname::text = q.part[3]
    WHERE cardinality(q.part) = 3
  UNION ALL
  SELECT q.name, q.part, c.relacl FROM q JOIN pg_namespace n ON n.nspname::text = q.part[3]
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname::text = q.part[4] WHERE cardinality(q.part) = 4)
SELECT g.name, string_agg(g.privilege, ' ' ORDER BY g.privilege) FROM (
  SELECT acl.name, a.privilege_type || CASE WHEN bool_or(a.is_grantable) THEN '*' ELSE '' END AS privilege
  FROM acl CROSS JOIN LATERAL aclexplode(acl.items) a
    JOIN pg_roles r ON r.oid = a.grantee AND r.rolname::text = acl.part[1]
  GROUP BY acl.name, a.privilege_type) g
GROUP BY g.name`

func (grants) observe(ctx context.Context, s *session, queries []driver.Query) ([]driver.State, error) {
	rows, err := s.rows(ctx, observeGrants, list(queries))
	if err != nil {
		return nil, fmt.Errorf("cannot read the grants: %w", err)
	}
	var states []driver.State
	for _, row := range rows {
		states = append(states, driver.State{Name: row[0], Password: driver.SamePassword,
			Parameters: map[string]string{parameterPrivileges: row[1]}})
	}
	return states, nil
}

func (k grants) statements(_ *session, change driver.Change, there *driver.State) ([]string, error) {
	parts := strings.Split(change.Name, "/")
	level, ok := levels[len(parts)]
	switch {
	case !ok || slices.Contains(parts, ""):
		return nil, fmt.Errorf("%q is no name of a grant: it must be <role>/<database>, <role>/<database>/<schema> or "+
			"<role>/<database>/<schema>/<table>", change.Name)
	case parts[0] == "public":
		return nil, errors.New(`PostgreSQL takes the role "public" for everybody: grant to a role, and that to whom you mean`)
	case strings.HasPrefix(parts[0], "pg_"):
		return nil, fmt.Errorf("the role %q is PostgreSQL's own: it is granted nothing", parts[0])
	case len(parts) >= partsOfSchema && (strings.HasPrefix(parts[2], "pg_") || parts[2] == "information_schema"):
		return nil, fmt.Errorf("the schema %q is PostgreSQL's own: nothing of it is granted", parts[2])
	}
	object := level.on + " " + name(parts[1])
	if len(parts) > partsOfDatabase {
		object = level.on + " " + name(parts[2:]...)
	}
	var statements []string
	if there != nil {
		statements = append(statements, "REVOKE ALL ON "+object+" FROM "+name(parts[0]))
	}
	if change.Intent == driver.Delete {
		return statements, nil
	}
	if err := known(change.Parameters, parameterPrivileges); err != nil {
		return nil, err
	}
	privileges := strings.Fields(change.Parameters[parameterPrivileges])
	if len(privileges) == 0 {
		return nil, fmt.Errorf("parameter %q is empty: to grant nothing, delete the object", parameterPrivileges)
	}
	for _, privilege := range privileges {
		if !slices.Contains(level.privileges, privilege) {
			return nil, fmt.Errorf("parameter %q has the word %q: on a %s there is %s", parameterPrivileges, privilege,
				strings.ToLower(level.on), strings.Join(level.privileges, ", "))
		}
	}
	return append(statements, "GRANT "+strings.Join(privileges, ", ")+" ON "+object+" TO "+name(parts[0])), nil
}
