// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// mover is a carrier whose movers run as the user of the servers.
func (f *flock) mover() *carrier {
	f.Helper()
	m := newMover(f.T)
	m.root = filepath.Join(f.root, "mover")
	for _, folder := range []string{"volume", "credentials", "disk"} {
		if err := os.MkdirAll(m.path(folder), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	m.write("passphrase", []byte(passphrase+"\n"))
	if os.Getuid() == 0 {
		m.wrap = []string{"sh", "-c", `chown -R 65534:65534 "$1" && shift 2 && exec setpriv --reuid=65534 --regid=65534 ` +
			`--clear-groups -- "$0" "$@"`, f.binary, m.root}
	}
	return m
}

// words of a command of the plugin, as they are for this server.
func (f *flock) words(command []string, facts string) []string {
	replace := strings.NewReplacer("/zeroinfra/bin/agent-ops", f.binary, "/usr/lib/postgresql/${app.version}/bin",
		f.programs, "/tmp/facts", facts)
	words := slices.Clone(command)
	for i := range words {
		words[i] = replace.Replace(words[i])
	}
	return words
}

// running are the processes that have a text in their command line and descend from another one; from any where that is
// 0.
func running(ancestor int, text string) (found []int) {
	parents, chosen := map[int]int{}, []int{}
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range entries {
		stat, err1 := os.ReadFile(path)
		command, err2 := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		var pid, parent int
		var state string
		// What comes before the state may have spaces in it.
		if i := bytes.LastIndexByte(stat, ')'); err1 != nil || err2 != nil || i < 0 ||
			second(fmt.Sscan(string(stat[i+1:]), &state, &parent)) != nil {
			continue
		}
		if second(fmt.Sscan(filepath.Base(filepath.Dir(path)), &pid)) == nil {
			parents[pid] = parent
			if bytes.Contains(command, []byte(text)) && state != "Z" {
				chosen = append(chosen, pid)
			}
		}
	}
	for _, pid := range chosen {
		for up := pid; up > 0; up = parents[up] {
			if ancestor == 0 || parents[up] == ancestor {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

// TestMoverDump has movers carry a dump there and back, by what the plugin declares, and be killed on the way.
func TestMoverDump(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 1)
	a, _ := f.begin(0)
	a.sql("CREATE DATABASE shop")
	a.in("shop", "CREATE TABLE kept AS SELECT n, repeat(md5(n::text), 4) AS s FROM generate_series(1, 300000) n; CREATE "+
		"INDEX ON kept (s)")
	m, method := f.mover(), methodOf(t, "postgresql", "postgresql", "dump")
	m.env = []string{"PGHOST=" + a.address, "PGPORT=5432", "PGUSER=postgres", "PGPASSWORD=boss", "PGSSLMODE=disable"}
	there := backup("mover-1", "")
	there.Command, there.Facts = f.words(method.Command, m.path("facts")), f.words(method.Facts, m.path("facts"))
	back := m.into("")
	back.Command = f.words(method.Restore.Command, "")

	// Half a dump is none, however often it was begun anew.
	p := m.start(there)
	m.await("the mover gives up", func() bool {
		for _, pid := range running(p.process.Process.Pid, "pg_dump\x00") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
	if result := p.end(); result.Reason != "CommandFailed" || !strings.Contains(result.Message, "pg_dump of database") ||
		has(m.kept("manifest.json")) {
		t.Errorf("the result is %+v", result)
	}
	there.Backup.Attempt = "mover-2"
	made := m.succeeds(there)
	if made.Facts["databases"] != "3" || made.Facts["names"] != "template1,postgres,shop" || made.RawSize < 30<<20 {
		t.Errorf("the result is %+v", made)
	}

	// What loads it is killed, and then the mover itself.
	for _, victim := range []string{"load", "mover"} {
		m.disk()
		p := m.start(back)
		m.await("the server is loaded", func() bool { return len(running(p.process.Process.Pid, "pg_restore\x00")) > 0 })
		if victim == "mover" {
			_ = p.process.Process.Kill()
			<-p.ended
			m.await("nobody is left", func() bool { return len(running(0, m.path("disk"))) == 0 })
			continue
		}
		for _, pid := range running(p.process.Process.Pid, "postgresql\x00load\x00") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if result := p.end(); result.Reason != "CommandFailed" || !slices.Equal(m.on(), []string{"lost+found"}) {
			t.Errorf("the result is %+v, and on the volume there is %v", result, m.on())
		}
	}
	m.succeeds(back)
	if want := []string{".zeroinfra.restored", "lost+found", "pgdata"}; !slices.Equal(m.on(), want) {
		t.Errorf("on the volume there is %v", m.on())
	}
	f.add(30)
	n := f.nodes[len(f.nodes)-1]
	if err := os.Rename(m.path("disk", "pgdata"), n.path("data/pgdata")); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.answers()
	const sum = "SELECT count(*) || md5(string_agg(n || s, ',' ORDER BY n)) FROM kept"
	if got, want := n.in("shop", sum), a.in("shop", sum); got != want {
		t.Errorf("there is %s, and was %s", got, want)
	}
}
