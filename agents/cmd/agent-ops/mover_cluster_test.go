// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/zeroinfra/agents/internal/driver/redis/cluster"
	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// clusterKeys are how many keys the cluster of these tests has.
const clusterKeys = 3000

// shards are the servers of a Redis Cluster, two of each shard. Each has an address of its own on loopback, since a
// plugin knows one port.
type shards struct {
	*carrier
	name  string
	shape *cluster.Shape
	net   *cluster.Network
}

// address of a server of one of the clusters of these tests, on loopback.
func address(network, shard, ordinal int) string {
	return fmt.Sprintf("127.%d.%d.%d", 40+network, os.Getpid()%200+20, 10*shard+ordinal+1)
}

// member is the name of a server as pods are called.
func (s *shards) member(shard, ordinal int) string {
	return fmt.Sprintf("%s-node-%d-%d.%s-node-headless.shop.svc", s.name, shard, ordinal, s.name)
}

// newShards starts three shards of two servers; the first server of each has its folder.
func (m *carrier) newShards(name string, network int, folders ...string) *shards {
	m.Helper()
	login := func() (string, string, error) { return "", "hunter22", nil }
	s := &shards{carrier: m, name: name, shape: &cluster.Shape{Goal: cluster.Converge},
		net: cluster.NewNetwork(login, nil)}
	m.Cleanup(s.net.Close)
	for shard := range 3 {
		var members []string
		for ordinal := range 2 {
			dir := m.path(fmt.Sprintf("%s-%d-%d", name, shard, ordinal))
			if ordinal == 0 && len(folders) > 0 {
				dir = folders[shard]
			}
			at := address(network, shard, ordinal)
			s.serve(dir, at, s.member(shard, ordinal))
			members = append(members, at+":6379")
		}
		s.shape.Shards = append(s.shape.Shards, members)
	}
	s.bring(login)
	return s
}

// serve starts a server, and has the client of the plugin's commands find it by its name.
func (s *shards) serve(dir, at, name string) {
	s.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.Fatal(err)
	}
	server := exec.Command("redis-server", "--port", "6379", "--bind", at, "--dir", dir, "--requirepass", "hunter22",
		"--masterauth", "hunter22", "--repl-diskless-sync-delay", "0",
		"--appendonly", "yes", "--cluster-enabled", "yes", "--cluster-announce-ip", at, "--cluster-announce-hostname", name,
		"--cluster-allow-replica-migration", "no", "--logfile", dir+"/log")
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	s.write("hosts-"+name, []byte(at))
	s.await(name+" answers", func() bool { return s.ask(at, "PING") == "PONG" })
}

// named has commands find servers by their names, as DNS has them in a cluster.
func (m *carrier) named() {
	m.Helper()
	real, err := exec.LookPath("redis-cli")
	if err != nil {
		m.Fatalf("%v: install Debian's package redis-tools", err)
	}
	if err := os.Mkdir(m.path("bin"), 0o755); err != nil {
		m.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n[ \"$2\" = -h ] || exit 64\nat=$(cat '%s'-\"$3\") || exit 65\nshift 3\nexec '%s' "+
		"-e -h \"$at\" \"$@\"\n", m.path("hosts"), real)
	if err := os.WriteFile(m.path("bin", "redis-cli"), []byte(script), 0o755); err != nil {
		m.Fatal(err)
	}
	m.env = append(m.env, "PATH="+m.path("bin")+":"+os.Getenv("PATH"), "REDISCLI_AUTH=hunter22", "TLS=", "APPENDONLY=yes")
}

// ask one server, and return what it says, be it an error.
func (s *shards) ask(at string, words ...any) string {
	client := goredis.NewClient(&goredis.Options{Addr: at + ":6379", Password: "hunter22", Protocol: 2,
		DisableIdentity: true, MaxRetries: -1})
	defer client.Close()
	answer, err := client.Do(context.Background(), words...).Result()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer)
}

// bring makes one cluster of the servers.
func (s *shards) bring(login cluster.Login) {
	s.Helper()
	b := &cluster.Bringer{Transport: s.net, Login: login, Patience: patience, Budget: patience}
	result, err := b.Bring(s.Context(), s.shape)
	if err != nil || result.Phase != cluster.Done {
		s.Fatalf("they are no cluster: %+v, %v", result, err)
	}
	s.Logf("%s: %+v", s.name, result)
}

// clients is one that clients of a cluster use.
func (s *shards) clients() *goredis.ClusterClient {
	client := goredis.NewClusterClient(
		&goredis.ClusterOptions{Addrs: s.shape.Shards[0], Password: "hunter22", Protocol: 2, DisableIdentity: true})
	s.Cleanup(func() { _ = client.Close() })
	return client
}

