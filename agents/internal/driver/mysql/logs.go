// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
)

// ArchiveTable has the number of the data that logs are archived of. Members of a group have it from each other, and a
// dump has it not: what is restored is other data.
const ArchiveTable = "mysql." + OwnPrefix + "_archive"

// Logs are the binary logs of a server.
type Logs struct {
	// Server is its UUID.
	Server string
	// Writes says that it is the primary of its group and sees most of it, or a server alone. One that is cut off from
	// the others takes itself for the primary while they have another one.
	Writes bool
	// Executed is the GTID set of all its transactions, and Purged that of those which are in none of its logs: they were
	// in logs that it has removed, or came with data that was copied from elsewhere.
	Executed, Purged string
	// Base is the path of the logs without the number at its end, and Names are their names in order; the last one is
	// open.
	Base  string
	Names []string
}

const observeLogs = `SELECT @@global.server_uuid, REPLACE(@@global.gtid_executed, '\n', ''),
  REPLACE(@@global.gtid_purged, '\n', ''), COALESCE(@@global.log_bin_basename, ''),
  NOT EXISTS (SELECT 1 FROM performance_schema.global_variables
    WHERE VARIABLE_NAME = 'group_replication_group_name' AND VARIABLE_VALUE <> '')
  OR EXISTS (SELECT 1 FROM performance_schema.replication_group_members
    WHERE MEMBER_ID = @@global.server_uuid AND MEMBER_STATE = 'ONLINE' AND MEMBER_ROLE = 'PRIMARY')
  AND (SELECT 2 * SUM(MEMBER_STATE IN ('ONLINE', 'RECOVERING')) > COUNT(*)
    FROM performance_schema.replication_group_members)`

// Logs says which binary logs there are.
func (d *Driver) Logs(ctx context.Context) (logs Logs, err error) {
	err = d.with(ctx, "", func(s *session) error {
		rows, err := s.rows(ctx, observeLogs)
		if err != nil {
			return err
		}
		logs = Logs{Server: rows[0][0], Executed: rows[0][1], Purged: rows[0][2], Base: rows[0][3],
			Writes: rows[0][4] == "1"}
		if rows, err = s.rows(ctx, "SHOW BINARY LOGS"); err != nil {
			return err
		}
		for _, row := range rows {
			logs.Names = append(logs.Names, row[0])
		}
		return nil
	})
	return logs, err
}

// FlushLogs closes the binary log and begins another one. Other members do not hear of it.
func (d *Driver) FlushLogs(ctx context.Context) error {
	return d.with(ctx, "", func(s *session) error { return s.do(ctx, statement{text: "FLUSH LOCAL BINARY LOGS"}) })
}

// ArchivedAs is the number of the data, which gets one where it has none and the server takes writes.
func (d *Driver) ArchivedAs(ctx context.Context) (id string, err error) {
	err = d.with(ctx, "", func(s *session) error {
		if id, err = s.archivedAs(ctx); err != nil || id != "" {
			return err
		}
		number := make([]byte, 16)
		// It never fails.
		_, _ = rand.Read(number)
		// Where this data is a copy, others may have its source's number: the logs that they copied it from have that.
		err := s.carryOut(ctx, []statement{
			{text: "DROP TABLE IF EXISTS " + ArchiveTable},
			{text: "CREATE TABLE " + ArchiveTable + " (id CHAR(32) NOT NULL PRIMARY KEY)"},
			{"INSERT INTO " + ArchiveTable + " VALUES (?)", []any{hex.EncodeToString(number)}},
		})
		if err != nil {
			return fmt.Errorf("cannot note which data is archived: %w", err)
		}
		id, err = s.archivedAs(ctx)
		return err
	})
	return id, err
}

// Archive is the number of the data that logs are archived of; empty where none are.
func (d *Driver) Archive(ctx context.Context) (id string, err error) {
	err = d.with(ctx, "", func(s *session) error {
		id, err = s.archivedAs(ctx)
		return err
	})
	return id, err
}

// archivedAs is the number of the data; empty where it has none.
func (s *session) archivedAs(ctx context.Context) (string, error) {
	base, table, _ := strings.Cut(ArchiveTable, ".")
	there, err := s.rows(ctx, "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?", base,
		table)
	if err != nil || len(there) == 0 {
		return "", err
	}
	rows, err := s.rows(ctx, "SELECT id FROM "+ArchiveTable+" LIMIT 1")
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][0], nil
}
