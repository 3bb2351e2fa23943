// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"strings"
	"unicode"
)

// unreplicable finds tables that Group Replication takes no writes to: those of another engine than InnoDB, and those
// without a primary key or a unique one, on whole columns that cannot be NULL, that it takes in its place. The limit of
// time is in ms.
const unreplicable = `SELECT /*+ MAX_EXECUTION_TIME(10000) */ t.TABLE_SCHEMA, t.TABLE_NAME
FROM information_schema.TABLES t LEFT JOIN (
  SELECT DISTINCT TABLE_SCHEMA AS base, TABLE_NAME AS called FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0
  GROUP BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME
  HAVING SUM(NULLABLE = 'YES' OR SUB_PART IS NOT NULL OR COLUMN_NAME IS NULL) = 0
) k ON k.base = t.TABLE_SCHEMA AND k.called = t.TABLE_NAME
WHERE t.TABLE_TYPE = 'BASE TABLE' AND (k.base IS NULL OR t.ENGINE <> 'InnoDB') AND t.TABLE_SCHEMA NOT IN (`

// Unreplicable returns the first tables, as database.table and at most so many, that Group Replication takes no writes
// to, and whether there are others.
func (d *Driver) Unreplicable(ctx context.Context, limit int) (tables []string, others bool, err error) {
	err = d.with(ctx, "", func(s *session) error {
		rows, err := s.rows(ctx, unreplicable+placeholders(len(ownDatabases))+") ORDER BY 1, 2 LIMIT ?",
			append(anys(ownDatabases), limit+1)...)
		if err != nil {
			return err
		}
		others = len(rows) > limit
		for _, row := range rows[:min(limit, len(rows))] {
			tables = append(tables, printable(row[0]+"."+row[1]))
		}
		return nil
	})
	return tables, others, err
}

// CertificateEnd is when the certificate ends that clients are shown, as the server says it. One that is given none
// makes one for itself.
func (d *Driver) CertificateEnd(ctx context.Context) (end string, err error) {
	err = d.with(ctx, "", func(s *session) error {
		rows, err := s.rows(ctx, "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = "+
			"'Ssl_server_not_after'")
		if err == nil && len(rows) > 0 {
			end = rows[0][0]
		}
		return err
	})
	return end, err
}

// printable is a name on one line.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}
