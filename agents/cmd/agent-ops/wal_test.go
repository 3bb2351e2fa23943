// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestTwoFailoversWithoutTheArchive: the store is away through both, and the last primary removes what it takes for
// archived before the store is back. All is restored that was written on each timeline.
func TestTwoFailoversWithoutTheArchive(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 3)
	place := f.archived(nil)
	a, others := f.begin(1)
	b, c := others[0], others[1]
	a.archives()
	backup := a.backup()
	if err := os.Rename(place, place+".away"); err != nil {
		t.Fatal(err)
	}
	var rows []int
	written := func(n *node) {
		t.Helper()
		for range 3 {
			rows = append(rows, 100+len(rows))
			n.sql(fmt.Sprintf("INSERT INTO t VALUES (%d)", rows[len(rows)-1]))
			n.sql("SELECT pg_switch_wal()")
		}
	}
	written(a)
	c.gives("102", "SELECT max(n) FROM t")
	b.gives("102", "SELECT max(n) FROM t")
	f.fail(a, b, 1, f.nodes...)
	c.follows(b)
	written(b)
	c.gives("105", "SELECT max(n) FROM t")
	f.fail(b, c, 0, f.nodes...)
	f.await("it is said that the store is away",
		func() bool { return strings.Contains(c.state().Reason, "is its volume mounted?") })
	c.configure("wal_keep_size = 0")
	c.sql("SELECT pg_reload_conf()")
	c.gives("0", "SHOW wal_keep_size")
	written(c)
	for range 2 {
		c.sql("CHECKPOINT")
	}
	if err := os.Rename(place+".away", place); err != nil {
		t.Fatal(err)
	}
	c.archives()
	if s := c.state(); s.Gap != "" || s.Reason != "" {
		t.Errorf("it is noted as %+v", s)
	}
	n := f.restored(0, backup)
	n.recovers()
	if missing := missingOf(n, rows); missing != "" {
		t.Errorf("of what was written %s are missing", missing)
	}
	if got := n.sql("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"); got != "00000004" {
		t.Errorf("it goes on on timeline %s", got)
	}
}
