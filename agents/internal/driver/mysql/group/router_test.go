// SPDX-License-Identifier: Apache-2.0

//go:build processes

package group_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/zeroinfra/agents/internal/driver/mysql/group"
	"github.com/zeroinfra/agents/internal/driver/mysql/router"
	"github.com/zeroinfra/agents/internal/testmysql"
	"github.com/zeroinfra/agents/internal/testpki"
)

// routed is a Router before a group, and clients of it.
type routed struct {
	*cluster
	router *testmysql.Router
}

// client is one session as the user app, through a port of the Router.
func (r *routed) client(port int) *sql.DB {
	r.Helper()
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", fmt.Sprintf("127.0.0.1:%d", port)
	config.User, config.Passwd, config.DBName = "app", testmysql.AppPassword, "app"
	config.Timeout, config.ReadTimeout, config.Logger = 5*time.Second, 5*time.Second, &mysql.NopLogger{}
	if r.router.CAFile != "" {
		authority, err := os.ReadFile(r.router.CAFile)
		if err != nil {
			r.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		config.TLS = &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		r.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	r.Cleanup(func() { _ = db.Close() })
	return db
}

// leads waits until a statement of a client is carried out by a member that is expected.
func (r *routed) leads(db *sql.DB, what string, expected func(pod string) bool) {
	r.Helper()
	r.servers["a"].Until(what, func(ctx context.Context) error {
		if r.router.Ended() {
			r.Fatal("the Router has ended")
		}
		var id int
		if err := db.QueryRowContext(ctx, "SELECT @@server_id").Scan(&id); err != nil {
			return err
		}
		if pod := pods[id-1]; !expected(pod) {
			return fmt.Errorf("it is carried out by %s", pod)
		}
		return nil
	})
}

// probe is what the image's probe says.
func (r *routed) probe() string {
	r.Helper()
	out, err := exec.Command(filepath.Join("../../../../..", "hack/images/mysql-router/probe.sh"), r.router.Router.Run,
		fmt.Sprint(router.PortSplit), fmt.Sprint(router.PortPrimary), fmt.Sprint(router.PortReplicas)).CombinedOutput()
	if err != nil {
		r.Fatalf("the probe ends with %v: %s", err, out)
	}
	return string(out)
}

// TestRouter has a Router find the members of a group, send statements to where they belong, and follow an election and
// a change of the primary that is asked for.
func TestRouter(t *testing.T) {
	c := newCluster(t)
	c.settle(group.Unformed)
	members := []string{"nobody.invalid:3306"}
	for _, pod := range pods {
		members = append(members, c.servers[pod].Address)
	}
	r := &routed{c, testmysql.NewRouter(t, routerPassword+"\n",
		`{"ttl":"0.5","max_total_connections":"100","max_idle_server_connections":"8","wait_for_my_writes":"1",`+
			`"level":"info"}`,
		members...)}
	r.router.Start()
	first := c.primary()
	isFirst, isOther := func(pod string) bool { return pod == first }, func(pod string) bool { return pod != first }
	rw, ro, split := r.client(router.PortPrimary), r.client(router.PortReplicas), r.client(router.PortSplit)
	r.leads(rw, "6446 leads to the primary", isFirst)
	r.leads(ro, "6447 leads to a replica", isOther)
	r.leads(split, "a read at 6450 goes to a replica", isOther)
	c.servers[first].Until("the probe says all ports", func(context.Context) error {
		if said := r.probe(); !strings.HasPrefix(said, "version=9.7.") ||
			!strings.HasSuffix(said, "\nlistening=6450 6446 6447\n") {
			return fmt.Errorf("it says %q", said)
		}
		return nil
	})
	r.splits(split, first)
	r.tellsNumbers()

	t.Log("another member is made the primary")
	second := pods[1]
	if err := c.SetPrimary(t.Context(), first, second); err != nil {
		t.Fatal(err)
	}
	r.leads(rw, "6446 follows", func(pod string) bool { return pod == second })
	r.writes(split, 10)

	t.Log("the primary is killed")
	c.servers[second].Kill()
	third := c.primary(second)
	r.leads(rw, "6446 follows the election", func(pod string) bool { return pod == third })
	r.writes(split, 20)
	r.writes(rw, 30)

	t.Log("nobody takes writes")
	for _, pod := range pods {
		if pod != second {
			c.servers[pod].Kill()
		}
	}
	r.listensNowhere()
	r.expectsAlive("false")
	r.expectNumber("/routes/{route}/status", "route", "split", "activeConnections", func(n float64) bool { return n >= 0 })

	t.Log("all are back")
	for _, pod := range pods {
		c.servers[pod].Start()
	}
	c.settle(group.Formed)
	fourth := c.primary()
	r.leads(rw, "6446 leads to the primary again", func(pod string) bool { return pod == fourth })
	r.writes(split, 40)
}

// listensNowhere waits until the Router knows no server.
func (r *routed) listensNowhere() {
	r.Helper()
	r.servers["a"].Until("the Router listens at no port", func(context.Context) error {
		if said := r.probe(); !strings.HasSuffix(said, "\nlistening=\n") {
			return fmt.Errorf("it says %q", said)
		}
		return nil
	})
}

// TestRouterVerifiesMembers has a Router and its clients speak TLS, and one that trusts somebody else find no member.
func TestRouterVerifiesMembers(t *testing.T) {
	files := &certificates{testpki.New(t), t.TempDir()}
	files.issue(t, time.Hour)
	c := newClusterWith(t, files.dir)
	c.settle(group.Unformed)
	var members []string
	for _, pod := range pods {
		members = append(members, c.servers[pod].Address)
	}
	r := &routed{c, testmysql.NewRouter(t, routerPassword, `{"ttl":"0.5","max_idle_server_connections":"8"}`, members...)}
	r.router.Certificates, r.router.CAFile = files.dir, filepath.Join(files.dir, "ca.crt")
	r.router.Start()
	primary := c.primary()
	r.leads(r.client(router.PortPrimary), "6446 leads to the primary", func(pod string) bool { return pod == primary })
	r.splits(r.client(router.PortSplit), primary)
	plain := mysql.NewConfig()
	plain.Net, plain.Addr, plain.User, plain.Passwd = "tcp", fmt.Sprintf("127.0.0.1:%d", router.PortPrimary), "app",
		testmysql.AppPassword
	connector, err := mysql.NewConnector(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := sql.OpenDB(connector).PingContext(t.Context()); err == nil {
		t.Error("a client without TLS is let in")
	}
	r.router.Stop()

	t.Log("the certificates of the members lead to somebody else")
	r.router.CAFile = filepath.Join(t.TempDir(), "other.crt")
	if err := os.WriteFile(r.router.CAFile, testpki.New(t).PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	r.router.Start()
	c.servers[primary].Until("the Router says why", func(context.Context) error {
		log, err := os.ReadFile(r.router.Log)
		if err == nil && !strings.Contains(string(log), "certificate verify failed") {
			err = fmt.Errorf("it says %s", log)
		}
		return err
	})
	r.listensNowhere()
}

// splits has statements of one session be carried out where they belong.
func (r *routed) splits(db *sql.DB, primary string) {
	r.Helper()
	if _, err := db.Exec("CREATE TABLE app.rows_ (n INT PRIMARY KEY)"); err != nil {
		r.Fatal(err)
	}
	for n := range 20 {
		if _, err := db.Exec("INSERT INTO app.rows_ VALUES (?)", n); err != nil {
			r.Fatal(err)
		}
		var rows, id int
		// A read sees what the session wrote, wherever it is carried out.
		if err := db.QueryRow("SELECT COUNT(*), @@server_id FROM app.rows_").Scan(&rows, &id); err != nil || rows != n+1 {
			r.Fatalf("after %d rows %s says there are %d, %v", n+1, pods[max(id-1, 0)], rows, err)
		}
	}
	tx, err := db.Begin()
	if err != nil {
		r.Fatal(err)
	}
	var id int
	if err := tx.QueryRow("SELECT @@server_id").Scan(&id); err != nil || pods[max(id-1, 0)] != primary {
		r.Errorf("a transaction begins at %s, %v", pods[max(id-1, 0)], err)
	}
	if err := tx.Rollback(); err != nil {
		r.Error(err)
	}
}

// writes waits until a row is written.
func (r *routed) writes(db *sql.DB, n int) {
	r.Helper()
	r.servers["a"].Until("a row is written", func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "REPLACE INTO app.rows_ VALUES (?)", n)
		return err
	})
}
