// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/zeroinfra/agents/internal/driver/postgres/wal"
	"github.com/zeroinfra/agents/internal/volumealarm"
)

// archived has all servers of a flock archive to a folder, and returns it.
func (f *flock) archived(settings map[string]string) (place string) {
	f.Helper()
	place = filepath.Join(f.root, "archive")
	if err := os.Mkdir(place, 0o700); err != nil {
		f.Fatal(err)
	}
	f.own(place)
	config := map[string]string{"archive.folder": place}
	for name, value := range settings {
		config[name] = value
	}
	text, err := json.Marshal(config)
	if err != nil {
		f.Fatal(err)
	}
	for _, n := range f.nodes {
		n.put("archive.json", string(text))
		// For copies of the data.
		n.put("pg_hba.conf", string(must(os.ReadFile(n.path("pg_hba.conf"))))+"local replication postgres trust\n")
		n.configure("archive_mode = on", "wal_keep_size = 128MB",
			fmt.Sprintf("archive_command = '%s postgresql archive --archive %s --notes %s --give-up 5s %%p %%f'", f.binary,
				n.path("archive.json"), n.path("run")))
	}
	return place
}

// configure adds lines to the configuration of the server.
func (n *node) configure(lines ...string) {
	n.Helper()
	n.put("postgresql.conf", string(must(os.ReadFile(n.path("postgresql.conf"))))+strings.Join(lines, "\n")+"\n")
}

// backup copies the data of a server.
func (n *node) backup() (folder string) {
	n.Helper()
	folder = filepath.Join(n.flock.root, "backup")
	n.program("pg_basebackup", "-h", n.path("run"), "-U", "postgres", "-D", folder, "-X", "none", "--no-manifest",
		"--checkpoint=fast")
	return folder
}

func (n *node) program(name string, args ...string) {
	n.Helper()
	cmd := n.command()
	cmd.Path, cmd.Args = filepath.Join(n.programs, name), append([]string{name}, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.Fatalf("%s: %v: %s", name, err, out)
	}
}

// restored is a server with a copy of the data that recovers from the archive. It may end by itself.
func (f *flock) restored(ordinal int, backup string, target ...string) *node {
	f.Helper()
	// It is no member.
	members := f.nodes
	f.add(10 + ordinal)
	n := f.nodes[len(f.nodes)-1]
	f.nodes = members
	n.put("archive.json", string(must(os.ReadFile(f.nodes[0].path("archive.json")))))
	copied := exec.Command("cp", "-a", backup, n.path("data/pgdata"))
	if out, err := copied.CombinedOutput(); err != nil {
		f.Fatalf("cp: %v: %s", err, out)
	}
	n.put("data/pgdata/recovery.signal", "")
	n.put("data/pgdata/zeroinfra.conf",
		strings.Join(append(target, "recovery_target_action = promote",
			fmt.Sprintf("restore_command = '%s postgresql restore-wal --secrets %s --archive %s --keep %s --give-up 5s %%f %%p'",
				f.binary, f.nodes[0].path("secrets"), n.path("archive.json"), n.path("restore"))), "\n"))
	n.secret("superuser", "boss", "1")
	n.start()
	return n
}

// recovers waits until the server has all that it is to have, and takes writes.
func (n *node) recovers() {
	n.Helper()
	n.await("it has recovered", func() bool {
		select {
		case <-n.ended:
			n.Fatalf("its recovery failed: %s", n.said())
		default:
		}
		got, _ := n.ask("SELECT pg_is_in_recovery()")
		return got == "f"
	})
}

// archives waits until all that the server has written up to now is archived.
func (n *node) archives() {
	n.Helper()
	segment := n.sql("SELECT pg_walfile_name(pg_switch_wal())")
	n.gives("t", fmt.Sprintf("SELECT substr(last_archived_wal, 1, 24) >= '%s' FROM pg_stat_archiver", segment))
}

// state of archiving as the agent noted it.
func (n *node) state() (s wal.State) {
	data, err := os.ReadFile(n.path("run/" + wal.StateFile))
	if err != nil || json.Unmarshal(data, &s) != nil {
		return wal.State{}
	}
	return s
}

