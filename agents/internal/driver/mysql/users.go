// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
)

// Parameters of a user.
const (
	// parameterPrevious: "yes" has the password that was there before a change be valid until the next change, or until
	// it is "no".
	parameterPrevious = "keep-previous-password"
	// parameterLocked: "yes" keeps the user out.
	parameterLocked = "locked"
	// parameterTLS: "yes" lets the user in over TLS only.
	parameterTLS = "require-tls"
	// parameterConnections: how many sessions it may have at once; 0 for any number.
	parameterConnections = "max-connections"
	// parameterGlobal: words of globalPrivileges.
	parameterGlobal = "global-privileges"
)

// plugin by which users log in.
const plugin = "caching_sha2_password"

// globalPrivileges are those that lead to nothing that the engine keeps.
var globalPrivileges = []string{"PROCESS", "REPLICATION_CLIENT", "REPLICATION_SLAVE", "SHOW_DATABASES"}

// own are users that the server or the engine keeps.
var own = []string{"root", "mysql.infoschema", "mysql.session", "mysql.sys"}

// OwnPrefix begins the names of the engine's own users.
const OwnPrefix = "zeroinfra"

// anyHost is where a user may come from when nothing is said.
const anyHost = "%"

// maxUser is the length of the name of a user.
const maxUser = 32

// account is a user, and where it comes from.
type account struct{ user, host string }

// parseAccount reads the name of a user. The server has hosts in small letters.
func parseAccount(name string) account {
	user, host, found := strings.Cut(name, "@")
	if !found {
		host = anyHost
	}
	return account{user, strings.ToLower(host)}
}

// grantee is how the information schema has it.
func (a account) grantee() string { return "'" + a.user + "'@'" + a.host + "'" }

func (a account) arguments() []any { return []any{a.user, a.host} }

type users struct{ Options }

const observeUsers = `SELECT u.User, u.Host, u.plugin, HEX(u.authentication_string), u.account_locked, u.ssl_type,
  u.max_user_connections,
  COALESCE(u.User_attributes->>'$.additional_password', ''), COALESCE(u.User_attributes->>'$.metadata.zeroinfra', ''),
  COALESCE((SELECT GROUP_CONCAT(REPLACE(p.PRIVILEGE_TYPE, ' ', '_') ORDER BY p.PRIVILEGE_TYPE SEPARATOR ' ')
    FROM information_schema.USER_PRIVILEGES p
    WHERE p.GRANTEE = CONCAT('''', u.User, '''@''', u.Host, '''') AND p.PRIVILEGE_TYPE <> 'USAGE'), ''),
  EXISTS (SELECT 1 FROM information_schema.USER_PRIVILEGES p
    WHERE p.GRANTEE = CONCAT('''', u.User, '''@''', u.Host, '''') AND p.IS_GRANTABLE = 'YES')
FROM mysql.user u WHERE CONVERT(CONCAT(u.User, '@', u.Host) USING utf8mb4) COLLATE utf8mb4_bin IN (%s)`

// keepsPrevious is what is noted with a user whose previous password is kept.
const keepsPrevious = "keep-previous-password"

