// SPDX-License-Identifier: Apache-2.0

//go:build processes

package cluster_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/zeroinfra/agents/internal/driver/redis/cluster"
	"github.com/zeroinfra/agents/internal/testpki"
)

const (
	// patience bounds every wait for a condition.
	patience = 30 * time.Second
	password = "hunter2"
)

// server is a real Redis with a volume, which it keeps when it is started again.
type server struct {
	*testing.T
	dir, address string
	options      []string
	secured      *security
	// host is the address that it is reached at; 127.0.0.1 where it is empty.
	host string
	cmd  *exec.Cmd
}

// security has servers speak nothing but TLS, with the certificate in a folder.
type security struct {
	dir    string
	config *tls.Config
}

// secure returns one whose certificates are for the name.
func secure(t *testing.T, name string) *security {
	t.Helper()
	authority, s := testpki.New(t), &security{dir: t.TempDir()}
	leaf := testpki.Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		Names: []string{name}}
	authority.MountLeaf(t, s.dir, leaf, authority)
	s.config = authority.ClientConfig(t, nil, leaf)
	return s
}

func (s *security) client() *tls.Config {
	if s == nil {
		return nil
	}
	return s.config
}

// directives of redis.conf.
func (s *security) directives(port string) string {
	if s == nil {
		return "port " + port
	}
	return fmt.Sprintf("port 0\ntls-port %s\ntls-cluster yes\ntls-replication yes\ntls-auth-clients no\ntls-cert-file "+
		"%[2]s/tls.crt\ntls-key-file %[2]s/tls.key\ntls-ca-cert-file %[2]s/ca.crt", port, s.dir)
}

// given are the ports that a server of these tests has had: none is given twice, since a free one is not taken at once.
var given sync.Map

// ports returns free ones.
func ports(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	for len(all) < n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		if _, taken := given.LoadOrStore(port, true); !taken {
			all = append(all, port)
		}
	}
	return all
}

// newServer starts one.
func newServer(t *testing.T, options ...string) *server {
	t.Helper()
	return startServer(&server{T: t, dir: t.TempDir(), options: options})
}

func startServer(s *server) *server {
	s.Helper()
	logging.Disable()
	s.start()
	s.Cleanup(s.kill)
	return s
}

// start has it run, each time on other ports.
func (s *server) start() {
	s.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		s.Fatalf("%v: install Debian's package redis-server", err)
	}
	free := ports(s.T, 2)
	host := cmp.Or(s.host, "127.0.0.1")
	s.address = net.JoinHostPort(host, free[0])
	conf := fmt.Sprintf("bind "+host+"\n%s\ncluster-port %s\ndir %s\nsave \"\"\nappendonly yes\nrequirepass "+
		"%[4]s\nmasterauth %[4]s\ncluster-enabled yes\ncluster-node-timeout 1000\n"+
		"cluster-allow-replica-migration no\nrepl-diskless-sync-delay 0\nlogfile redis.log\n%s\n",
		s.secured.directives(free[0]), free[1], s.dir, password, strings.Join(s.options, "\n"))
	if err := os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(conf), 0o600); err != nil {
		s.Fatal(err)
	}
	s.cmd = exec.Command("redis-server", filepath.Join(s.dir, "redis.conf"))
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.eventually("redis-server does not answer", func() bool { return s.try("PING") == "PONG" })
}

func (s *server) end(signal syscall.Signal) {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(signal)
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) kill() { s.end(syscall.SIGKILL) }

// stop has it write what it has.
func (s *server) stop() { s.end(syscall.SIGTERM) }

// lose removes its volume.
func (s *server) lose() {
	s.Helper()
	s.kill()
	for _, pattern := range []string{"nodes.conf", "appendonlydir", "dump.rdb"} {
		if err := os.RemoveAll(filepath.Join(s.dir, pattern)); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *server) client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: s.address, Password: password, TLSConfig: s.secured.client(),
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialTimeout: time.Second})
}

// try returns the answer to a command, or the error.
func (s *server) try(words ...any) string {
	client := s.client()
	defer client.Close()
	answer, err := client.Do(context.Background(), words...).Result()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer)
}

// run fails the test when a command is refused.
func (s *server) run(words ...any) string {
	s.Helper()
	client := s.client()
	defer client.Close()
	answer, err := client.Do(context.Background(), words...).Result()
	if err != nil {
		s.Fatalf("%v: %v", words, err)
	}
	return fmt.Sprint(answer)
}

