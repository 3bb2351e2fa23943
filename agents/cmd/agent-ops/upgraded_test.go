// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// anew has the server of a node end, and another one, of another initdb, be the primary in its place, as after an
// upgrade.
func (n *node) anew() {
	n.Helper()
	n.signal(syscall.SIGINT)
	for _, gone := range []string{"data/pgdata", "data/.zeroinfra.initialized"} {
		if err := os.RemoveAll(n.path(gone)); err != nil {
			n.Fatal(err)
		}
	}
	n.record(n, 0, n)
	n.start("--writer")
	n.answers()
	n.sql("CREATE TABLE t (n int)")
	n.sql("INSERT INTO t VALUES (7), (8)")
	n.record(n, 0, n.nodes...)
}

// TestDataThatAnUpgradeReplaced: who has the data of before copies the primary's, whatever version its own is of; data
// of any other origin stays.
func TestDataThatAnUpgradeReplaced(t *testing.T) {
	t.Parallel()
	_, a, others := began(t, 3, 0)
	b, c := others[0], others[1]
	a.sql("INSERT INTO t VALUES (1)")
	b.gives("1", "SELECT count(*) FROM t")
	c.gives("1", "SELECT count(*) FROM t")
	system := "SELECT system_identifier FROM pg_control_system()"
	before := a.sql(system)
	b.signal(syscall.SIGINT)
	c.signal(syscall.SIGINT)
	version, err := os.ReadFile(b.path("data/pgdata/PG_VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	a.anew()
	after := a.sql(system)

	// Nobody said that this took the place of anything, and what is said of other data says nothing.
	for _, said := range []string{"", "state=Upgraded\nsystem=" + after + "\nreplaces=4711 4712\n",
		"state=Upgraded\nsystem=4713\nreplaces=" + before + "\n"} {
		a.put("data/pgdata/zeroinfra.upgrade", said)
		b.put("data/pgdata/PG_VERSION", "9.6\n")
		if err := b.do("start", "--primary", a.address); err == nil ||
			!strings.Contains(err.Error(), "rebuild the member if its data can go") {
			t.Errorf("with %q it says %v", said, err)
		}
		b.put("data/pgdata/PG_VERSION", string(version))
		b.start("--primary", a.address)
		b.gives("1", "SELECT count(*) FROM t")
		if err := b.do("follow", a.address); err == nil ||
			!strings.Contains(err.Error(), "rebuild the member if its data can go") {
			t.Errorf("with %q it says %v", said, err)
		}
		b.signal(syscall.SIGINT)
	}

	a.put("data/pgdata/zeroinfra.upgrade", "state=Upgraded\nfrom=15\nto=17\nsystem="+after+"\nreplaces=4711 "+before+
		" \npod=a\n")
	// Of the same version, as one that was away during an upgrade, the way back and another upgrade.
	b.follow(a)
	b.gives(after, system)
	b.gives("2", "SELECT count(*) FROM t")
	// Of another version, while the primary is away as well: then it waits, and loses nothing.
	c.put("data/pgdata/PG_VERSION", "9.6\n")
	a.signal(syscall.SIGINT)
	if err := c.do("start", "--primary", a.address); err == nil ||
		!strings.Contains(err.Error(), "cannot log in at the primary") {
		t.Errorf("it says %v", err)
	}
	if is, err := os.ReadFile(c.path("data/pgdata/PG_VERSION")); err != nil || string(is) != "9.6\n" {
		t.Errorf("the data is of version %q, %v", is, err)
	}
	a.start("--writer")
	a.answers()
	c.follow(a)
	c.gives(after, system)
	c.gives("2", "SELECT count(*) FROM t")
	said := c.whole()
	if !strings.Contains(said, "the data is of another major version, and the primary's replaced it") {
		t.Errorf("it says nothing of that: %s", said)
	}
}
