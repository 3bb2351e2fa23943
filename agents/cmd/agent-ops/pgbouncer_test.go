// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/pgbouncer"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

// pooler is a real PgBouncer in front of a flock. Its servers are found under a name of its own, which leads to the one
// that takes writes as a Service does: to another one a moment after the change.
type pooler struct {
	*node
	// service is the address that stands for the Service.
	service string
	relay   *relay
}

// pooled starts a PgBouncer that asks the server for the passwords of its clients.
func (f *flock) pooled(settings string) *pooler {
	f.Helper()
	program, err := exec.LookPath("/usr/sbin/pgbouncer")
	if err != nil {
		f.Fatal("there is no PgBouncer: install Debian's package pgbouncer")
	}
	n := &node{flock: f, pod: "db-pooler-main-0", address: f.network + ".100", root: f.root + "/pooler"}
	for _, folder := range []string{"", "run", "secrets", "secrets/pooler"} {
		if err := os.MkdirAll(n.path(folder), 0o700); err != nil {
			f.Fatal(err)
		}
		f.own(n.path(folder))
	}
	n.secret("pooler", "swim", "1")
	p := &pooler{node: n, service: f.network + ".200", relay: f.newRelay(f.network + ".200:5432")}
	n.put("users", "\"zeroinfra_pooler\" \"swim\"\n")
	n.put("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%[1]s port=5432 auth_user=zeroinfra_pooler
[pgbouncer]
listen_addr = %[2]s
listen_port = 6432
unix_socket_dir = %[3]s/run
auth_type = scram-sha-256
auth_file = %[3]s/users
auth_query = SELECT * FROM zeroinfra.pooler_user($1)
stats_users = zeroinfra_pooler
server_login_retry = 1
%[4]s
`, p.service, n.address, n.root, settings))
	log, err := os.OpenFile(n.path("log"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		f.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, n.path("pgbouncer.ini"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	n.process, n.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(n.ended)
	}()
	f.Cleanup(func() { n.signal(syscall.SIGKILL) })
	f.await("the socket of the console", func() bool {
		_, err := os.Stat(n.path("run/.s.PGSQL.6432"))
		return err == nil
	})
	return p
}

// gate is a command of the agent beside the process.
func (p *pooler) gate(args ...string) error {
	cmd := exec.Command(p.binary, append(
		[]string{"pgbouncer", "--run", p.path("run"), "--server", p.service, "--secrets", p.path("secrets")}, args...)...)
	cmd.Env = []string{asAgent + "=1", "HOME=" + p.root}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// console asks over the socket, as the user of the process.
func (p *pooler) console(command string) string {
	p.Helper()
	cmd := exec.Command(p.programs+"/psql", "-XAtq", "-F", "=", "-h", p.path("run"), "-p", "6432", "-U", "pgbouncer", "-d",
		"pgbouncer", "-c", command)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + p.root}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// paused says whether clients wait: who has no server waits for one.
func (p *pooler) paused() bool {
	p.Helper()
	return p.console("SHOW SERVERS") == ""
}

// client is a session through the pooler.
func (p *pooler) client(ctx context.Context) *pgx.Conn {
	p.Helper()
	connection, err := pgx.Connect(ctx, "host="+p.address+
		" port=6432 user=app password=apple dbname=postgres sslmode=disable default_query_exec_mode=simple_protocol")
	if err != nil {
		p.Fatalf("%v\n%s", err, p.said())
	}
	p.Cleanup(func() { _ = connection.Close(context.Background()) })
	return connection
}

// clients write through a pooler all the time, each with a session of its own.
type clients struct {
	*pooler
	stop             context.CancelFunc
	written, longest atomic.Int64
	ended            chan error
	size             int
}

func (p *pooler) write(size int) *clients {
	p.Helper()
	ctx, stop := context.WithCancel(p.Context())
	c := &clients{pooler: p, stop: stop, ended: make(chan error, size), size: size}
	for range size {
		connection := p.client(ctx)
		go func() {
			for ctx.Err() == nil {
				begin := time.Now()
				if _, err := connection.Exec(context.Background(), "INSERT INTO t VALUES (1)"); err != nil {
					c.ended <- err
					return
				}
				c.written.Add(1)
				if took := time.Since(begin).Milliseconds(); took > c.longest.Load() {
					c.longest.Store(took)
				}
			}
			c.ended <- nil
		}()
	}
	return c
}

// goOn waits until so many writes more were acknowledged.
func (c *clients) goOn(more int64) {
	c.Helper()
	before := c.written.Load()
	c.await("clients write", func() bool { return c.written.Load() > before+more })
}

// end ends the clients, none of which has seen an error.
func (c *clients) end() {
	c.Helper()
	c.stop()
	for range c.size {
		if err := <-c.ended; err != nil {
			c.Errorf("a client saw %v\n%s", err, c.said())
		}
	}
	c.Logf("%d writes, of which the longest took %d ms", c.written.Load(), c.longest.Load())
}

// comesLate is a client that comes while others wait.
func (p *pooler) comesLate() <-chan error {
	came := make(chan error, 1)
	go func() {
		connection, err := pgconn.Connect(p.Context(), "host="+p.address+
			" port=6432 user=app password=apple dbname=postgres sslmode=disable")
		if err == nil {
			_, err = connection.Exec(p.Context(), "INSERT INTO t VALUES (-1)").ReadAll()
			_ = connection.Close(p.Context())
		}
		came <- err
	}()
	return came
}

// TestClientsWaitWhileTheWriterChanges, and see no error: those that write all the time, and one that begins to in the
// middle of it.
func TestClientsWaitWhileTheWriterChanges(t *testing.T) {
	f, a, others := began(t, 3, 1)
	b, c := others[0], others[1]
	a.sql("CREATE ROLE app LOGIN PASSWORD 'apple'; GRANT ALL ON t TO app")
	p := f.pooled("pool_mode = transaction\n")
	p.relay.lead(a.address + ":5432")
	load := p.write(4)
	for range 2 {
		load.goOn(50)
		if err := p.gate("hold"); err != nil {
			t.Fatalf("%v\n%s", err, p.said())
		}
		if !p.paused() {
			t.Error("nobody waits")
		}
		held := load.written.Load()
		a.must("pause", "--length", "5s", "--patience", "5s")
		a.signal(syscall.SIGKILL)
		f.term++
		f.record(b, 1, f.nodes...)
		told := make(chan error, 1)
		go func() { told <- c.do("follow", b.address) }()
		b.must("promote")
		if now := load.written.Load(); now != held {
			t.Errorf("%d writes went by while clients were to wait", now-held)
		}
		came := p.comesLate()
		p.relay.lead(b.address + ":5432")
		load.goOn(0)
		if err := <-came; err != nil {
			t.Errorf("a client that came meanwhile: %v", err)
		}
		if err := <-told; err != nil {
			c.follows(b)
		}
		a.follow(b)
		a, b = b, a
	}
	load.end()
	if got := a.sql("SELECT count(*) FROM t WHERE n >= 0"); got != fmt.Sprint(load.written.Load()) {
		t.Errorf("%s writes are there, and %d were acknowledged", got, load.written.Load())
	}
	if _, err := os.Stat(p.path("run/pgbouncer.hold")); err == nil {
		t.Error("the mark of the pause is left")
	}
	if strings.Contains(p.said(), "swim") || strings.Contains(p.said(), "apple") {
		t.Error("a password is in the log")
	}
}

// TestNobodyWaitsForEver: clients go on when nothing changes, also when whoever had them wait is gone, and those in a
// transaction keep nobody from waiting.
func TestNobodyWaitsForEver(t *testing.T) {
	f, a, _ := began(t, 1, 0)
	a.sql("CREATE ROLE app LOGIN PASSWORD 'apple'; GRANT ALL ON t TO app")
	p := f.pooled("pool_mode = transaction\n")
	p.relay.lead(a.address + ":5432")
	ctx := t.Context()
	idle, busy := p.client(ctx), p.client(ctx)
	transaction, err := busy.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := p.gate("hold", "--length", "3s", "--patience", "300ms"); err == nil ||
		!strings.Contains(err.Error(), "clients are still in transactions") {
		t.Errorf("it says %v", err)
	}
	if _, err := transaction.Exec(ctx, "INSERT INTO t VALUES (1)"); err != nil {
		t.Errorf("a transaction that had begun: %v", err)
	}
	if err := transaction.Commit(ctx); err != nil {
		t.Error(err)
	}
	if _, err := idle.Exec(ctx, "INSERT INTO t VALUES (2)"); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < 2*time.Second || took > 6*time.Second {
		t.Errorf("a client waited for %v of 3 s", took)
	}
	// Nothing comes of it.
	begin = time.Now()
	if err := p.gate("hold"); err != nil {
		t.Fatal(err)
	}
	if _, err := idle.Exec(ctx, "INSERT INTO t VALUES (2)"); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < 4*time.Second || took > 9*time.Second {
		t.Errorf("a client waited for %v, and nothing changed", took)
	}
	// The one who has clients wait later is the one who lets them go.
	for _, length := range []string{"1s", "4s"} {
		if err := p.gate("hold", "--length", length); err != nil {
			t.Fatal(err)
		}
	}
	begin = time.Now()
	if _, err := idle.Exec(ctx, "INSERT INTO t VALUES (3)"); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("a client waited for %v of 4 s", took)
	}
}

// TestWhatAPoolerIsAsked: the driver asks as one who may ask and nothing else.
func TestWhatAPoolerIsAsked(t *testing.T) {
	f, a, _ := began(t, 1, 0)
	a.sql("CREATE ROLE app LOGIN PASSWORD 'apple'; GRANT ALL ON t TO app")
	pooler := f.pooled("pool_mode = transaction\n")
	pooler.relay.lead(a.address + ":5432")
	client := pooler.client(t.Context())
	if _, err := client.Exec(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	for command, says := range map[string]string{"PAUSE": "no SHOW command", "SHOW POOLS; PAUSE": "no SHOW command",
		"SHOW NOTHING": "PgBouncer refuses it"} {
		if _, err := pooler.driver("swim").Query(t.Context(), readOnly(command)); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", command, err)
		}
	}
	if _, err := pooler.driver("drown").Query(t.Context(), readOnly("SHOW POOLS")); err == nil ||
		strings.Contains(err.Error(), "drown") {
		t.Errorf("with another password: %v", err)
	}
	table, err := pooler.driver("swim").Query(t.Context(), readOnly("SHOW POOLS"))
	if err != nil || len(table.Rows) < 2 || table.Columns[0] != "database" {
		t.Errorf("got %v, %v", table, err)
	}
}

func (p *pooler) driver(password string) *pgbouncer.Driver {
	return pgbouncer.New(link.Target{Address: p.address + ":6432", Username: "zeroinfra_pooler",
		Password: func() (string, error) { return password, nil }})
}

func readOnly(command string) driver.Statement {
	return driver.Statement{Text: command, Access: driver.ReadOnly}
}

// TestAPoolerThatIsReloaded takes over settings and its own password while clients stay, and says what it does not
// take.
func TestAPoolerThatIsReloaded(t *testing.T) {
	f, a, _ := began(t, 1, 0)
	a.sql("CREATE ROLE app LOGIN PASSWORD 'apple'; GRANT ALL ON t TO app")
	p := f.pooled("pool_mode = transaction\nreserve_pool_timeout = 5\n")
	p.relay.lead(a.address + ":5432")
	client := p.client(t.Context())
	inserts := func() {
		t.Helper()
		if _, err := client.Exec(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
			t.Fatal(err)
		}
	}
	inserts()
	written, err := os.ReadFile(p.path("pgbouncer.ini"))
	if err != nil {
		t.Fatal(err)
	}
	// The server and the pooler get another password for the one who asks, one after the other.
	a.secret("pooler", "float", "2")
	a.must("reload")
	p.put("users", "\"zeroinfra_pooler\" \"float\"\n")
	p.put("pgbouncer.ini", strings.Replace(string(written), "reserve_pool_timeout = 5",
		"reserve_pool_timeout = 2.50\ndefault_pool_size = 7", 1))
	if err := p.gate("reload", "--config", p.path("pgbouncer.ini")); err != nil {
		t.Fatal(err)
	}
	inserts()
	if got := p.console("SHOW CONFIG"); !strings.Contains(got, "\ndefault_pool_size=7=") {
		t.Errorf("it goes by %s", got)
	}
	// A server that is made anew, for a client that was never here: all of it with the new password.
	p.console("RECONNECT")
	a.sql("CREATE ROLE other LOGIN PASSWORD 'pear'; GRANT ALL ON t TO other")
	other, err := pgconn.Connect(t.Context(), "host="+p.address+
		" port=6432 user=other password=pear dbname=postgres sslmode=disable")
	if err != nil {
		t.Fatalf("%v\n%s", err, p.said())
	}
	if _, err := other.Exec(t.Context(), "INSERT INTO t VALUES (2)").ReadAll(); err != nil {
		t.Error(err)
	}
	_ = other.Close(t.Context())
	if _, err := p.driver("float").Query(t.Context(), readOnly("SHOW LISTS")); err != nil {
		t.Error(err)
	}
	for wrong, says := range map[string]string{"pool_mode = never": "pool_mode",
		"pool_mode = transaction\nnothing = 1": "nothing"} {
		p.put("pgbouncer.ini", strings.Replace(string(written), "pool_mode = transaction", wrong, 1))
		if err := p.gate("reload", "--config", p.path("pgbouncer.ini")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: it says %v", wrong, err)
		}
	}
	inserts()
}
