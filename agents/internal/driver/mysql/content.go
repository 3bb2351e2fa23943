// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checkTimeout bounds the check of one table.
const checkTimeout = 24 * time.Hour

// Content says what is in a server.
type Content struct {
	// Version such as 8.0.33.
	Version string
	// Databases but the server's own.
	Databases []string
	// NonTransactional is how many tables have an engine without transactions.
	NonTransactional int
}

// Content reads what is in a server.
func (d *Driver) Content(ctx context.Context) (content Content, err error) {
	err = d.with(ctx, "", func(s *session) error {
		rows, err := s.rows(ctx,
			`SELECT SUBSTRING_INDEX(@@version, '-', 1), (SELECT COUNT(*)
  FROM information_schema.TABLES t JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
  WHERE COALESCE(e.TRANSACTIONS, 'NO') <> 'YES' AND t.TABLE_SCHEMA NOT IN (`+placeholders(len(ownDatabases))+"))",
			anys(ownDatabases)...)
		if err != nil {
			return err
		}
		content.Version = rows[0][0]
		if content.NonTransactional, err = strconv.Atoi(rows[0][1]); err != nil {
			return err
		}
		rows, err = s.rows(ctx, "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN ("+
			placeholders(len(ownDatabases))+") ORDER BY 1", anys(ownDatabases)...)
		for _, row := range rows {
			content.Databases = append(content.Databases, row[0])
		}
		return err
	})
	return content, err
}

// Accounts returns the statements that make the users and roles of a server, but the instance's own, with verifiers of
// their passwords and what they are granted; and how many there are.
func (d *Driver) Accounts(ctx context.Context) (statements []string, n int, err error) {
	err = d.with(ctx, "", func(s *session) error {
		rows, err := s.rows(ctx, "SELECT User, Host FROM mysql.user WHERE User NOT IN ("+placeholders(len(own))+
			") AND User NOT LIKE ? ORDER BY 1, 2",
			append(anys(own), OwnPrefix+"%")...)
		if err != nil {
			return err
		}
		n = len(rows)
		// Verifiers have bytes that are no text.
		if err := s.do(ctx, statement{text: "SET SESSION print_identified_with_as_hex = ON"}); err != nil {
			return err
		}
		var after []string
		for _, row := range rows {
			a := account{row[0], row[1]}
			made, defaultRoles, err := s.made(ctx, a)
			if err != nil {
				return err
			}
			granted, err := s.rows(ctx, "SHOW GRANTS FOR ?@?", a.arguments()...)
			if err != nil {
				return err
			}
			statements = append(statements, made)
			for _, grant := range granted {
				after = append(after, portable(grant[0])...)
			}
			after = append(after, defaultRoles...)
		}
		// What is granted can be a role, which has to be there.
		statements = append(statements, after...)
		return nil
	})
	return statements, n, err
}

// formerPrivilege is one of 8.0 that later servers do not know, and have two others for.
const formerPrivilege = "SET_USER_ID"

// portable are statements that grant the same in a server of a later version, too.
func portable(grant string) []string {
	words, rest, found := strings.Cut(strings.TrimPrefix(grant, "GRANT "), " ON *.* TO ")
	privileges := strings.Split(words, ",")
	i := slices.Index(privileges, formerPrivilege)
	if !found || i < 0 {
		return []string{grant}
	}
	var statements []string
	if others := slices.Delete(privileges, i, i+1); len(others) > 0 {
		statements = append(statements, "GRANT "+strings.Join(others, ",")+" ON *.* TO "+rest)
	}
	literal := "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(" ON *.* TO "+rest) + "'"
	return append(statements, "SET @zeroinfra = CONCAT('GRANT ', IF(VERSION() LIKE '8.0.%', '"+formerPrivilege+
		"', 'SET_ANY_DEFINER,ALLOW_NONEXISTENT_DEFINER'), "+literal+")",
		"PREPARE zeroinfra FROM @zeroinfra", "EXECUTE zeroinfra", "DEALLOCATE PREPARE zeroinfra")
}

