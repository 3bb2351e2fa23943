// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"time"
)

// ArchivingTable has one row while the server archives its logs, for the metrics. It is in memory alone, is made anew
// at each start, and is no part of the binary log.
const ArchivingTable = "mysql." + OwnPrefix + "_archiving"

// ArchivingLines make an empty ArchivingTable.
func ArchivingLines() []string {
	return []string{"DROP TABLE IF EXISTS " + ArchivingTable,
		"CREATE TABLE " + ArchivingTable + " (id TINYINT NOT NULL PRIMARY KEY, archived BIGINT NOT NULL, " +
			"failures BIGINT NOT NULL, last_archived BIGINT, failing TINYINT NOT NULL, waiting BIGINT, " +
			"free BIGINT NOT NULL, volume BIGINT NOT NULL, full_in BIGINT) ENGINE = MEMORY"}
}

// Archiving is how archiving goes.
type Archiving struct {
	// Archived logs, and attempts that failed, since the archiver was started.
	Archived, Failures int64
	// Last is when a log was archived; zero for none.
	Last time.Time
	// Failing says that the last attempt failed.
	Failing bool
	// Waiting logs; negative when nobody knows.
	Waiting int64
	// FreeBytes and VolumeBytes of the volume, and FullSeconds until it is full; 0 when nobody can tell.
	FreeBytes, VolumeBytes, FullSeconds int64
}

// NoteArchiving has the metrics say how archiving goes.
func (d *Driver) NoteArchiving(ctx context.Context, a Archiving) error {
	var last, waiting, full any
	if !a.Last.IsZero() {
		last = a.Last.Unix()
	}
	if a.Waiting >= 0 {
		waiting = a.Waiting
	}
	if a.FullSeconds > 0 {
		full = a.FullSeconds
	}
	return d.with(ctx, "", func(s *session) error {
		return s.carryOut(ctx, []statement{
			{text: "SET SESSION sql_log_bin = 0"},
			{"REPLACE INTO " + ArchivingTable + " VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
				[]any{a.Archived, a.Failures, last, a.Failing, waiting, a.FreeBytes, a.VolumeBytes, full}},
		})
	})
}