func (s *server) eventually(problem string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatal(problem)
		}
	}
}

// group is a cluster of real servers.
type group struct {
	*testing.T
	shards, leaving [][]*server
	change          func(*cluster.Shape)
	redirectTime    time.Duration
}

// newGroup starts shards of two members each.
func newGroup(t *testing.T, shards int, options ...string) *group {
	t.Helper()
	g := &group{T: t}
	for range shards {
		g.shards = append(g.shards, []*server{newServer(t, options...), newServer(t, options...)})
	}
	return g
}

func login() (string, string, error) { return "", password, nil }

func (g *group) shape() *cluster.Shape {
	s := &cluster.Shape{Goal: cluster.Converge}
	for _, shard := range g.shards {
		var members []string
		for _, member := range shard {
			members = append(members, member.address)
		}
		s.Shards = append(s.Shards, members)
	}
	for _, shard := range g.leaving {
		for _, member := range shard {
			s.Leaving = append(s.Leaving, member.address)
		}
	}
	if g.change != nil {
		g.change(s)
	}
	return s
}

func (g *group) all() []*server {
	var all []*server
	for _, shard := range append(append([][]*server{}, g.shards...), g.leaving...) {
		all = append(all, shard...)
	}
	return all
}

// bringer has connections of its own, as each call has.
func (g *group) bringer() (*cluster.Bringer, *cluster.Network) {
	network := cluster.NewNetwork(login, nil)
	return &cluster.Bringer{Transport: network, Login: login, Patience: patience, Budget: patience,
		RedirectTime: g.redirectTime,
		Report:       func(r cluster.Result) { g.Logf("%+v", r) }}, network
}

// bring has the cluster get its shape, or the phase.
func (g *group) bring(want cluster.Phase) cluster.Result {
	g.Helper()
	b, network := g.bringer()
	defer network.Close()
	if want == cluster.Waiting {
		b.Patience = time.Second
	}
	ctx, cancel := context.WithTimeout(g.Context(), 2*patience)
	defer cancel()
	begin := time.Now()
	result, err := b.Bring(ctx, g.shape())
	if err != nil || result.Phase != want {
		for _, s := range g.all() {
			g.Logf("%s: %s", s.address, s.try("CLUSTER", "NODES"))
		}
		g.Fatalf("after %v: %+v, %v, want %s", time.Since(begin), result, err, want)
	}
	g.Logf("after %v: %+v", time.Since(begin).Round(time.Millisecond), result)
	return result
}

// clients is one that clients of a cluster use.
func (g *group) clients() *goredis.ClusterClient {
	g.Helper()
	var addresses []string
	for _, s := range g.shards[0] {
		addresses = append(addresses, s.address)
	}
	client := goredis.NewClusterClient(
		&goredis.ClusterOptions{Addrs: addresses, Password: password, TLSConfig: g.shards[0][0].secured.client(), Protocol: 2,
			DisableIdentity: true, MaxRedirects: 16})
	g.Cleanup(func() { _ = client.Close() })
	return client
}

// owner is the member of a shard that owns slots.
func (g *group) owner(shard int) *server {
	g.Helper()
	for _, s := range g.shards[shard] {
		if owns(s) {
			return s
		}
	}
	g.Fatalf("shard %d has no owner", shard)
	return nil
}

// owns says whether a server takes itself for the owner of slots.
func owns(s *server) bool {
	for line := range strings.Lines(s.try("CLUSTER", "NODES")) {
		if words := strings.Fields(line); len(words) > 8 && strings.Contains(words[2], "myself") &&
			strings.Contains(words[2], "master") {
			return true
		}
	}
	return false
}

// sound fails where a slot has no owner, is open, or members do not agree.
func (g *group) sound() {
	g.Helper()
	for _, shard := range g.shards {
		for _, s := range shard {
			info := s.run("CLUSTER", "INFO")
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_assigned:16384") ||
				!strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", 2*len(g.shards))) ||
				!strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", len(g.shards))) {
				g.Errorf("%s says %s", s.address, info)
			}
			if nodes := s.run("CLUSTER", "NODES"); strings.Contains(nodes, "[") {
				g.Errorf("slots are open: %s", nodes)
			}
		}
	}
}

// keys that the owners have together.
func (g *group) keys() int {
	g.Helper()
	count := 0
	for i := range g.shards {
		var n int
		if _, err := fmt.Sscan(g.owner(i).run("DBSIZE"), &n); err != nil {
			g.Fatal(err)
		}
		count += n
	}
	return count
}
