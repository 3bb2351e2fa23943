// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// nobody runs the servers where the tests run as root, as which they do not start.
const nobody = 65534

// flock is some servers on loopback addresses of their own, each as the process manager of a pod would run it. The test does what
// that would do.
type flock struct {
	*testing.T
	root, programs, network string
	binary                  string
	nodes                   []*node
	term                    int64
}

// node is the server of one pod.
type node struct {
	*flock
	pod, address, root string
	process            *exec.Cmd
	// complaints are what follow said.
	complaints string
	ended      chan struct{}
}

func newFlock(t *testing.T, size int) *flock {
	t.Helper()
	bins, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(bins) == 0 {
		t.Fatal("there is no PostgreSQL: install Debian's package postgresql")
	}
	root, err := os.MkdirTemp("", "replication-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	f := &flock{T: t, root: root, programs: filepath.Dir(bins[len(bins)-1]), binary: filepath.Join(root, "agent-ops"), term: 1,
		network: fmt.Sprintf("127.%d.%d", 10+rand.IntN(240), rand.IntN(250))}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f.copy(own, f.binary, 0o755)
	f.own(root)
	for i := range size {
		f.add(i)
	}
	return f
}

func (f *flock) copy(from, to string, mode os.FileMode) {
	f.Helper()
	source, err := os.Open(from)
	if err != nil {
		f.Fatal(err)
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		f.Fatal(err)
	}
	defer target.Close()
	if _, err := io.Copy(target, source); err != nil {
		f.Fatal(err)
	}
}

func (f *flock) own(path string) {
	f.Helper()
	if os.Getuid() == 0 {
		if err := os.Chown(path, nobody, nobody); err != nil {
			f.Fatal(err)
		}
	}
}

// add makes the volume of a pod.
func (f *flock) add(ordinal int) {
	f.Helper()
	n := &node{flock: f, pod: fmt.Sprintf("db-postgresql-main-%d", ordinal), address: fmt.Sprintf("%s.%d", f.network, 1+ordinal), root: filepath.Join(f.root, fmt.Sprint(ordinal))}
	f.nodes = append(f.nodes, n)
	for _, folder := range []string{"", "data", "run", "secrets", "secrets/superuser", "secrets/replication"} {
		if err := os.MkdirAll(n.path(folder), 0o700); err != nil {
			f.Fatal(err)
		}
		f.own(n.path(folder))
	}
	n.secret("superuser", "boss", "1")
	n.secret("replication", "fol:low", "1")
	n.put("postgresql.conf", fmt.Sprintf(`data_directory = '%[1]s/data/pgdata'
hba_file = '%[1]s/pg_hba.conf'
listen_addresses = '%[2]s'
port = 5432
unix_socket_directories = '%[1]s/run'
fsync = off
shared_buffers = 16MB
wal_retrieve_retry_interval = 200ms
wal_keep_size = 16MB
max_wal_size = 32MB
min_wal_size = 32MB
max_slot_wal_keep_size = 16MB
include_if_exists = '%[1]s/data/pgdata/zeroinfra.conf'
`, n.root, n.address))
	n.put("pg_hba.conf", "local all all trust\nhost all all all scram-sha-256\nhost replication zeroinfra_replication all scram-sha-256\n")
	// The program of the image, at another place.
	script, err := os.ReadFile("../../../hack/images/postgresql/start.sh")
	if err != nil {
		f.Fatal(err)
	}
	n.put("start", strings.NewReplacer("/data", n.root+"/data", "/zeroinfra/", n.root+"/").Replace(string(script)))
	if err := os.Chmod(n.path("start"), 0o755); err != nil {
		f.Fatal(err)
	}
}

func (n *node) path(name string) string { return filepath.Join(n.root, name) }

func (n *node) put(name, content string) {
	n.Helper()
	if err := os.WriteFile(n.path(name), []byte(content), 0o600); err != nil {
		n.Fatal(err)
	}
	n.own(n.path(name))
}