// load writes rows one after the other until it is stopped, and keeps those that were acknowledged, with the time after
// each.
type load struct {
	*flock
	to    atomic.Pointer[node]
	stop  chan struct{}
	ended sync.WaitGroup
	mu    sync.Mutex
	rows  []int
	times []time.Time
}

func (f *flock) load(to *node) *load {
	l := &load{flock: f, stop: make(chan struct{})}
	l.to.Store(to)
	l.ended.Go(func() {
		for i := 1000; ; i++ {
			select {
			case <-l.stop:
				return
			default:
			}
			// Rows with some weight.
			const weight = "INSERT INTO weight SELECT repeat(md5(random()::text), 60) FROM generate_series(1, 20)"
			if _, err := l.to.Load().ask(fmt.Sprintf("INSERT INTO t VALUES (%d); %s", i, weight)); err != nil {
				continue
			}
			l.mu.Lock()
			l.rows, l.times = append(l.rows, i), append(l.times, time.Now())
			l.mu.Unlock()
		}
	})
	return l
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows)
}

func (l *load) more(count int) {
	l.Helper()
	want := l.count() + count
	l.await(fmt.Sprintf("%d more rows", count), func() bool { return l.count() >= want })
}

// isKilled has what archives be killed so long after its begin, with SIGKILL, until it has been, or has been faster for
// a few files. It says how often it has been killed.
func (n *node) isKilled(seconds string) int {
	n.Helper()
	command := n.sql("SHOW archive_command")
	set := func(command string) {
		n.configure("archive_command = '" + command + "'")
		n.sql("SELECT pg_reload_conf()")
		n.gives(command, "SHOW archive_command")
	}
	const said = "failed with exit code 137"
	before := strings.Count(n.whole(), said)
	killed := func() int { return strings.Count(n.whole(), said) - before }
	set("timeout -s KILL " + seconds + " " + command)
	for range 3 {
		archived := n.archived()
		n.sql("SELECT pg_switch_wal()")
		n.await("what archives is killed after "+seconds+" s, or is faster",
			func() bool { return killed() > 0 || n.archived() > archived })
	}
	set(command)
	return killed()
}

// archived is how many files the server has seen archived.
func (n *node) archived() int {
	n.Helper()
	count, err := strconv.Atoi(n.sql("SELECT archived_count FROM pg_stat_archiver"))
	if err != nil {
		n.Fatal(err)
	}
	return count
}

// TestAnArchiveThroughAFailover: under load, with archivers that are killed, a store that is away for a while, and a
// primary that is killed, what is restored has every row that was acknowledged until then, and none from after.
func TestAnArchiveThroughAFailover(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 2)
	place := f.archived(nil)
	a, others := f.begin(1)
	b := others[0]
	a.sql("CREATE TABLE weight (x text)")
	a.archives()
	backup := a.backup()
	l := f.load(a)
	l.more(30)
	killed := 0
	for _, seconds := range []string{"0.005", "0.01", "0.02", "0.05", "0.15"} {
		killed += a.isKilled(seconds)
		l.more(5)
	}
	if killed == 0 {
		t.Error("what archives was never killed")
	}
	away := place + ".away"
	if err := os.Rename(place, away); err != nil {
		t.Fatal(err)
	}
	a.sql("SELECT pg_switch_wal()")
	f.await("it is said that the store is away",
		func() bool { return strings.Contains(a.state().Reason, "is its volume mounted?") })
	l.more(20)
	if err := os.Rename(away, place); err != nil {
		t.Fatal(err)
	}
	a.archives()
	if reason := a.state().Reason; reason != "" {
		t.Errorf("the store is back, and it is noted as %s", reason)
	}
	// The primary is killed with log that it did not come to, and its successor has taken that for archived.
	if err := os.Rename(place, away); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l.more(10)
		a.sql("SELECT pg_switch_wal()")
	}
	f.fail(a, b, 0, f.nodes...)
	if err := os.Rename(away, place); err != nil {
		t.Fatal(err)
	}
	l.to.Store(b)
	l.more(20)
	b.archives()
	l.more(20)
	close(l.stop)
	l.ended.Wait()
	b.archives()
	if b.state().Gap != "" {
		t.Errorf("there is a gap: %s", b.state().Gap)
	}
	t.Logf("%d rows were acknowledged, and the archive has %s", len(l.rows), sizeOf(t, place))
	l.isRestored(backup)
	f.endsAtNoGap(place, backup)
}

