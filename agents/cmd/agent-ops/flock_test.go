// SPDX-License-Identifier: Apache-2.0

//go:build processes

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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// nobody runs the servers where the tests run as root, as which they do not start.
const nobody = 65534

// flock is some servers on loopback addresses of their own, each as the process manager of a pod would run it. The test
// does what that would do.
type flock struct {
	*testing.T
	root, programs, network string
	binary                  string
	nodes                   []*node
	term                    int64
	// keptFrom is what loads of dumps are kept from.
	keptFrom string
	// groups that the servers are in beside their own.
	groups []uint32
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
	f := &flock{T: t, root: root, programs: filepath.Dir(bins[len(bins)-1]), binary: filepath.Join(root, "agent-ops"),
		term:    1,
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
	// A process that another test forks meanwhile has the copy open for writing until it is its command, and nobody can
	// execute it before that.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
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
	n := &node{flock: f, pod: fmt.Sprintf("db-postgresql-main-%d", ordinal),
		address: fmt.Sprintf("%s.%d", f.network, 1+ordinal), root: filepath.Join(f.root, fmt.Sprint(ordinal))}
	f.nodes = append(f.nodes, n)
	for _, folder := range []string{"", "data", "run", "secrets", "secrets/superuser", "secrets/replication",
		"secrets/pooler"} {
		if err := os.MkdirAll(n.path(folder), 0o700); err != nil {
			f.Fatal(err)
		}
		f.own(n.path(folder))
	}
	n.secret("superuser", "boss", "1")
	n.secret("replication", "fol:low", "1")
	n.secret("pooler", "swim", "1")
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
	n.put("pg_hba.conf", "local all all trust\nhost all all all scram-sha-256\nhost replication zeroinfra_replication "+
		"all scram-sha-256\n")
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
	common := []string{"postgresql", "--programs", n.programs, "--config", n.path("postgresql.conf"), "--dir",
		n.path("data"), "--run", n.path("run"),
		"--secrets", n.path("secrets"), "--pod", n.pod, "--launch", n.path("start"), "--replicas", fmt.Sprint(len(n.nodes))}
	cmd := exec.Command(n.binary, append(common, args...)...)
	cmd.Dir = n.root
	cmd.Env = []string{asAgent + "=1", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + n.root}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody, Groups: n.groups}
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
	cmd := exec.CommandContext(ctx, filepath.Join(n.programs, "psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1",
		"-h", n.path("run"), "-U", "postgres", "-d", "postgres", "-c", statement)
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
	list := permission.List{Version: time.Now().UnixNano(), SynchronousReplicas: copies}
	for _, m := range members {
		list.Members = append(list.Members, permission.Member{Name: m.pod, Identity: m.pod})
	}
	record := permission.Record{Term: f.term, Primary: &permission.Member{Name: writer.pod, Identity: writer.pod},
		List: list}
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

// began makes a flock of a primary and those that follow it, with a table.
func began(t *testing.T, size, copies int) (f *flock, writer *node, others []*node) {
	t.Helper()
	f = newFlock(t, size)
	writer, others = f.begin(copies)
	return f, writer, others
}

// begin has the first be the primary, and the others follow it.
func (f *flock) begin(copies int) (writer *node, others []*node) {
	f.Helper()
	writer, others = f.nodes[0], f.nodes[1:]
	f.record(writer, 0, writer)
	writer.start("--writer")
	writer.answers()
	for _, n := range others {
		n.follow(writer)
	}
	f.record(writer, copies, f.nodes...)
	writer.must("update-members")
	writer.sql("CREATE TABLE t (n int)")
	return writer, others
}

// fail has another server take over from one that was killed.
func (f *flock) fail(from, to *node, copies int, members ...*node) {
	f.Helper()
	from.signal(syscall.SIGKILL)
	f.term++
	f.record(to, copies, members...)
	to.must("promote")
}