func (k users) observe(ctx context.Context, s *session, queries []driver.Query) ([]driver.State, error) {
	asked := map[account]driver.Query{}
	var keys []string
	for _, query := range queries {
		a := parseAccount(query.Name)
		asked[a] = query
		keys = append(keys, a.user+"@"+a.host)
	}
	rows, err := s.rows(ctx, fmt.Sprintf(observeUsers, placeholders(len(keys))), anys(keys)...)
	if err != nil {
		return nil, fmt.Errorf("cannot read the users: %w", err)
	}
	var states []driver.State
	for _, row := range rows {
		query := asked[account{row[0], row[1]}]
		state, err := k.state(query, row[2:])
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

func (k users) state(query driver.Query, row []string) (driver.State, error) {
	verifier, err := hex.DecodeString(row[1])
	if err != nil {
		return driver.State{}, fmt.Errorf("cannot read the user %q: %w", query.Name, err)
	}
	global := row[7]
	if row[8] == "1" {
		global = strings.TrimSpace(global + " " + grantOption)
	}
	state := driver.State{Name: query.Name, Password: driver.SamePassword, Facts: map[string]string{"plugin": row[0]},
		Parameters: map[string]string{
			parameterLocked: yesIf(row[2] == "Y"), parameterTLS: yesIf(row[3] != ""), parameterConnections: row[4],
			parameterPrevious: yesIf(row[6] == keepsPrevious), parameterGlobal: global,
		}}
	if row[5] != "" {
		state.Facts["previousPassword"] = "valid"
	}
	if row[0] != plugin || !k.Verified.same(string(verifier), query.Password) {
		state.Password = driver.OtherPassword
	}
	return state, nil
}

// check refuses names that are the engine's, the server's, or no names.
func (a account) check() error {
	switch {
	case a.user == "" || len(a.user) > maxUser || a.host == "" || strings.ContainsAny(a.user+a.host, "'\\\x00"):
		return fmt.Errorf("%q is no name of a user: it must be <user> or <user>@<host>, with at most %d bytes before the @",
			a.user+"@"+a.host, maxUser)
	case slices.Contains(own, a.user), strings.HasPrefix(a.user, OwnPrefix):
		return fmt.Errorf("the user %q is the instance's own: take another name", a.user)
	}
	return nil
}

func (k users) statements(change driver.Change, there *driver.State) ([]statement, error) {
	a := parseAccount(change.Name)
	if err := a.check(); err != nil {
		return nil, err
	}
	if change.Intent == driver.Delete {
		return []statement{{"DROP USER IF EXISTS ?@?", a.arguments()}}, nil
	}
	wanted, err := parseUser(change.Parameters)
	if err != nil {
		return nil, err
	}
	if there == nil && change.Password == "" {
		return nil, errors.New("a user needs a password")
	}
	var statements []statement
	if there == nil {
		statements = append(statements, statement{"CREATE USER ?@? IDENTIFIED WITH " + plugin + " BY ?" + wanted.options(),
			append(a.arguments(), change.Password)})
	} else {
		statements = append(statements, a.password(change, there, wanted.previous)...)
		statements = append(statements, statement{"ALTER USER ?@?" + wanted.options(), a.arguments()})
	}
	return append(statements, a.global(wanted.global, there)...), nil
}

// password takes over another one. The one before stays valid where that is asked for; where it is not, it ends.
func (a account) password(change driver.Change, there *driver.State, previous bool) []statement {
	var statements []statement
	if change.Password != "" && there.Password == driver.OtherPassword {
		text := "ALTER USER ?@? IDENTIFIED WITH " + plugin + " BY ?"
		if previous && there.Facts["plugin"] == plugin {
			text += " RETAIN CURRENT PASSWORD"
		}
		statements = append(statements, statement{text, append(a.arguments(), change.Password)})
	}
	if !previous {
		statements = append(statements, statement{"ALTER USER ?@? DISCARD OLD PASSWORD", a.arguments()})
	}
	return statements
}

// global takes away what is there and not wanted, and grants the rest. One that may be passed on is not revoked by its
// name when MySQL calls it dynamic, so all are.
func (a account) global(wanted []string, there *driver.State) []statement {
	var has, statements = []string(nil), []statement(nil)
	if there != nil {
		has = strings.Fields(there.Parameters[parameterGlobal])
	}
	if slices.ContainsFunc(has, func(privilege string) bool { return !slices.Contains(wanted, privilege) }) {
		statements = append(statements, statement{"REVOKE ALL PRIVILEGES ON *.* FROM ?@?", a.arguments()},
			statement{"REVOKE GRANT OPTION ON *.* FROM ?@?", a.arguments()})
		has = nil
	}
	for _, privilege := range wanted {
		if !slices.Contains(has, privilege) {
			statements = append(statements, statement{"GRANT " + strings.ReplaceAll(privilege, "_", " ") + " ON *.* TO ?@?",
				a.arguments()})
		}
	}
	return statements
}

// user is one as it is to be.
type user struct {
	locked, tls, previous bool
	connections           uint64
	global                []string
}

func parseUser(parameters map[string]string) (user, error) {
	var u user
	err := known(parameters, parameterConnections, parameterGlobal, parameterLocked, parameterPrevious, parameterTLS)
	if err != nil {
		return u, err
	}
	for parameter, value := range map[string]*bool{parameterLocked: &u.locked, parameterTLS: &u.tls,
		parameterPrevious: &u.previous} {
		if *value, err = yesOrNo(parameters, parameter); err != nil {
			return u, err
		}
	}
	if value := parameters[parameterConnections]; value != "" {
		if u.connections, err = strconv.ParseUint(value, 10, 31); err != nil {
			return u, fmt.Errorf("parameter %q is %q: it must be a whole number, 0 for any number", parameterConnections, value)
		}
	}
	for _, word := range strings.Fields(parameters[parameterGlobal]) {
		if !slices.Contains(globalPrivileges, word) {
			return u, fmt.Errorf("parameter %q has the word %q: there are %s", parameterGlobal, word,
				strings.Join(globalPrivileges, ", "))
		}
		u.global = append(u.global, word)
	}
	return u, nil
}

// options are all that a user can be, so that nothing stays that somebody else gave it.
func (u user) options() string {
	text := " REQUIRE NONE"
	if u.tls {
		text = " REQUIRE SSL"
	}
	text += " WITH MAX_USER_CONNECTIONS " + strconv.FormatUint(u.connections, 10) + " PASSWORD EXPIRE NEVER ACCOUNT "
	if u.locked {
		text += "LOCK"
	} else {
		text += "UNLOCK"
	}
	noted := "null"
	if u.previous {
		noted = `"` + keepsPrevious + `"`
	}
	return text + ` ATTRIBUTE '{"zeroinfra": ` + noted + "}'"
}