// made is the statement that makes an account, and what follows once it has its roles.
func (s *session) made(ctx context.Context, a account) (string, []string, error) {
	rows, err := s.rows(ctx, "SHOW CREATE USER ?@?", a.arguments()...)
	if err != nil || len(rows) == 0 {
		return "", nil, errors.Join(fmt.Errorf("cannot read the user %q", a.user), err)
	}
	text, defaultRoles := rows[0][0], []string(nil)
	before, rest, found := strings.Cut(text, " DEFAULT ROLE ")
	if found {
		roles, after, ok := strings.Cut(rest, " REQUIRE ")
		if !ok {
			return "", nil, fmt.Errorf("cannot read the roles of the user %q", a.user)
		}
		text = before + " REQUIRE " + after
		defaultRoles = []string{"ALTER USER " + name(a.user) + "@" + name(a.host) + " DEFAULT ROLE " + roles}
	}
	return strings.Replace(text, "CREATE USER ", "CREATE USER IF NOT EXISTS ", 1), defaultRoles, nil
}

// Damaged is the error of data that is not as it should be.
type Damaged struct{ Sentences []string }

// Error implements error.
func (e *Damaged) Error() string { return strings.Join(e.Sentences, "\n") }

// Check reads all tables with their indexes, and returns how many there are. The error is a Damaged where some are not
// as they should be.
func (d *Driver) Check(ctx context.Context) (tables int, err error) {
	damaged := &Damaged{}
	err = d.with(ctx, "", func(s *session) error {
		rows, err := s.rows(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE "+
			"TABLE' AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema') ORDER BY 1, 2")
		if err != nil {
			return err
		}
		tables = len(rows)
		for _, row := range rows {
			sentences, err := s.check(ctx, row[0], row[1])
			if err != nil {
				return err
			}
			damaged.Sentences = append(damaged.Sentences, sentences...)
		}
		return nil
	})
	if err == nil && len(damaged.Sentences) > 0 {
		return tables, damaged
	}
	return tables, err
}

func (s *session) check(ctx context.Context, database, table string) (sentences []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	answer, err := s.table(ctx, "CHECK TABLE "+name(database, table))
	if err != nil {
		return nil, err
	}
	for _, row := range answer.Rows {
		kind, said := row[2], row[3]
		if kind != nil && said != nil && strings.EqualFold(*kind, "error") {
			sentences = append(sentences, fmt.Sprintf("table %s.%s: %s", database, table, *said))
		}
	}
	return sentences, nil
}

const observeGroup = `SELECT @@global.super_read_only AND EXISTS (SELECT 1 FROM performance_schema.global_variables
    WHERE VARIABLE_NAME = 'group_replication_group_name' AND VARIABLE_VALUE <> ''),
  EXISTS (SELECT 1 FROM performance_schema.replication_group_members
    WHERE MEMBER_ID = @@global.server_uuid AND MEMBER_STATE = 'ONLINE')`

// Rotate gives one of the instance's own accounts another password. That of before stays valid beside it. In a group
// the primary does so for all, and others leave it to the primary. A server alone that somebody has take no writes
// refuses it.
func (d *Driver) Rotate(ctx context.Context, user, password string) error {
	a := account{user, anyHost}
	return d.with(ctx, "", func(s *session) error {
		rows, err := s.rows(ctx, "SELECT authentication_string FROM mysql.user WHERE User = ? AND Host = ?", a.arguments()...)
		if err != nil {
			return err
		}
		if len(rows) == 0 || d.options.Verified.same(rows[0][0], password) {
			return nil
		}
		is, err := s.rows(ctx, observeGroup)
		if err != nil || is[0][0] == "1" {
			return err
		}
		statements := []statement{{"ALTER USER ?@? IDENTIFIED WITH " + plugin + " BY ? RETAIN CURRENT PASSWORD",
			append(a.arguments(), password)}}
		if is[0][1] == "0" {
			statements = append([]statement{{text: "SET SESSION sql_log_bin = 0"}}, statements...)
		}
		return s.carryOut(ctx, statements)
	})
}

// Purge says that the data of a server has transactions that are in no binary log of it.
func (d *Driver) Purge(ctx context.Context, transactions string) error {
	return d.with(ctx, "", func(s *session) error {
		return s.do(ctx, statement{"SET GLOBAL gtid_purged = ?", []any{transactions}})
	})
}