// isRestored compares what is restored with what was acknowledged: up to some times before and after the failover, and
// all.
func (l *load) isRestored(backup string) {
	l.Helper()
	for i, at := range []int{len(l.rows) / 4, len(l.rows) / 2, len(l.rows) - 25} {
		n := l.restored(i, backup, fmt.Sprintf("recovery_target_time = '%s UTC'",
			l.times[at].UTC().Format("2006-01-02 15:04:05.000000")))
		n.recovers()
		if last, missing := n.sql("SELECT max(n) FROM t"), missingOf(n, l.rows[:at+1]); last != fmt.Sprint(l.rows[at]) ||
			missing != "" {
			l.Errorf("at %v the last row is %s and not %d; missing are %q", l.times[at], last, l.rows[at], missing)
		}
		n.signal(syscall.SIGKILL)
	}
	n := l.restored(4, backup)
	n.recovers()
	if missing := missingOf(n, l.rows); missing != "" {
		l.Errorf("of what was acknowledged %s are missing", missing)
	}
	if got := n.sql("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"); got != "00000003" {
		l.Errorf("it goes on on timeline %s", got)
	}
	n.signal(syscall.SIGKILL)
}

// endsAtNoGap: a recovery fails where the archive lacks a segment.
func (f *flock) endsAtNoGap(place, backup string) {
	f.Helper()
	segments, err := filepath.Glob(filepath.Join(place, "wal/00000001-0/*.zst"))
	if err != nil || len(segments) < 5 {
		f.Fatalf("the archive has %v, %v", segments, err)
	}
	for _, segment := range segments[len(segments)/2:] {
		if regexp.MustCompile(`/[0-9A-F]{24}\.zst$`).MatchString(segment) {
			if err := os.Remove(segment); err != nil {
				f.Fatal(err)
			}
			break
		}
	}
	n := f.restored(5, backup)
	f.await("the recovery fails", func() bool {
		select {
		case <-n.ended:
			return true
		default:
			return false
		}
	})
	if !strings.Contains(n.said(), "is missing in the archive") ||
		strings.Contains(n.said(), "database system is ready to accept connections") {
		f.Errorf("it says %s", n.said())
	}
}

// missingOf rows that were acknowledged.
func missingOf(n *node, rows []int) string {
	n.Helper()
	var list []string
	for _, row := range rows {
		list = append(list, fmt.Sprint("(", row, ")"))
	}
	return n.sql("SELECT coalesce(string_agg(v.n::text, ' '), '') FROM (VALUES " + strings.Join(list, ", ") +
		") v (n) WHERE NOT EXISTS (SELECT FROM t WHERE t.n = v.n)")
}

func sizeOf(t *testing.T, folder string) string {
	t.Helper()
	out, err := exec.Command("du", "-sh", folder).Output()
	if err != nil {
		t.Fatal(err)
	}
	size, _, _ := strings.Cut(string(out), "\t")
	return size
}

// declared is what the plugin asks of a server.
type declared struct {
	Components []struct {
		Probe      struct{ Command []string }
		Monitoring struct {
			Queries []struct{ Name, Statement string }
		}
	}
}

func (n *node) plugin() (d declared) {
	n.Helper()
	if err := yaml.Unmarshal(must(os.ReadFile("../../../database-operator/plugins/postgresql/1.0.0/components.yaml")),
		&d); err != nil {
		n.Fatal(err)
	}
	return d
}

// here has a statement of the plugin read the files of this server.
func (n *node) here(statement string) string {
	return strings.ReplaceAll(statement, "/zeroinfra/run", n.path("run"))
}

