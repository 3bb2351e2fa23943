// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
)

// parameterPrivileges of a grant: words such as "INSERT SELECT", with underscores for the blanks within one, in
// alphabetical order where they are read back; or ALL.
const parameterPrivileges = "privileges"

const (
	allPrivileges = "ALL"
	// grantOption is told of a user who may pass on what it has, which none is given here.
	grantOption = "GRANT_OPTION"
)

// Levels of a grant by the number of parts of its name.
const (
	partsOfDatabase = 2
	partsOfTable    = 3
)

// levels are the privileges that there are.
var levels = map[int][]string{
	partsOfDatabase: {"ALTER", "ALTER_ROUTINE", "CREATE", "CREATE_ROUTINE", "CREATE_TEMPORARY_TABLES", "CREATE_VIEW",
		"DELETE", "DROP", "EVENT", "EXECUTE", "INDEX", "INSERT", "LOCK_TABLES", "REFERENCES", "SELECT", "SHOW_VIEW",
		"TRIGGER", "UPDATE"},
	partsOfTable: {"ALTER", "CREATE", "CREATE_VIEW", "DELETE", "DROP", "INDEX", "INSERT", "REFERENCES", "SELECT",
		"SHOW_VIEW", "TRIGGER", "UPDATE"},
}

type grants struct{}

// grant is the name of one in its parts.
type grant struct {
	account
	database, table string
}

func parseGrant(name string) (grant, error) {
	parts := strings.Split(name, "/")
	if slices.Contains(parts, "") || levels[len(parts)] == nil {
		return grant{}, fmt.Errorf("%q is no name of a grant: it must be <user>/<database> or <user>/<database>/<table>",
			name)
	}
	g := grant{account: parseAccount(parts[0]), database: parts[1]}
	if len(parts) == partsOfTable {
		g.table = parts[2]
	}
	return g, nil
}

func (g grant) privileges() []string {
	if g.table == "" {
		return levels[partsOfDatabase]
	}
	return levels[partsOfTable]
}

// on is what it is on. In place of a database MySQL takes a pattern, where an underscore stands for any character.
func (g grant) on() string {
	if g.table != "" {
		return name(g.database, g.table)
	}
	return name(g.pattern()) + ".*"
}

var patternEscapes = strings.NewReplacer(`\`, `\\`, "_", `\_`, "%", `\%`)

func (g grant) pattern() string { return patternEscapes.Replace(g.database) }

const observeGrants = `
SELECT GRANTEE, TABLE_SCHEMA, '', PRIVILEGE_TYPE, IS_GRANTABLE FROM information_schema.SCHEMA_PRIVILEGES
UNION ALL
SELECT GRANTEE, TABLE_SCHEMA, TABLE_NAME, PRIVILEGE_TYPE, IS_GRANTABLE FROM information_schema.TABLE_PRIVILEGES`

// observe reads all grants at once: there is no way to ask for those of several users.
func (grants) observe(ctx context.Context, s *session, queries []driver.Query) ([]driver.State, error) {
	rows, err := s.rows(ctx, observeGrants)
	if err != nil {
		return nil, fmt.Errorf("cannot read the grants: %w", err)
	}
	there := map[[3]string][]string{}
	for _, row := range rows {
		key := [3]string(row[:3])
		there[key] = append(there[key], strings.ReplaceAll(row[3], " ", "_"))
		if row[4] == "YES" && !slices.Contains(there[key], grantOption) {
			there[key] = append(there[key], grantOption)
		}
	}
	var states []driver.State
	for _, query := range queries {
		g, err := parseGrant(query.Name)
		if err != nil {
			continue
		}
		key := [3]string{g.grantee(), g.database, g.table}
		if g.table == "" {
			key[1] = g.pattern()
		}
		if has := there[key]; len(has) > 0 {
			states = append(states, driver.State{Name: query.Name, Password: driver.SamePassword,
				Parameters: map[string]string{parameterPrivileges: words(has, g.privileges())}})
		}
	}
	return states, nil
}

// words are privileges in alphabetical order, or ALL where they are all that there are.
func words(has, all []string) string {
	slices.Sort(has)
	has = slices.Compact(has)
	if slices.Equal(has, all) {
		return allPrivileges
	}
	return strings.Join(has, " ")
}

func (grants) statements(change driver.Change, there *driver.State) ([]statement, error) {
	g, err := parseGrant(change.Name)
	if err != nil {
		return nil, err
	}
	if slices.Contains(ownDatabases, strings.ToLower(g.database)) {
		return nil, fmt.Errorf("the database %q is MySQL's own: nothing of it is granted", g.database)
	}
	var statements []statement
	if there != nil {
		statements = append(statements, g.revoke(there)...)
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
		if privilege != allPrivileges && !slices.Contains(g.privileges(), privilege) {
			return nil, fmt.Errorf("parameter %q has the word %q: there are %s, and ALL", parameterPrivileges, privilege,
				strings.Join(g.privileges(), ", "))
		}
	}
	text := "GRANT " + strings.ReplaceAll(strings.Join(privileges, ", "), "_", " ") + " ON " + g.on() + " TO ?@?"
	return append(statements, statement{text, g.arguments()}), nil
}

// revoke takes everything away that is there. What may be passed on is a privilege of its own.
func (g grant) revoke(there *driver.State) []statement {
	statements := []statement{{"REVOKE ALL PRIVILEGES ON " + g.on() + " FROM ?@?", g.arguments()}}
	if slices.Contains(strings.Fields(there.Parameters[parameterPrivileges]), grantOption) {
		statements = append(statements, statement{"REVOKE GRANT OPTION ON " + g.on() + " FROM ?@?", g.arguments()})
	}
	return statements
}
