// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver/postgres/wal"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// snapshot is a copy of a server's data, and what is known of it.
type snapshot struct {
	folder string
	target mover.Target
}

// snapshot copies the data of a server as a Backup does.
func (n *node) snapshot(place string) snapshot {
	n.Helper()
	s := snapshot{folder: filepath.Join(n.flock.root, "snapshot")}
	cmd := n.command()
	cmd.Path, cmd.Args = filepath.Join(n.programs, "pg_basebackup"),
		[]string{"pg_basebackup", "-h", n.path("run"), "-U", "postgres", "-D", s.folder, "-X", "fetch", "--verbose",
			"--checkpoint=fast"}
	said, err := cmd.CombinedOutput()
	found := regexp.MustCompile(`(?s)log start point: \S+ on timeline (\d+).*log end point: (\S+)`).FindSubmatch(said)
	if err != nil || found == nil {
		n.Fatalf("pg_basebackup: %v: %s", err, said)
	}
	s.target = mover.Target{Since: time.Now(), Place: "default/shop",
		Parameters: map[string]string{"archive.folder": place},
		Facts:      map[string]string{"timeline": string(found[1]), "stopLSN": string(found[2]), "archive": ""}}
	return s
}

// recovered makes a server of a snapshot, at a time. It says what was said, and the exit code.
func (f *flock) recovered(ordinal int, s snapshot, at time.Time, verb string) (n *node, said string, code int) {
	f.Helper()
	members := f.nodes
	f.add(10 + ordinal)
	n = f.nodes[len(f.nodes)-1]
	f.nodes = members
	if out, err := exec.Command("cp", "-a", s.folder, n.path("data/pgdata")).CombinedOutput(); err != nil {
		f.Fatalf("cp: %v: %s", err, out)
	}
	s.target.Time = at
	cmd := n.command(verb, "--data", n.path("data/pgdata"), "--work", n.path("data/.recovery"), "--give-up", "10s",
		"--secrets", members[0].path("secrets"))
	cmd.Env = append(cmd.Env, mover.TargetEnv+"="+string(must(json.Marshal(s.target))))
	out, err := cmd.CombinedOutput()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
		code = exited.ExitCode()
	} else if err != nil {
		f.Fatal(err)
	}
	if _, err := os.Lstat(n.path("data/.recovery")); err == nil {
		f.Errorf("%s leaves its folder", verb)
	}
	return n, string(out), code
}

// outOfRange: neither command does anything for a target that cannot be reached, and both say what can be.
func (f *flock) outOfRange(s snapshot, at time.Time, says string) {
	f.Helper()
	for i, verb := range []string{"reach", "recover"} {
		n, said, code := f.recovered(20+i, s, at, verb)
		if code != mover.ExitOutOfRange || !strings.Contains(said, says) {
			f.Errorf("%s to %v ends with %d: %s", verb, at, code, said)
		}
		if has(n.path("data/pgdata/recovery.signal")) {
			f.Errorf("%s to %v touches the data", verb, at)
		}
		if err := os.RemoveAll(n.root); err != nil {
			f.Fatal(err)
		}
	}
}

// TestRecoveryToAPointInTime: a server has all that was committed until a time, before a failover and after it, and
// nothing of what came then. It goes on on a timeline of its own, and its log does not get to the archive that it came
// from.
func TestRecoveryToAPointInTime(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 2)
	place := f.archived(nil)
	a, others := f.begin(1)
	b := others[0]
	a.sql("CREATE TABLE weight (x text)")
	a.archives()
	s := a.snapshot(place)
	l := f.load(a)
	for range 3 {
		l.more(10)
		a.archives()
	}
	f.fail(a, b, 0, f.nodes...)
	l.to.Store(b)
	l.more(20)
	b.archives()
	l.more(20)
	close(l.stop)
	l.ended.Wait()
	b.archives()
	for i, at := range []int{len(l.rows) / 4, len(l.rows) - 25} {
		n, said, code := f.recovered(i, s, l.times[at], "recover")
		if code != 0 {
			t.Fatalf("it ends with %d: %s", code, said)
		}
		l.goesOn(n, at, place)
	}
	if _, said, code := f.recovered(2, s, l.times[0], "reach"); code != 0 {
		t.Errorf("reach ends with %d: %s", code, said)
	}
	f.outOfRange(s, s.target.Since.Add(-time.Second), "when the backup was complete: take an earlier backup")
	f.outOfRange(s, time.Now().Add(time.Hour), "it can be from "+s.target.Since.UTC().Format("2006-01-02T15:04:05"))
	lost := s
	lost.target.Facts = map[string]string{"timeline": "7", "stopLSN": "0/9000000"}
	if n, said, code := f.recovered(3, lost, l.times[0], "recover"); code != mover.ExitOutOfRange ||
		!strings.Contains(said, "does not descend from it") {
		t.Errorf("from another timeline %s ends with %d: %s", n.pod, code, said)
	}
	f.recoversNotAcross(s, place, l.times[len(l.rows)-25])
}

