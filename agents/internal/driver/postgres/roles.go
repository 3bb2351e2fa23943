// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
)

// Parameters of a role.
const (
	// parameterLogin: "yes" or "no".
	parameterLogin = "login"
	// parameterInherit: "yes" or "no": whether it may at once what the roles may that it is a member of.
	parameterInherit = "inherit"
	// parameterAttributes: words of createdb and bypassrls.
	parameterAttributes = "attributes"
	// parameterConnections: how many connections it may have; -1 for any number. Of a database, too.
	parameterConnections = "connection-limit"
	// parameterValidUntil: when its password ends, in UTC; empty for never.
	parameterValidUntil = "valid-until"
	// parameterMemberOf: names of roles with blanks between them.
	parameterMemberOf = "member-of"
)

const (
	yes = "yes"
	no  = "no"
	// anyNumber of connections.
	anyNumber = "-1"
	// withAdmin is after the name of a role that a member may make others members of, which none is given here.
	withAdmin = "*"
)

// attributes of a role in the order that they are told in. Those that are not granted would lead past the engine: they
// are seen, and taken away.
var attributes = []struct {
	word, sql string
	granted   bool
}{
	{"superuser", "SUPERUSER", false}, {"createrole", "CREATEROLE", false}, {"createdb", "CREATEDB", true},
	{"replication", "REPLICATION", false}, {"bypassrls", "BYPASSRLS", true},
}

// ownRoles begin so: followers log in as one, which reads files beside the server, and a pooler as another, which reads
// what passwords are checked by.
const ownRoles = "zeroinfra_"

// refusedRoles let their members run programs and reach files beside the server.
var refusedRoles = []string{"pg_execute_server_program", "pg_read_server_files", "pg_write_server_files"}

var timeForm = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$`)

type roles struct{ Options }

func (roles) database(string) string { return "" }

const observeRoles = `SELECT r.rolname, r.rolcanlogin, r.rolinherit, r.rolsuper, r.rolcreaterole, r.rolcreatedb,
  r.rolreplication, r.rolbypassrls, r.rolconnlimit,
  coalesce(to_char(nullif(r.rolvaliduntil, 'infinity') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), ''),
  (SELECT coalesce(string_agg(g.name, ' ' ORDER BY g.name), '') FROM (
    SELECT b.rolname || CASE WHEN bool_or(m.admin_option) THEN '*' ELSE '' END AS name
    FROM pg_auth_members m JOIN pg_roles b ON b.oid = m.roleid WHERE m.member = r.oid GROUP BY b.rolname) g),
  coalesce(r.rolpassword, '')