// digest of all keys and their values.
func (s *shards) digest() string {
	s.Helper()
	client := s.clients()
	sum := sha1.New()
	pipe := client.Pipeline()
	for n := range clusterKeys {
		pipe.Get(s.Context(), fmt.Sprint("key:", n))
	}
	answers, err := pipe.Exec(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, answer := range answers {
		fmt.Fprintln(sum, answer.(*goredis.StringCmd).Val())
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// slots of each shard, as its first server tells.
func (s *shards) slots() (all []string) {
	for shard := range 3 {
		for _, line := range strings.Split(s.ask(strings.TrimSuffix(s.shape.Shards[shard][0], ":6379"), "CLUSTER", "NODES"),
			"\n") {
			if words := strings.Fields(line); len(words) > 8 && strings.Contains(words[2], "myself") {
				all = append(all, strings.Join(words[8:], " "))
			}
		}
	}
	return all
}

// plan of a backup by what the plugin declares, from the second server of each shard.
func (s *shards) plan(attempt string) protocol.Plan {
	s.Helper()
	method := methodOf(s.T, "redis", "node", "rdb")
	plan := backup(attempt, "")
	plan.Command, plan.Facts, plan.Steady = method.Command, method.Facts, method.Steady
	for shard := range 3 {
		plan.Streams = append(plan.Streams,
			protocol.Stream{Name: fmt.Sprint(shard), Env: []string{"HOST=" + s.member(shard, 1)}})
	}
	return plan
}

// TestMoverRedisCluster carries the data of each shard of a real cluster into another, with its slots.
func TestMoverRedisCluster(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	m.named()
	source := m.newShards("shop", 0)
	m.env = append(m.env, "HOST="+source.member(0, 1), "PREFIX=shop-node-")
	client := source.clients()
	pipe := client.Pipeline()
	for n := range clusterKeys {
		pipe.Set(t.Context(), fmt.Sprint("key:", n), strings.Repeat(fmt.Sprint(n), 10), 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Slots in pieces: the ranges are not those that a cluster begins with.
	swapped := source.swap(100, 0, 2)
	source.swap(16000, 2, 0)
	before, slots := source.digest(), source.slots()
	if !strings.Contains(slots[2], swapped) {
		t.Fatalf("the slots are %q", slots)
	}
	made := m.succeeds(source.plan("mover-1"))
	for i, want := range slots {
		if got := made.Facts[fmt.Sprint("slots.", i)]; got != want || made.Streams[fmt.Sprint(i)] < 1000 {
			t.Errorf("shard %d had the slots %q in %d bytes, want %q", i, got, made.Streams[fmt.Sprint(i)], want)
		}
		if stream := m.manifest().Streams[i]; stream.Facts["slots"] != want || stream.Facts["role"] != "slave" ||
			stream.Facts["offsetAfter"] == "" {
			t.Errorf("the manifest has %+v", stream)
		}
	}
	m.succeeds(of(protocol.VerbInspect))
	again := m.newShards("again", 1, source.restored()...)
	if got := again.digest(); got != before {
		t.Errorf("the data has the digest %s, and had %s", got, before)
	}
	if got := again.slots(); !slices.Equal(got, slots) {
		t.Errorf("the slots are %q, and were %q", got, slots)
	}
	m.disk()
	m.fails(m.wayBack("redis", "node", "rdb"), protocol.ReasonBadPlan, `no stream ""`)
	source.checkUnsteady()
	source.checkStray()
}

// swap has two shards change the owner of one slot, with its keys, as a reshard does by hand.
func (s *shards) swap(slot, from, to int) string {
	s.Helper()
	at := func(shard int) string { return strings.TrimSuffix(s.shape.Shards[shard][0], ":6379") }
	source, target := s.ask(at(from), "CLUSTER", "MYID"), s.ask(at(to), "CLUSTER", "MYID")
	s.ask(at(to), "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	s.ask(at(from), "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	client := goredis.NewClient(&goredis.Options{Addr: at(from) + ":6379", Password: "hunter22", Protocol: 2,
		DisableIdentity: true})
	defer client.Close()
	keys, err := client.ClusterGetKeysInSlot(s.Context(), slot, clusterKeys).Result()
	if err != nil {
		s.Fatal(err)
	}
	if len(keys) > 0 {
		words := []any{"MIGRATE", at(to), 6379, "", 0, 5000, "AUTH", "hunter22", "KEYS"}
		for _, key := range keys {
			words = append(words, key)
		}
		if said := s.ask(at(from), words...); said != "OK" {
			s.Fatal(said)
		}
	}
	for _, shard := range []int{to, from} {
		s.ask(at(shard), "CLUSTER", "SETSLOT", slot, "NODE", target)
	}
	s.await("all servers know the new owner of the slot", func() bool {
		for _, server := range slices.Concat(s.shape.Shards...) {
			nodes := s.ask(strings.TrimSuffix(server, ":6379"), "CLUSTER", "NODES")
			i := slices.IndexFunc(strings.Split(nodes, "\n"), func(line string) bool {
				return strings.HasPrefix(line, target) && slices.Contains(strings.Fields(line), fmt.Sprint(slot))
			})
			if i < 0 || strings.Contains(nodes, "[") {
				return false
			}
		}
		return true
	})
	return fmt.Sprint(slot)
}

// restored puts each stream on a disk of its own, by what the plugin declares.
func (s *shards) restored() (disks []string) {
	s.Helper()
	for shard := range 3 {
		s.disk()
		plan := s.wayBack("redis", "node", "rdb")
		plan.Backup.Stream = fmt.Sprint(shard)
		env := s.env
		s.env = append(slices.Clone(env), "SHARD="+fmt.Sprint(shard))
		s.succeeds(plan)
		s.env = env
		disk := s.path(fmt.Sprint("disk-", shard))
		if err := os.Rename(s.path("disk"), disk); err != nil {
			s.Fatal(err)
		}
		disks = append(disks, disk)
	}
	return disks
}

// checkUnsteady: slots that are on the move are no time for a backup, nor are such as moved meanwhile.
func (s *shards) checkUnsteady() {
	s.Helper()
	first, second := address(0, 0, 0), address(0, 1, 0)
	s.ask(first, "CLUSTER", "SETSLOT", 5, "MIGRATING", s.ask(second, "CLUSTER", "MYID"))
	refused := s.plan("mover-2")
	refused.Backup.Key += "-2"
	s.fails(refused, protocol.ReasonUnsteady, "slots are on the move: "+s.member(0, 0)+" has some open")
	s.ask(first, "CLUSTER", "SETSLOT", 5, "STABLE")
	plan := s.plan("mover-3")
	// The first command waits until a slot has another owner.
	plan.Command = shell("touch begun; while [ ! -e go ]; do sleep 0.05; done; echo data")
	plan.Backup.Key += "-3"
	p := s.start(plan)
	s.await("the data is being taken", func() bool { return has(s.path("begun")) })
	s.swap(200, 0, 1)
	s.write("go", nil)
	if result := p.end(); result.Reason != protocol.ReasonUnsteady || !strings.Contains(result.Message, "slots.0 was") {
		s.Errorf("it ended with %+v", result)
	}
}

// checkStray: a key that is where its slot is not would be in two shards once it is restored.
func (s *shards) checkStray() {
	s.Helper()
	first, second := address(0, 0, 0), address(0, 1, 0)
	client := goredis.NewClient(&goredis.Options{Addr: first + ":6379", Password: "hunter22", Protocol: 2,
		DisableIdentity: true})
	defer client.Close()
	slot := s.ask(first, "CLUSTER", "KEYSLOT", "key:1")
	for n := 1; strings.HasPrefix(s.ask(first, "SET", fmt.Sprint("key:", n), "x"), "OK"); n++ {
		slot = s.ask(first, "CLUSTER", "KEYSLOT", fmt.Sprint("key:", n+1))
	}
	key := ""
	for n := 1; key == ""; n++ {
		if s.ask(first, "CLUSTER", "KEYSLOT", fmt.Sprint("key:", n)) == slot {
			key = fmt.Sprint("key:", n)
		}
	}
	s.ask(first, "CLUSTER", "SETSLOT", slot, "IMPORTING", s.ask(second, "CLUSTER", "MYID"))
	pipe := client.Pipeline()
	pipe.Do(s.Context(), "ASKING")
	pipe.Set(s.Context(), key, "astray", 0)
	if _, err := pipe.Exec(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.ask(first, "CLUSTER", "SETSLOT", slot, "STABLE")
	plan := s.plan("mover-4")
	plan.Backup.Key += "-4"
	s.await("the replica has the key, too",
		func() bool { return s.ask(address(0, 0, 1), "CLUSTER", "COUNTKEYSINSLOT", slot) == "1" })
	s.fails(plan, protocol.ReasonCommandFailed, "has keys of slots that another shard owns")
}