// goesOn: the server has the rows, and archives in a folder of its own at the place that it came from.
func (l *load) goesOn(n *node, at int, place string) {
	l.Helper()
	n.start()
	n.answers()
	if last, missing := n.sql("SELECT max(n) FROM t"), missingOf(n, l.rows[:at+1]); last != fmt.Sprint(l.rows[at]) ||
		missing != "" {
		l.Errorf("at %v the last row is %s and not %d; missing are %q", l.times[at], last, l.rows[at], missing)
	}
	got := n.sql("SELECT pg_is_in_recovery() || ' ' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)")
	if got != "false 00000003" {
		l.Errorf("it goes on with %s", got)
	}
	n.signal(syscall.SIGINT)
	given := strings.TrimSpace(string(must(os.ReadFile(n.path("data/pgdata/" + wal.RestoredFile)))))
	// A store has folders by itself.
	if err := os.Mkdir(filepath.Join(place, given), 0o700); err != nil {
		l.Fatal(err)
	}
	l.own(filepath.Join(place, given))
	n.put("archive.json", string(must(json.Marshal(map[string]string{"archive.folder": place}))))
	n.configure("archive_mode = on", fmt.Sprintf(
		"archive_command = '%s postgresql archive --archive %s --notes %s --give-up 5s %%p %%f'", l.binary,
		n.path("archive.json"), n.path("run")))
	n.start()
	n.answers()
	n.archives()
	l.reachesIn(n, place, given)
	if !has(filepath.Join(place, given, "timelines", "00000003-0.history.zst")) ||
		has(filepath.Join(place, "timelines", "00000003-0.history.zst")) {
		l.Errorf("nobody knows which timeline the archive is of, or it is in the former one: %s", n.said())
	}
	n.signal(syscall.SIGKILL)
}

// reachesIn: what is restored has its log in a folder of its own, where it is looked for when the backup names that,
// and left to the data when it names none.
func (l *load) reachesIn(n *node, place, given string) {
	l.Helper()
	// Whether it can be reached is seen without the data.
	s := snapshot{folder: l.TempDir(), target: mover.Target{Since: time.Now(), Place: "default/shop",
		Parameters: map[string]string{"archive.folder": place},
		Facts:      map[string]string{"timeline": "3", "stopLSN": n.sql("SELECT pg_current_wal_lsn()")}}}
	// What a Backup notes of it is what the data says.
	facts := methodOf(l.T, "postgresql", "postgresql", "base").Facts
	asks := regexp.MustCompile(`(?s)--command="(SELECT 'archive=' .*?)"`).FindStringSubmatch(strings.Join(facts, "\n"))
	if asks == nil || n.sql(asks[1]) != "archive="+given {
		l.Fatalf("the plugin does not tell the folder %s by %q", given, facts)
	}
	n.sql("CREATE TABLE later (x int)")
	at := time.Now()
	n.sql("INSERT INTO later VALUES (1)")
	n.archives()
	for name, tc := range map[string]struct {
		facts map[string]string
		code  int
	}{
		"its folder":  {map[string]string{"archive": given}, 0},
		"another one": {map[string]string{"archive": ""}, mover.ExitOutOfRange},
		"none":        {nil, 0},
		"elsewhere":   {map[string]string{"archive": "../" + given}, 1},
	} {
		before := s
		before.target.Facts = maps.Clone(s.target.Facts)
		maps.Copy(before.target.Facts, tc.facts)
		m, said, code := l.recovered(30, before, at, "reach")
		if code != tc.code {
			l.Errorf("%s: reach ends with %d: %s", name, code, said)
		}
		if err := os.RemoveAll(m.root); err != nil {
			l.Fatal(err)
		}
	}
}

// recoversNotAcross a segment that is gone: what is there then is no database.
func (f *flock) recoversNotAcross(s snapshot, place string, at time.Time) {
	f.Helper()
	segments, err := filepath.Glob(filepath.Join(place, "wal/00000001-0/0*0[0-9A-F].zst"))
	if err != nil || len(segments) < 4 {
		f.Fatalf("the archive has %v, %v", segments, err)
	}
	if err := os.Remove(segments[len(segments)-2]); err != nil {
		f.Fatal(err)
	}
	n, said, code := f.recovered(4, s, at, "recover")
	if code == 0 || code == mover.ExitOutOfRange || !strings.Contains(said, "is missing in the archive") ||
		!has(n.path("data/pgdata/recovery.signal")) {
		f.Errorf("across a gap it ends with %d: %s", code, said)
	}
}
