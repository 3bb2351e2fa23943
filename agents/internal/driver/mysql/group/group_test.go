// SPDX-License-Identifier: Apache-2.0

//go:build processes

package group_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/driver/mysql/group"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/testmysql"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

const (
	groupPassword = "of-the-group"
	// routerPassword has what ends a text in SQL, and what a shell or an option file could trip over.
	routerPassword = `r'o"u\t$e#r %`
)

// cluster is three servers of one group, by the names of their pods.
type cluster struct {
	*testing.T
	*group.Group
	shape   group.Shape
	servers map[string]*testmysql.Server
	// probe of a member, for tests that ask as its pod does.
	probe plan.Probe
}

var pods = []string{"a", "b", "c"}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newClusterWith(t, "")
}

// newClusterWith has members speak TLS where there is a folder with ca.crt, tls.crt and tls.key.
func newClusterWith(t *testing.T, certificates string) *cluster {
	t.Helper()
	return newClusterAt(t, "127.0.0.1", certificates)
}

// newClusterAt has clients and members find servers at an address of the loopback, and at no other one.
func newClusterAt(t *testing.T, host, certificates string) *cluster {
	t.Helper()
	ca := ""
	if certificates != "" {
		ca = filepath.Join(certificates, "ca.crt")
	}
	c := &cluster{T: t, shape: group.Shape{Members: [][]string{pods}}, servers: map[string]*testmysql.Server{}}
	c.Group = &group.Group{CAFile: ca, Username: server.GroupUser, Password: groupPassword,
		Address: func(pod string) string { return c.servers[pod].Address },
		Channel: func(pod string) string { return c.servers[pod].Server.Group.Own }}
	var peers []string
	for range pods {
		peers = append(peers, free(t, host))
	}
	// Pods that may come later have no address yet.
	peers = append(peers, "nobody.invalid:33061")
	for i, pod := range pods {
		s := testmysql.New(t, fmt.Sprintf("server_id = %d", i+1), "gtid_mode = ON", "enforce_gtid_consistency = ON",
			"innodb_buffer_pool_size = 16M",
			// A server that was killed has what it acknowledged, as a member of a group must.
			"innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1",
			"group_replication_member_expel_timeout = 0", "group_replication_unreachable_majority_timeout = 5")
		_, port, _ := net.SplitHostPort(s.Address)
		s.Address = net.JoinHostPort(host, port)
		s.Add("bind_address = " + host)
		s.Server.Group = &server.Group{Name: t.Name(), Address: s.Address, Own: peers[i], Peers: peers, CAFile: ca}
		if certificates != "" {
			s.Add("require_secure_transport = ON", "ssl_ca = "+ca, "ssl_cert = "+filepath.Join(certificates, "tls.crt"),
				"ssl_key = "+filepath.Join(certificates, "tls.key"))
		}
		for credential, password := range map[string]string{server.GroupCredential: groupPassword,
			server.RouterCredential: routerPassword} {
			if err := os.Mkdir(filepath.Join(s.Server.Secrets, credential), 0o700); err != nil {
				t.Fatal(err)
			}
			s.SetPassword(credential, password)
		}
		c.servers[pod] = s
	}
	for _, pod := range pods {
		c.servers[pod].Start()
	}
	return c
}

func free(t *testing.T, host string) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// settle takes steps until all members are in.
func (c *cluster) settle(history group.History) {
	c.Helper()
	c.servers["a"].Until("all are members", func(ctx context.Context) error {
		state, err := c.Step(ctx, c.shape, history)
		if err == nil && state.Phase != group.Done {
			err = fmt.Errorf("%s: %s", state.Phase, state.Reason)
		}
		return err
	})
}

// primary is the member that takes writes, by what the members that answer say.
func (c *cluster) primary(but ...string) string {
	c.Helper()
	found := ""
	c.servers["a"].Until("there is one primary", func(context.Context) error {
		found = ""
		for _, pod := range pods {
			said, err := c.servers[pod].TrySQL("SELECT IF(@@global.super_read_only, 'no', 'yes')")
			if err != nil || said != "yes" {
				continue
			}
			if found != "" {
				c.Fatalf("%s and %s take writes", found, pod)
			}
			found = pod
		}
		if found == "" || strings.Contains(strings.Join(but, " "), found) {
			return fmt.Errorf("it is %q", found)
		}
		return nil
	})
	return found
}

// write adds a row and returns whether it was acknowledged.
func (c *cluster) write(pod string, n int) error {
	_, err := c.servers[pod].TrySQL(fmt.Sprintf("INSERT INTO app.rows_ VALUES (%d)", n))
	return err
}

// everywhere waits until each member has so many rows.
func (c *cluster) everywhere(rows int) {
	c.Helper()
	for _, pod := range pods {
		c.servers[pod].Until(fmt.Sprintf("%s has %d rows", pod, rows), func(context.Context) error {
			said, err := c.servers[pod].TrySQL("SELECT COUNT(*) FROM app.rows_")
			if err == nil && said != fmt.Sprint(rows) {
				err = fmt.Errorf("it has %s", said)
			}
			return err
		})
	}
}

// renew gives a member a new volume, and waits until it has copied all data.
func (c *cluster) renew(pod string) {
	c.Helper()
	lost := c.servers[pod]
	lost.Kill()
	if err := os.RemoveAll(lost.Server.Dir); err != nil {
		c.Fatal(err)
	}
	if err := os.Mkdir(lost.Server.Dir, 0o700); err != nil {
		c.Fatal(err)
	}
	lost.Start()
	lost.Until("it has copied", func(ctx context.Context) error {
		if lost.Ended() {
			lost.Start()
		}
		state, err := c.Step(ctx, c.shape, group.Formed)
		if err == nil && state.Phase != group.Done {
			err = fmt.Errorf("%s: %s", state.Phase, state.Reason)
		}
		return err
	})
}