FROM pg_authid r WHERE r.rolname::text IN (SELECT json_array_elements_text($1::json))`

func (k roles) observe(ctx context.Context, s *session, queries []driver.Query) ([]driver.State, error) {
	rows, err := s.rows(ctx, observeRoles, list(queries))
	if err != nil {
		return nil, fmt.Errorf("cannot read the roles: %w", err)
	}
	passwords := make(map[string]string, len(queries))
	for _, query := range queries {
		passwords[query.Name] = query.Password
	}
	states := make([]driver.State, 0, len(rows))
	for _, row := range rows {
		var has []string
		for i, attribute := range attributes {
			if row[3+i] == "t" {
				has = append(has, attribute.word)
			}
		}
		state := driver.State{Name: row[0], Password: driver.SamePassword, Parameters: map[string]string{
			parameterLogin: yesNo(row[1]), parameterInherit: yesNo(row[2]), parameterAttributes: strings.Join(has, " "),
			parameterConnections: row[8], parameterValidUntil: row[9], parameterMemberOf: row[10],
		}}
		if !k.hasPassword(row[11], passwords[row[0]]) {
			state.Password = driver.OtherPassword
		}
		states = append(states, state)
	}
	return states, nil
}

func (k roles) hasPassword(verifier, password string) bool {
	if password == "" || verifier == "" {
		return password == verifier
	}
	return k.Verified.same(verifier, password)
}

func yesNo(value string) string {
	if value == "t" {
		return yes
	}
	return no
}

func (k roles) statements(s *session, change driver.Change, there *driver.State) ([]string, error) {
	if err := k.checkRole(change.Name); err != nil {
		return nil, err
	}
	role := name(change.Name)
	if change.Intent == driver.Delete {
		if there == nil {
			return nil, nil
		}
		return []string{"DROP ROLE " + role}, nil
	}
	options, err := k.options(s, change)
	if err != nil {
		return nil, err
	}
	member, err := k.memberOf(change.Parameters[parameterMemberOf])
	if err != nil {
		return nil, err
	}
	statements := []string{"CREATE ROLE " + role + options}
	var before []string
	if there != nil {
		statements = []string{"ALTER ROLE " + role + options}
		before = strings.Fields(there.Parameters[parameterMemberOf])
	}
	for _, group := range before {
		if !slices.Contains(member, group) {
			statements = append(statements, "REVOKE "+name(strings.TrimSuffix(group, withAdmin))+" FROM "+role)
		}
	}
	for _, group := range member {
		if !slices.Contains(before, group) {
			statements = append(statements, "GRANT "+name(group)+" TO "+role)
		}
	}
	return statements, nil
}

// checkRole: who the engine itself is, and what the server keeps for itself, is nobody else's.
func (k roles) checkRole(role string) error {
	switch {
	case role == k.Username:
		return fmt.Errorf("the role %q is the instance's own: take another name", role)
	case strings.HasPrefix(role, "pg_"):
		return fmt.Errorf("%q is no name of a role: names that begin with pg_ are PostgreSQL's own", role)
	}
	return nil
}

// options are all that a role can be, so that nothing stays that somebody else gave it.
func (k roles) options(s *session, change driver.Change) (string, error) {
	if err := known(change.Parameters, parameterLogin, parameterInherit, parameterAttributes, parameterConnections,
		parameterValidUntil, parameterMemberOf); err != nil {
		return "", err
	}
	options := " WITH"
	for _, flag := range []struct{ parameter, byDefault, sql string }{{parameterLogin, no, "LOGIN"},
		{parameterInherit, yes, "INHERIT"}} {
		value, err := oneOf(change.Parameters, flag.parameter, flag.byDefault, yes, no)
		if err != nil {
			return "", err
		}
		options += " " + unless(value == yes) + flag.sql
	}
	wanted := strings.Fields(change.Parameters[parameterAttributes])
	for _, attribute := range attributes {
		has := slices.Contains(wanted, attribute.word)
		if has && !attribute.granted {
			return "", fmt.Errorf("a role cannot be given %q: with it, it would be past the engine", attribute.word)
		}
		options += " " + unless(has) + attribute.sql
		wanted = slices.DeleteFunc(wanted, func(word string) bool { return word == attribute.word })
	}
	if len(wanted) > 0 {
		return "", fmt.Errorf("parameter %q has the word %q: each must be createdb or bypassrls", parameterAttributes,
			wanted[0])
	}
	connections, err := connectionLimit(change.Parameters)
	if err != nil {
		return "", err
	}
	options += connections
	until := change.Parameters[parameterValidUntil]
	switch {
	case until == "":
		until = "infinity"
	case !timeForm.MatchString(until):
		return "", fmt.Errorf("parameter %q is %q: it must be a time in UTC such as 2027-01-31T00:00:00Z, or empty",
			parameterValidUntil, until)
	}
	quoted, err := s.literal(until)
	if err != nil {
		return "", err
	}
	password, err := passwordClause(change.Password)
	return options + " VALID UNTIL " + quoted + password, err
}

// passwordClause has the verifier: it is of an alphabet without quotes. Where no password is asked for, that of the
// role is nobody's matter here: a new one has none.
func passwordClause(password string) (string, error) {
	if password == "" {
		return "", nil
	}
	if err := checkPassword(password); err != nil {
		return "", err
	}
	verifier, err := verifierOf(password)
	return " PASSWORD '" + verifier + "'", err
}

func (k roles) memberOf(value string) ([]string, error) {
	groups := strings.Fields(value)
	for _, group := range groups {
		if group == k.Username || strings.HasPrefix(group, ownRoles) || slices.Contains(refusedRoles, group) {
			return nil, fmt.Errorf("a role cannot be a member of %q: it would be past the engine", group)
		}
		if strings.HasSuffix(group, withAdmin) {
			return nil, fmt.Errorf("%q is no name of a role to be a member of", group)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}

// unless is what has an option be its contrary.
func unless(has bool) string {
	if has {
		return ""
	}
	return "NO"
}

// known refuses a parameter that would change nothing.
func known(parameters map[string]string, names ...string) error {
	for _, parameter := range slices.Sorted(maps.Keys(parameters)) {
		if !slices.Contains(names, parameter) {
			return fmt.Errorf("parameter %q is not known: known are %s", parameter, strings.Join(names, ", "))
		}
	}
	return nil
}

func oneOf(parameters map[string]string, parameter, byDefault string, allowed ...string) (string, error) {
	value := parameters[parameter]
	if value == "" {
		return byDefault, nil
	}
	if !slices.Contains(allowed, value) {
		return "", fmt.Errorf("parameter %q is %q: it must be %s", parameter, value, strings.Join(allowed, " or "))
	}
	return value, nil
}

func connectionLimit(parameters map[string]string) (string, error) {
	value := parameters[parameterConnections]
	if value == "" {
		value = anyNumber
	}
	if number, err := strconv.ParseInt(value, 10, 32); err != nil || number < -1 {
		return "", fmt.Errorf("parameter %q is %q: it must be a whole number of at least -1", parameterConnections, value)
	}
	return " CONNECTION LIMIT " + value, nil
}
