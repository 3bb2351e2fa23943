// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Moment is one in which nothing is written.
type Moment struct {
	// Archive is the number of the data, and Transactions those that it has.
	Archive, Transactions string
}

const (
	// momentAttempts to have the server stand still for a moment are made before somebody is told that it does not.
	momentAttempts = 6
	momentPause    = 5 * time.Second
	errLockTimeout = 1205
	// snapshotPatience bounds how long nothing is written.
	snapshotPatience = 20 * time.Second
	snapshotPoll     = 20 * time.Millisecond
)

// Seen waits until a mysqldump, by the number of its process, has the snapshot that it reads from, or is over.
type Seen func(pid int, over <-chan struct{}) error

// At calls begin in a moment in which nothing is written, and during in the time after that, in which clients write and
// nobody changes tables or accounts. begin returns once what it has begun sees the data of the moment.
func (d *Driver) At(ctx context.Context, begin func(Seen) error, during func(Moment) error) error {
	return d.with(ctx, "", func(s *session) error {
		var moment Moment
		var err error
		if moment.Archive, err = s.archivedAs(ctx); err != nil {
			return err
		}
		// It does nothing for as long as the dump takes.
		if err := s.do(ctx, statement{text: "SET SESSION wait_timeout = 604800"}); err != nil {
			return err
		}
		if err := s.do(ctx, statement{text: "LOCK INSTANCE FOR BACKUP"}); err != nil {
			return fmt.Errorf("cannot keep tables as they are: %w", err)
		}
		if err := s.standStill(ctx); err != nil {
			return err
		}
		rows, err := s.rows(ctx, "SELECT REPLACE(@@global.gtid_executed, '\\n', '')")
		if err == nil {
			moment.Transactions = rows[0][0]
			err = begin(func(pid int, over <-chan struct{}) error { return s.untilSeen(ctx, pid, over) })
		}
		if unlock := s.do(ctx, statement{text: "UNLOCK TABLES"}); err == nil {
			err = unlock
		}
		if err != nil {
			return err
		}
		if err := during(moment); err != nil {
			return err
		}
		// A session that has ended meanwhile has let others change tables.
		if err := s.do(ctx, statement{text: "UNLOCK INSTANCE"}); err != nil {
			return fmt.Errorf("the session that kept tables as they were has ended: %w", err)
		}
		return nil
	})
}

// standStill has the server finish what it writes, and begin nothing. What reads for long would hold up all others, so
// it is given up after a few seconds and tried again.
func (s *session) standStill(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		err := s.do(ctx, statement{text: "FLUSH TABLES WITH READ LOCK"})
		refused := (*mysql.MySQLError)(nil)
		if err == nil || !errors.As(err, &refused) || refused.Number != errLockTimeout {
			return err
		}
		if attempt == momentAttempts {
			return fmt.Errorf("the server does not stand still for a moment, since a statement or a lock lasts for too long: %w",
				err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(momentPause):
		}
	}
}

const observeDump = `SELECT COUNT(*) FROM information_schema.INNODB_TRX t
  JOIN performance_schema.session_connect_attrs p ON p.PROCESSLIST_ID = t.trx_mysql_thread_id
    AND p.ATTR_NAME = 'program_name' AND p.ATTR_VALUE = 'mysqldump'
  JOIN performance_schema.session_connect_attrs i ON i.PROCESSLIST_ID = t.trx_mysql_thread_id
    AND i.ATTR_NAME = '_pid' AND i.ATTR_VALUE = ?
  WHERE COALESCE(t.trx_query, '') NOT LIKE 'START TRANSACTION%' AND t.trx_mysql_thread_id > CONNECTION_ID()`

// untilSeen is a Seen. One that came before the session is of a dump whose pod is gone, and may have the same number in
// that.
func (s *session) untilSeen(ctx context.Context, pid int, over <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, snapshotPatience,
		fmt.Errorf("mysqldump had not begun to read after %s", snapshotPatience))
	defer cancel()
	for {
		rows, err := s.rows(ctx, observeDump, pid)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case rows[0][0] != "0":
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
			return nil
		case <-time.After(snapshotPoll):
		}
	}
}