// settings of the group are taken over by members that run, and read back.
func (c *cluster) settings() {
	c.Helper()
	const observe = "SELECT CONCAT_WS(' ', @@group_replication_consistency, @@group_replication_member_expel_timeout, " +
		"@@group_replication_unreachable_majority_timeout, @@group_replication_autorejoin_tries)"
	set := func(consistency string, expel, majority, tries int) {
		c.Helper()
		for _, pod := range pods {
			s := c.servers[pod]
			s.Add("group_replication_consistency = "+consistency,
				fmt.Sprintf("group_replication_member_expel_timeout = %d", expel),
				fmt.Sprintf("group_replication_unreachable_majority_timeout = %d", majority),
				fmt.Sprintf("group_replication_autorejoin_tries = %d", tries))
			if err := s.Server.Reload(c.Context()); err != nil {
				c.Fatal(err)
			}
			if got, want := s.SQL(observe), fmt.Sprintf("%s %d %d %d", consistency, expel, majority, tries); got != want {
				c.Errorf("%s has %q, want %q", pod, got, want)
			}
		}
	}
	set("BEFORE_AND_AFTER", 3600, 86400, 2016)
	set("EVENTUAL", 0, 1, 0)
	set("BEFORE_ON_PRIMARY_FAILOVER", 0, 5, 3)
	// What sessions of clients are cut off by is not for those that look after the members.
	for _, pod := range pods {
		c.servers[pod].SQL("SET GLOBAL group_concat_max_len = 60, GLOBAL max_execution_time = 1")
	}
	if state, err := c.Look(c.Context(), c.shape, group.Formed); err != nil || state.Phase != group.Done {
		c.Errorf("with short lists it is %+v, %v", state, err)
	}
}

func TestGroup(t *testing.T) {
	c := newCluster(t)
	c.settle(group.Unformed)
	first := c.primary()
	if first != "a" {
		t.Errorf("%s is the primary", first)
	}
	c.servers[first].SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY)")
	rows := 0
	add := func(pod string) {
		t.Helper()
		if err := c.write(pod, rows); err != nil {
			t.Fatal(err)
		}
		rows++
	}
	add(first)

	t.Log("settings change while it runs")
	c.settings()

	t.Log("another member is made the primary")
	if err := c.SetPrimary(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	if now := c.primary(); now != "b" {
		t.Errorf("%s is the primary", now)
	}
	add("b")

	t.Log("the primary is killed")
	c.servers["b"].Kill()
	second := c.primary("b")
	add(second)
	c.servers["b"].Start()
	c.settle(group.Formed)
	c.everywhere(rows)

	t.Log("all are killed, and the one with the last write comes back last")
	second = c.primary()
	for _, pod := range pods {
		if pod != second {
			c.servers[pod].Kill()
		}
	}
	c.servers[second].Kill()
	for _, pod := range pods {
		if pod == second {
			continue
		}
		c.servers[pod].Start()
	}
	if state, err := c.Look(t.Context(), c.shape, group.Formed); err != nil || state.Phase != group.Waiting ||
		!strings.Contains(state.Reason, second+" does not answer") {
		t.Errorf("got %+v, %v", state, err)
	}
	c.servers[second].Start()
	c.settle(group.Formed)
	c.everywhere(rows)
}

// A member whose volume is a new one copies all data, also what is in no binary log any more. Its server ends when it
// has, and is started again by whoever looks after it.
func TestMemberWithANewVolume(t *testing.T) {
	c := newCluster(t)
	c.settle(group.Unformed)
	c.servers["a"].SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY); INSERT INTO app.rows_ VALUES (1); FLUSH BINARY " +
		"LOGS; PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
	// What the metrics are told is of the primary alone, and no hindrance for who copies.
	if d, err := c.servers["a"].Server.Driver(); err != nil {
		t.Fatal(err)
	} else if err := d.NoteArchiving(t.Context(), mysql.Archiving{Archived: 1, Waiting: -1}); err != nil {
		t.Error(err)
	}
	c.renew("c")
	c.everywhere(1)
	for pod, want := range map[string]string{"a": "1", "b": "0", "c": "0"} {
		if got := c.servers[pod].SQL("SELECT COUNT(*) FROM " + mysql.ArchivingTable); got != want {
			t.Errorf("%s has %s rows for the metrics, want %s", pod, got, want)
		}
	}
}

// A member with transactions of its own stays out of the group, and nothing of it is lost.
func TestMemberThatHasDiverged(t *testing.T) {
	c := newCluster(t)
	c.settle(group.Unformed)
	c.servers["a"].SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY)")
	c.everywhere(0)
	c.servers["c"].SQL("STOP GROUP_REPLICATION; SET GLOBAL super_read_only = OFF; INSERT INTO app.rows_ VALUES (7)")
	state, err := c.Step(t.Context(), c.shape, group.Formed)
	if err != nil || state.Phase != group.Refused ||
		!strings.Contains(state.Reason, "c has transactions that the group has not") {
		t.Errorf("got %+v, %v", state, err)
	}
	if said := c.servers["c"].SQL("SELECT COUNT(*) FROM app.rows_"); said != "1" {
		t.Errorf("it has %s rows", said)
	}
	if err := c.write("a", 1); err != nil {
		t.Error(err)
	}
}