func (n *node) secret(credential, password, revision string) {
	n.put("secrets/"+credential+"/password", password)
	n.put("secrets/"+credential+"/revision", revision)
}

// command of the agent, as the user of the server.
func (n *node) command(args ...string) *exec.Cmd {
	common := []string{"postgresql", "--programs", n.programs, "--config", n.path("postgresql.conf"), "--dir", n.path("data"), "--run", n.path("run"),
		"--secrets", n.path("secrets"), "--pod", n.pod, "--launch", n.path("start"), "--replicas", fmt.Sprint(len(n.nodes))}
	cmd := exec.Command(n.binary, append(common, args...)...)
	cmd.Dir = n.root
	cmd.Env = []string{asAgent + "=1", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + n.root}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// do runs a command of the agent to its end.
func (n *node) do(args ...string) error {
	n.Helper()
	out, err := n.command(args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (n *node) must(args ...string) {
	n.Helper()
	if err := n.do(args...); err != nil {
		n.Fatalf("%s: %v\n%s", n.pod, err, n.said())
	}
}

// start starts the server as what it is to be.
func (n *node) start(args ...string) {
	n.Helper()
	log, err := os.OpenFile(n.path("log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		n.Fatal(err)
	}
	defer log.Close()
	cmd := n.command(append([]string{"start"}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		n.Fatal(err)
	}
	ended := make(chan struct{})
	n.process, n.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	n.Cleanup(func() { n.signal(syscall.SIGKILL) })
}

// signal ends the server and all that it has started.
func (n *node) signal(how syscall.Signal) {
	n.Helper()
	to := n.process.Process.Pid
	if how == syscall.SIGKILL {
		to = -to
	}
	_ = syscall.Kill(to, how)
	n.await("the server has ended", func() bool {
		select {
		case <-n.ended:
			return true
		default:
			return false
		}
	})
}

func (f *flock) await(what string, is func() bool) {
	f.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			for _, n := range f.nodes {
				f.Log(n.pod, n.said())
			}
			f.Fatalf("in vain: %s", what)
		}
	}
}

func (n *node) said() string {
	data, _ := os.ReadFile(n.path("log"))
	return string(data[max(0, len(data)-4000):])
}

// whole is all that the server and follow have said.
func (n *node) whole() string {
	data, _ := os.ReadFile(n.path("log"))
	return string(data) + n.complaints
}

// ask runs a statement. Whoever waits for a commit that nobody else has is told of no time that is over by the server.
func (n *node) ask(statement string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(n.programs, "psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", n.path("run"), "-U", "postgres", "-d", "postgres", "-c", statement)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + n.root, "PGCONNECT_TIMEOUT=5"}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (n *node) sql(statement string) string {
	n.Helper()
	out, err := n.ask(statement)
	if err != nil {
		n.Fatalf("%s: %s: %v: %s\n%s", n.pod, statement, err, out, n.said())
	}
	return out
}

func (n *node) answers() { n.Helper(); n.gives("1", "SELECT 1") }

// gives waits until a statement gives what is wanted.
func (n *node) gives(want, statement string) {
	n.Helper()
	got := ""
	n.await(n.pod+": "+statement+" gives "+want, func() bool {
		got, _ = n.ask(statement)
		return got == want
	})
}

// record has the agents of all pods keep who may write in a new term, or in the same one another list.
func (f *flock) record(writer *node, copies int, members ...*node) {
	f.Helper()
	list := permission.List{Version: time.Now().UnixNano(), Copies: copies}
	for _, m := range members {
		list.Members = append(list.Members, permission.Member{Name: m.pod, Identity: m.pod})
	}
	record := permission.Record{Term: f.term, Primary: &permission.Member{Name: writer.pod, Identity: writer.pod}, List: list}
	for _, n := range f.nodes {
		state := permission.State{Promised: f.term}
		if n == writer {
			state.Term, state.List = f.term, list
		}
		kept, err := json.Marshal(map[string]any{"identity": n.pod, "state": state, "record": record})
		if err != nil {
			f.Fatal(err)
		}
		n.put("data/"+plan.MemberFile, string(kept))
	}
}

// follow has a server be started as a follower and follow, whatever has to be done for that.
func (n *node) follow(writer *node) {
	n.Helper()
	n.start("--primary", writer.address)
	n.follows(writer)
}

func (n *node) follows(writer *node) {
	n.Helper()
	var err error
	n.await(n.pod+" follows "+writer.pod, func() bool {
		select {
		case <-n.ended:
			n.start("--primary", writer.address)
		default:
		}
		if err = n.do("follow", writer.address, "--patience", "10s"); err != nil {
			n.complaints += err.Error() + "\n"
		}
		return err == nil
	})
}

// began makes a flock of a writer and those that follow it, with a table.
func began(t *testing.T, size, copies int) (f *flock, writer *node, others []*node) {
	t.Helper()
	f = newFlock(t, size)
	writer, others = f.nodes[0], f.nodes[1:]
	f.record(writer, 0, writer)
	writer.start("--writer")
	writer.answers()
	for _, n := range others {
		n.follow(writer)
	}
	f.record(writer, copies, f.nodes...)
	writer.must("enlist")
	writer.sql("CREATE TABLE t (n int)")
	return f, writer, others
}

// fail has another server take over from one that was killed.
func (f *flock) fail(from, to *node, copies int, members ...*node) {
	f.Helper()
	from.signal(syscall.SIGKILL)
	f.term++
	f.record(to, copies, members...)
	to.must("promote")
}

// TestReplicationOfPostgreSQL: what the agents do makes one writer and two that follow, through the loss of two writers.
func TestReplicationOfPostgreSQL(t *testing.T) {
	f, a, others := began(t, 3, 1)
	b, c := others[0], others[1]
	a.sql("INSERT INTO t VALUES (1)")
	if got := a.sql("SHOW synchronous_standby_names"); got != `ANY 1 ("db-postgresql-main-1", "db-postgresql-main-2")` {
		t.Errorf("the writer waits for %s", got)
	}
	if got := a.sql("SELECT string_agg(slot_name, ' ' ORDER BY slot_name) FROM pg_replication_slots WHERE active"); got != "member_1 member_2" {
		t.Errorf("the slots are %q", got)
	}
	c.gives("1", "SELECT count(*) FROM t")

	f.fail(a, b, 1, f.nodes...)
	// The other one repoints without being started anew.
	started := c.process.Process.Pid
	c.follows(b)
	b.sql("INSERT INTO t VALUES (2)")
	c.gives("2", "SELECT count(*) FROM t")
	if c.process.Process.Pid != started {
		t.Error("a follower was started anew to follow another writer")
	}
	a.follow(b)
	a.gives("2", "SELECT count(*) FROM t")

	f.fail(b, c, 1, f.nodes...)
	a.follows(c)
	c.sql("INSERT INTO t VALUES (3)")
	b.follow(c)
	b.gives("3", "SELECT count(*) FROM t")
	if got := c.sql("SELECT string_agg(slot_name, ' ' ORDER BY slot_name) FROM pg_replication_slots WHERE active"); got != "member_0 member_1" {
		t.Errorf("after two failovers the slots are %q", got)
	}
	if got, _ := os.ReadFile(a.path("data/pgdata/zeroinfra.timelines")); string(got) != "2 2\n3 3\n" {
		t.Errorf("the timelines are of the terms %q", got)
	}
	if secrets, err := exec.Command("grep", "-rl", "fol:low", f.root).Output(); err == nil {
		for _, path := range strings.Fields(string(secrets)) {
			if !strings.Contains(path, "/secrets/") && !strings.HasSuffix(path, "/start") && path != f.binary {
				t.Errorf("a password is in %s", path)
			}
		}
	}
}

// TestDataThatWentElsewhere is brought back: what nobody else had is gone, and nothing else.
func TestDataThatWentElsewhere(t *testing.T) {
	f, a, others := began(t, 2, 0)
	b := others[0]
	a.sql("INSERT INTO t VALUES (1)")
	b.gives("1", "SELECT count(*) FROM t")
	// The follower hears nothing of this.
	b.signal(syscall.SIGKILL)
	a.sql("INSERT INTO t SELECT generate_series(100, 199)")
	a.signal(syscall.SIGKILL)
	f.term++
	f.record(b, 0, f.nodes...)
	// It is named while its process is down.
	b.start("--writer")
	b.gives("f", "SELECT pg_is_in_recovery()")
	b.sql("INSERT INTO t VALUES (2)")
	if got := b.sql("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"); got != "00000002" {
		t.Errorf("it goes on on timeline %s: others may have more of the first one", got)
	}
	a.follow(b)
	a.gives("2", "SELECT count(*) FROM t")
	if said := a.whole(); !strings.Contains(said, "is rewound") || strings.Contains(said, "all data of the writer is copied") {
		t.Errorf("the data was not rewound: %s", said)
	}
	if _, err := os.Stat(a.path("data/.zeroinfra.rejoin")); err == nil {
		t.Error("the repair is still to be done")
	}
	// A timeline of the same number that began in another term.
	b.signal(syscall.SIGKILL)
	a.put("data/pgdata/zeroinfra.timelines", "2 77\n")
	f.term++
	f.record(b, 0, f.nodes...)
	b.start("--writer")
	b.gives("f", "SELECT pg_is_in_recovery()")
	b.sql("INSERT INTO t VALUES (3)")
	a.follows(b)
	a.gives("3", "SELECT count(*) FROM t")
	if said := a.whole(); !strings.Contains(said, "began in term 77") || !strings.Contains(said, "all data of the writer is copied") {
		t.Errorf("data of another term was followed: %s", said)
	}
}

// TestACopyThatIsCutOff is begun anew, and half of it is never taken for data.
func TestACopyThatIsCutOff(t *testing.T) {
	f := newFlock(t, 2)
	a, b := f.nodes[0], f.nodes[1]
	f.record(a, 0, a)
	a.start("--writer")
	a.answers()
	a.sql("CREATE TABLE t AS SELECT n, repeat('x', 1000) FROM generate_series(1, 50000) n")
	b.start("--primary", a.address)
	f.await("the copy has begun", func() bool {
		_, err := os.Stat(b.path("data/pgdata.new/base"))
		return err == nil
	})
	b.signal(syscall.SIGKILL)
	if _, err := os.Stat(b.path("data/pgdata")); err == nil {
		t.Fatal("half a copy is taken for data")
	}
	b.follow(a)
	b.gives("50000", "SELECT count(*) FROM t")
	left, err := filepath.Glob(b.path("data/pgdata.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind are %v, %v", left, err)
	}
	// An empty volume is no writer of those that have data.
	b.signal(syscall.SIGKILL)
	if err := os.RemoveAll(b.path("data/pgdata")); err != nil {
		t.Fatal(err)
	}
	f.term++
	f.record(b, 0, a, b)
	if err := b.do("start", "--writer"); err == nil || !strings.Contains(err.Error(), "an empty server never becomes their writer") {
		t.Errorf("it says %v", err)
	}
	// Data that was being rewound is none.
	f.record(a, 0, a, b)
	b.follow(a)
	b.signal(syscall.SIGINT)
	b.put("data/.zeroinfra.rejoin", "Broken")
	if err := b.do("start", "--writer"); err == nil || !strings.Contains(err.Error(), "is not whole") {
		t.Errorf("it says %v", err)
	}
	b.follow(a)
	b.gives("50000", "SELECT count(*) FROM t")
}

// TestALogThatIsGone has the follower copy all data.
func TestALogThatIsGone(t *testing.T) {
	_, a, others := began(t, 2, 0)
	b := others[0]
	b.signal(syscall.SIGINT)
	a.sql("SELECT pg_drop_replication_slot('member_1')")
	for range 12 {
		a.sql("INSERT INTO t SELECT generate_series(1, 100000)")
		a.sql("SELECT pg_switch_wal()")
		a.sql("CHECKPOINT")
	}
	b.follow(a)
	b.gives("1200000", "SELECT count(*) FROM t")
	if said := b.whole(); !strings.Contains(said, "on no more") || strings.Count(said, "all data of the writer is copied") != 2 {
		t.Errorf("it followed without the log: %s", said)
	}
}

// TestTooFewToWaitFor: writes wait for who can have them, and for nobody else.
func TestTooFewToWaitFor(t *testing.T) {
	f, a, others := began(t, 3, 1)
	b, c := others[0], others[1]
	for _, n := range others {
		n.signal(syscall.SIGKILL)
	}
	if out, err := a.ask("INSERT INTO t VALUES (1)"); err == nil {
		t.Errorf("a write was acknowledged that nobody else has: %s", out)
	}
	// One that is no member counts for nothing.
	f.record(a, 1, a, b)
	a.must("enlist")
	c.follow(a)
	if out, err := a.ask("INSERT INTO t VALUES (2)"); err == nil {
		t.Errorf("a write was acknowledged by one that is no member: %s", out)
	}
	// Nobody is left to wait for.
	f.record(a, 1, a)
	a.must("enlist")
	if out, err := a.ask("INSERT INTO t VALUES (3)"); err == nil {
		t.Errorf("a write was acknowledged that one other should have: %s", out)
	}
	f.record(a, 0, a)
	a.must("enlist")
	a.sql("INSERT INTO t VALUES (4)")
	f.nodes = slices.Delete(f.nodes, 2, 3)
	c.signal(syscall.SIGKILL)
	a.gives("0", "SELECT count(*) FROM pg_replication_slots WHERE active")
	a.must("enlist")
	if got := a.sql("SELECT string_agg(slot_name, ' ') FROM pg_replication_slots"); got != "member_1" {
		t.Errorf("the slots are %q, and there are two pods", got)
	}
}

// TestALimitThatIsLowered keeps no follower from following: it has the writer's until it is one itself.
func TestALimitThatIsLowered(t *testing.T) {
	f, a, others := began(t, 2, 0)
	b := others[0]
	configuration, err := os.ReadFile(b.path("postgresql.conf"))
	if err != nil {
		t.Fatal(err)
	}
	b.put("postgresql.conf", "max_connections = 50\n"+string(configuration))
	b.signal(syscall.SIGINT)
	b.follow(a)
	b.gives("100", "SHOW max_connections")
	a.sql("INSERT INTO t VALUES (1)")
	b.gives("1", "SELECT count(*) FROM t")
	f.fail(a, b, 0, f.nodes...)
	b.gives("max_connections", "SELECT string_agg(name, ' ') FROM pg_settings WHERE pending_restart AND name <> 'max_wal_senders'")
	b.signal(syscall.SIGINT)
	b.start("--writer")
	b.gives("50", "SHOW max_connections")
}

// TestANewPasswordForFollowers: one that the writer does not have yet keeps nobody from following.
func TestANewPasswordForFollowers(t *testing.T) {
	f, a, others := began(t, 3, 0)
	b, c := others[0], others[1]
	for _, n := range f.nodes {
		n.secret("replication", "another", "2")
		n.secret("superuser", "chief", "2")
	}
	for _, n := range others {
		n.signal(syscall.SIGINT)
		n.follow(a)
	}
	f.fail(a, b, 0, f.nodes...)
	c.follows(b)
	a.follow(b)
	for _, n := range f.nodes {
		if got, _ := os.ReadFile(n.path("run/replication.pass")); n != b && !strings.Contains(string(got), ":another\n") {
			t.Errorf("%s goes on with %q", n.pod, got)
		}
	}
	cmd := exec.Command(filepath.Join(f.programs, "psql"), "-X", "-A", "-t", "-h", b.address, "-U", "postgres", "-d", "postgres", "-c", "SELECT 1")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "PGPASSWORD=chief"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the new password of the superuser does not do: %s", out)
	}
}