// probed is what the plugin's probe says of a server.
func (n *node) probed() map[string]string {
	n.Helper()
	command := n.plugin().Components[0].Probe.Command
	fields := map[string]string{}
	for line := range strings.Lines(n.sql(n.here(strings.TrimPrefix(command[len(command)-1], "--command=")))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "|")
		fields[key] = value
	}
	return fields
}

// measured is what the plugin's metrics of archiving are.
func (n *node) measured() []string {
	n.Helper()
	for _, query := range n.plugin().Components[0].Monitoring.Queries {
		if query.Name == "archive" {
			return strings.Split(n.sql(n.here(query.Statement)), "|")
		}
	}
	n.Fatal("the plugin has no metrics of archiving")
	return nil
}

// TestWarningAboutTheVolume: what the probe says follows from how archiving goes, from the share of the volume that is
// free, and from who archives.
func TestWarningAboutTheVolume(t *testing.T) {
	f := newFlock(t, 2)
	var stat syscall.Statfs_t
	if err := syscall.Statfs(f.root, &stat); err != nil {
		t.Fatal(err)
	}
	// Clearly above what is free here.
	place := f.archived(map[string]string{"archive.alarm": fmt.Sprint(2 + 110*stat.Bavail/stat.Blocks)})
	a, others := f.begin(0)
	said := func(n *node, archive, level, reason string) {
		t.Helper()
		var got map[string]string
		f.await(fmt.Sprintf("%s says %q %q %q", n.pod, archive, level, reason), func() bool {
			got = n.probed()
			return got["archive"] == archive && got["archive_level"] == level &&
				strings.Contains(got["archive_reason"], reason) && (reason == "") == (got["archive_reason"] == "")
		})
	}
	a.archives()
	said(a, "Archiving", "", "")
	said(others[0], "", "", "")
	// archived_count, failed_count, age, failing, waiting, free, volume, full_in
	if got := a.measured(); len(got) != 8 || got[0] == "0" || got[3] != "f" || got[4] != "0" || got[5] == "" ||
		got[6] == "" || got[7] != "" {
		t.Errorf("its metrics are %q", got)
	}
	if got := others[0].measured(); len(got) != 1 || got[0] != "" {
		t.Errorf("the metrics of one that archives nothing are %q", got)
	}
	if err := os.Rename(place, place+".away"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		a.sql("INSERT INTO t VALUES (1)")
		a.sql("SELECT pg_switch_wal()")
	}
	said(a, "Failing", "Warning", "is its volume mounted?")
	if s := a.state(); s.Waiting < 1 || s.VolumeBytes == 0 || s.FreeBytes == 0 {
		t.Errorf("it is noted as %+v", s)
	}
	// A server that stops does not wait for the store.
	begin := time.Now()
	a.signal(syscall.SIGINT)
	if took := time.Since(begin); took > 25*time.Second {
		t.Errorf("it took %v to stop", took)
	}
	if err := os.Rename(place+".away", place); err != nil {
		t.Fatal(err)
	}
	a.start("--writer")
	a.answers()
	a.archives()
	said(a, "Archiving", "", "")
	// What came to wait since the archiver noted how it goes counts as well.
	a.configure("archive_command = 'false'")
	a.sql("SELECT pg_reload_conf()")
	for free, level := range map[int64]string{31: "Warning", 13: "Critical"} {
		a.put("run/"+wal.StateFile, string(
			must(json.Marshal(wal.State{Volume: volumealarm.Volume{VolumeBytes: 100 * wal.SegmentBytes,
				FreeBytes: free * wal.SegmentBytes, Alarm: 30}}))))
		for range 3 {
			a.sql("INSERT INTO t VALUES (1)")
			a.sql("SELECT pg_switch_wal()")
		}
		said(a, "Failing", level, "")
	}
	// A server of another system finds the place taken.
	other := newFlock(t, 1)
	other.archived(nil)
	other.nodes[0].put("archive.json", string(
		must(json.Marshal(map[string]string{"archive.folder": place, "archive.alarm": "1"}))))
	c, _ := other.begin(0)
	c.sql("SELECT pg_switch_wal()")
	said(c, "Failing", "", "give this one a place of its own")
}
