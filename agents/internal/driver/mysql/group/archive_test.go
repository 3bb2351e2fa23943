// SPDX-License-Identifier: Apache-2.0

//go:build processes

package group_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/driver/mysql/binlog"
	"github.com/zeroinfra/agents/internal/driver/mysql/group"
	"github.com/zeroinfra/agents/internal/pointintime"
	"github.com/zeroinfra/agents/internal/store"
)

// archive has a member close its log, keep it in a folder, and returns the folder of the data's number.
func (c *cluster) archive(pod, folder string) string {
	c.Helper()
	s, number := c.servers[pod], ""
	open := func(_ context.Context, id string) (store.Store, error) {
		number = filepath.Join(folder, id)
		if err := os.MkdirAll(number, 0o700); err != nil {
			return nil, err
		}
		return store.NewFolder(number)
	}
	place := func() (binlog.Place, error) { return binlog.Place{Open: open}, nil }
	a := &binlog.Archiver{Driver: s.Server.Driver, Place: place,
		Notes: filepath.Join(folder, "notes"), Work: c.TempDir(), Log: slog.New(slog.DiscardHandler)}
	for range 2 {
		if state, err := a.Pass(c.Context(), time.Now()); err != nil || state == binlog.StateIdle {
			c.Fatalf("got %q, %v", state, err)
		}
	}
	return number
}

// A member that has copied all data has logs that say nothing of what was before, and goes on from that all the same.
// Where its data has no number yet, all members get the same one. One that is cut off from the others archives nothing.
func TestArchiveOfAMemberThatHasCopied(t *testing.T) {
	c := newCluster(t)
	c.settle(group.Unformed)
	c.servers["a"].SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY); INSERT INTO app.rows_ VALUES (1)")
	c.everywhere(1)
	for _, pod := range pods {
		c.servers[pod].SQL("FLUSH LOCAL BINARY LOGS; PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
	}
	c.renew("c")
	before := c.servers["c"].SQL("SELECT REPLACE(@@global.gtid_purged, '\\n', '')")
	// As of a member whose data is a copy, and that others have copied the logs of its source from.
	c.servers["b"].SQL("SET SESSION sql_log_bin = 0; SET GLOBAL super_read_only = OFF; CREATE TABLE " +
		mysql.ArchiveTable + " (id CHAR(32) NOT NULL PRIMARY KEY); INSERT INTO " + mysql.ArchiveTable +
		" VALUES (REPEAT('0', 32)); SET GLOBAL super_read_only = ON")
	if err := c.SetPrimary(t.Context(), "a", "c"); err != nil {
		t.Fatal(err)
	}
	if now := c.primary(); now != "c" {
		t.Fatalf("%s is the primary", now)
	}
	if err := c.write("c", 2); err != nil {
		t.Fatal(err)
	}
	folder := c.archive("c", t.TempDir())
	for _, pod := range pods {
		c.servers[pod].Until(pod+" has the number", func(context.Context) error {
			got, err := c.servers[pod].TrySQL("SELECT GROUP_CONCAT(id) FROM " + mysql.ArchiveTable)
			if err == nil && got != filepath.Base(folder) {
				err = fmt.Errorf("it is %s", got)
			}
			return err
		})
	}

	opened, err := store.NewFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	replay := func(has string) (string, error) {
		var sql strings.Builder
		r := &binlog.Replay{Archive: &binlog.Archive{Store: opened}, Until: time.Now().Add(-time.Hour),
			Program: filepath.Join(c.servers["c"].Bin, "mysqlbinlog"), Work: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
		err := r.Write(t.Context(), has, &sql)
		return sql.String(), err
	}
	if _, err := replay(before); err != nil {
		t.Errorf("with what it has copied: %v", err)
	}
	if _, err := replay(""); !errors.As(err, new(pointintime.OutOfRange)) ||
		!strings.Contains(err.Error(), "the archive lacks the transactions") {
		t.Errorf("without what it has copied: got %v", err)
	}

	c.servers["a"].Kill()
	c.servers["b"].Kill()
	c.servers["c"].Until("it misses the others", func(context.Context) error {
		got, err := c.servers["c"].TrySQL("SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE " +
			"MEMBER_STATE = 'UNREACHABLE'")
		if err == nil && got != "2" {
			err = fmt.Errorf("it misses %s", got)
		}
		return err
	})
	d, err := c.servers["c"].Server.Driver()
	if err != nil {
		t.Fatal(err)
	}
	if logs, err := d.Logs(t.Context()); err != nil || logs.Writes {
		t.Errorf("without the others it takes itself for the primary: %+v, %v", logs, err)
	}
}
