// SPDX-License-Identifier: Apache-2.0

//go:build processes

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver/redis/cluster"
)

// mortal is a Transport that dies after some commands that change something, also in the middle of several that are
// sent in one go.
type mortal struct {
	*cluster.Network
	left int
	dead bool
	die  context.CancelFunc
}

var errDead = errors.New("the agent is dead")

func changes(c cluster.Command) bool {
	return c[0] == "MIGRATE" || c[0] == "CLUSTER" &&
		!slices.Contains([]string{"MYID", "NODES", "INFO", "COUNTKEYSINSLOT", "GETKEYSINSLOT"}, c[1])
}

func (m *mortal) Send(ctx context.Context, member string, commands ...cluster.Command) ([]cluster.Answer, error) {
	if m.dead {
		return nil, errDead
	}
	if !changes(commands[0]) {
		return m.Network.Send(ctx, member, commands...)
	}
	n := min(len(commands), m.left)
	m.left -= n
	if n == len(commands) {
		return m.Network.Send(ctx, member, commands...)
	}
	m.dead = true
	defer m.die()
	if n > 0 {
		_, _ = m.Network.Send(ctx, member, commands[:n]...)
	}
	return nil, errDead
}

// bringDying has an agent that dies after ever more commands bring the cluster to its shape.
func (g *group) bringDying() {
	g.Helper()
	for lives := 1; ; lives++ {
		b, network := g.bringer()
		ctx, cancel := context.WithCancel(g.Context())
		m := &mortal{Network: network, left: 3 * lives * lives, die: cancel}
		b.Transport = m
		result, err := b.Bring(ctx, g.shape())
		cancel()
		network.Close()
		if !m.dead {
			if err != nil || result.Phase != cluster.Done {
				g.Fatalf("after %d lives: %+v, %v", lives, result, err)
			}
			g.Logf("it died %d times", lives-1)
			return
		}
		if lives > 500 {
			g.Fatal("it does not get anywhere")
		}
	}
}

// An agent that is killed again and again, between any two commands, gets there.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.bringDying()
	g.sound()
	w := g.write()
	g.shards = append(g.shards, []*server{newServer(t), newServer(t)})
	g.bringDying()
	g.sound()
	g.leaving, g.shards = g.shards[:1], g.shards[1:]
	g.bringDying()
	g.sound()
	g.check(w)
}

// All members are started again with other addresses, as pods are: none knows where the others are.
func TestAllRestartedElsewhere(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.bring(cluster.Done)
	w := g.write()
	g.eventually(w, 200)
	w.end()
	var ids []string
	for _, s := range g.all() {
		ids = append(ids, s.run("CLUSTER", "MYID"))
		s.stop()
	}
	begin := time.Now()
	for i, s := range g.all() {
		s.start()
		if id := s.run("CLUSTER", "MYID"); id != ids[i] {
			t.Errorf("a member was %s and is %s", ids[i], id)
		}
	}
	started := time.Since(begin)
	g.bring(cluster.Done)
	t.Logf("started in %v, whole after %v", started, time.Since(begin))
	g.sound()
	g.check(w)
}

// A member loses its volume: its replica takes over, and it becomes a replica of that one. Its former id is dropped
// everywhere.
func TestMemberLosesItsData(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.bring(cluster.Done)
	w := g.write()
	g.eventually(w, 200)
	w.end()
	g.synced()
	lost := g.owner(1)
	id := lost.run("CLUSTER", "MYID")
	lost.lose()
	lost.start()
	g.bring(cluster.Done)
	g.sound()
	if g.owner(1) == lost {
		t.Error("the member that has lost its data is the primary")
	}
	for _, s := range g.all() {
		if strings.Contains(s.run("CLUSTER", "NODES"), id) {
			t.Errorf("%s knows the node that is gone", s.address)
		}
	}
	g.check(w)
}

// synced waits until all replicas have what their primaries have.
func (g *group) synced() {
	g.Helper()
	for i := range g.shards {
		owner := g.owner(i)
		owner.eventually("a replica does not catch up", func() bool { return owner.run("WAIT", "1", "1000") != "0" })
	}
}

// A majority of primaries loses its volumes at once: without a vote their replicas take over.
func TestMajorityLosesItsData(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.bring(cluster.Done)
	w := g.write()
	g.eventually(w, 200)
	w.end()
	g.synced()
	lost := []*server{g.owner(0), g.owner(2)}
	for _, s := range lost {
		s.lose()
	}
	for _, s := range lost {
		s.start()
	}
	g.bring(cluster.Done)
	g.sound()
	g.check(w)
}

// A shard that has lost all its volumes stops everything but what is said to be given up.
func TestShardLosesItsData(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.bring(cluster.Done)
	id := g.owner(1).run("CLUSTER", "MYID")
	for _, s := range g.shards[1] {
		s.lose()
	}
	for _, s := range g.shards[1] {
		s.start()
	}
	if result := g.bring(cluster.Refused); !strings.Contains(result.Reason, "5462-10922 belong to node "+id) {
		t.Errorf("got %+v", result)
	}
	// What is there is not given up by a slip.
	other := g.owner(0).run("CLUSTER", "MYID")
	g.change = func(s *cluster.Shape) { s.Goal, s.Abandon = cluster.GiveUp, []string{other} }
	g.bring(cluster.Refused)
	g.change = func(s *cluster.Shape) { s.Goal, s.Abandon = cluster.GiveUp, []string{id} }
	if result := g.bring(cluster.Done); result.Slots != 0 {
		t.Errorf("slots were handed out: %+v", result)
	}
	g.change = nil
	g.bring(cluster.Done)
	g.sound()
}

// A replica that has not copied yet does not take over from a primary that has lost its volume: what it never had is
// not handed out empty.
func TestNobodyHasCopied(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.bring(cluster.Done)
	primary, replica := g.owner(1), g.shards[1][1]
	if primary == replica {
		replica = g.shards[1][0]
	}
	id := primary.run("CLUSTER", "MYID")
	replica.lose()
	replica.start()
	// It cannot log in.
	replica.run("CONFIG", "SET", "masterauth", "wrong")
	if result := g.bring(cluster.Waiting); !strings.Contains(result.Reason, replica.address+" has not yet all data") {
		t.Fatalf("got %+v", result)
	}
	primary.lose()
	primary.start()
	if result := g.bring(cluster.Refused); !strings.Contains(result.Reason, "belong to node "+id+
		", which is no member, and of which no member has a complete copy") {
		t.Errorf("got %+v", result)
	}
	g.change = func(s *cluster.Shape) { s.Goal, s.Abandon = cluster.GiveUp, []string{id} }
	g.bring(cluster.Done)
	g.change = nil
	replica.run("CONFIG", "SET", "masterauth", password)
	g.bring(cluster.Done)
	g.sound()
}

// A primary that leaves hands over first, so that no slot has to move.
func TestPrimaryLeaves(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	leaving := newServer(t)
	g.shards[0] = append(g.shards[0], leaving)
	g.bring(cluster.Done)
	w := g.write()
	g.eventually(w, 200)
	leaving.run("CLUSTER", "FAILOVER")
	leaving.eventually("it does not take over", func() bool { return owns(leaving) })
	g.shards[0], g.leaving = g.shards[0][:2], [][]*server{{leaving}}
	if result := g.bring(cluster.Done); result.Slots != 0 || result.Keys != 0 {
		t.Errorf("got %+v", result)
	}
	g.sound()
	g.eventually(w, w.acknowledged.Load())
	g.check(w)
}

// A primary hands over before it is taken out, and clients hardly notice.
func TestYield(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.bring(cluster.Done)
	w := g.write()
	g.eventually(w, 0)
	owner := g.owner(2)
	g.change = func(s *cluster.Shape) { s.Drain = []string{owner.address} }
	g.bring(cluster.Done)
	if g.owner(2) == owner {
		t.Error("it still is the owner")
	}
	g.eventually(w, w.acknowledged.Load())
	g.check(w)
	// Where no replica is in sync, nobody can take over.
	g.shards[0] = g.shards[0][:1]
	alone := g.shards[0][0]
	g.change = func(s *cluster.Shape) {
		s.Drain, s.Leaving = []string{alone.address}, nil
	}
	if result := g.bring(cluster.Waiting); !strings.Contains(result.Reason, "is in the cluster, and is no member") {
		t.Errorf("got %+v", result)
	}
}

// Slots that another tool left open are closed, or finished where their keys are.
func TestOpenSlots(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.bring(cluster.Done)
	client := g.clients()
	for i := range 300 {
		// {a} is of slot 15495, {b} of 3300.
		for _, tag := range []string{"a", "b"} {
			if err := client.Set(t.Context(), fmt.Sprintf("{%s}%d", tag, i), i, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	first, middle, last := g.owner(0), g.owner(1), g.owner(2)
	ids := map[*server]string{first: first.run("CLUSTER", "MYID"), middle: middle.run("CLUSTER", "MYID"),
		last: last.run("CLUSTER", "MYID")}
	// Half of one is moved, another one is only open, and one side of a third and a fourth is.
	middle.run("CLUSTER", "SETSLOT", 15495, "IMPORTING", ids[last])
	last.run("CLUSTER", "SETSLOT", 15495, "MIGRATING", ids[middle])
	for i := range 150 {
		_, port, _ := strings.Cut(middle.address, ":")
		last.run("MIGRATE", "127.0.0.1", port, fmt.Sprintf("{a}%d", i), 0, 1000, "AUTH", password)
	}
	middle.run("CLUSTER", "SETSLOT", 3300, "IMPORTING", ids[first])
	first.run("CLUSTER", "SETSLOT", 3300, "MIGRATING", ids[middle])
	first.run("CLUSTER", "SETSLOT", 1, "MIGRATING", ids[last])
	last.run("CLUSTER", "SETSLOT", 2, "IMPORTING", ids[first])
	// The marks of the half that has moved are lost on both sides.
	middle.run("CLUSTER", "SETSLOT", 15495, "STABLE")
	last.run("CLUSTER", "SETSLOT", 15495, "STABLE")
	g.bring(cluster.Done)
	g.sound()
	for i := range 300 {
		for _, tag := range []string{"a", "b"} {
			if value, err := client.Get(t.Context(), fmt.Sprintf("{%s}%d", tag, i)).Int(); err != nil || value != i {
				t.Fatalf("{%s}%d: %d, %v", tag, i, value, err)
			}
		}
	}
}

// A move that is cancelled leaves no slot open; what has moved moves back when the shape is as before, and those that
// were to join leave.
func TestCancelled(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.bring(cluster.Done)
	w := g.write()
	g.eventually(w, 500)
	g.shards = append(g.shards, []*server{newServer(t), newServer(t)})
	b, network := g.bringer()
	defer network.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.Report = func(r cluster.Result) {
		if r.Slots > 1000 {
			cancel()
		}
	}
	if result, err := b.Bring(ctx, g.shape()); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %+v, %v", result, err)
	}
	for _, s := range g.all() {
		if nodes := s.run("CLUSTER", "NODES"); strings.Contains(nodes, "[") {
			t.Errorf("slots are open: %s", nodes)
		}
	}
	g.leaving, g.shards = g.shards[3:], g.shards[:3]
	if result := g.bring(cluster.Done); result.Slots < 1000 {
		t.Errorf("%d slots have moved back", result.Slots)
	}
	g.sound()
	g.check(w)
}

// Who would have no room for what comes refuses it, before anything is touched.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 4, "maxmemory-policy noeviction")
	g.bring(cluster.Done)
	client, value := g.clients(), strings.Repeat("x", 8<<10)
	for i := range 3200 {
		if err := client.Set(t.Context(), fmt.Sprint(i), value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	g.leaving, g.shards = g.shards[3:], g.shards[:3]
	// A third of 6 MiB comes to each, and there is room for one.
	for _, shard := range g.shards {
		for _, s := range shard {
			_, used, _ := strings.Cut(s.run("INFO", "memory"), "used_memory:")
			var bytes int
			if _, err := fmt.Sscan(used, &bytes); err != nil {
				t.Fatal(err)
			}
			s.run("CONFIG", "SET", "maxmemory", bytes+1<<20)
		}
	}
	if result := g.bring(cluster.Refused); !strings.Contains(result.Reason, "may be used") ||
		!strings.Contains(result.Reason, " MiB of ") || result.Slots != 0 {
		t.Errorf("got %+v", result)
	}
	for _, shard := range g.shards {
		for _, s := range shard {
			s.run("CONFIG", "SET", "maxmemory", "64mb")
		}
	}
	g.bring(cluster.Done)
	g.sound()
	if keys := g.keys(); keys != 3200 {
		t.Errorf("%d keys are there", keys)
	}
}

// A member that does not answer stops everything else; so does one that is not empty, or a copy of another.
func TestRefusals(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	stranger := newServer(t)
	stranger.run("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	stranger.eventually("it does not serve", func() bool { return stranger.try("SET", "a", "b") == "OK" })
	stranger.run("CLUSTER", "DELSLOTSRANGE", 0, 16383)
	stopped := g.shards[2][1]
	if err := syscall.Kill(stopped.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b, network := g.bringer()
	defer network.Close()
	b.Patience = time.Second
	if result, err := b.Bring(t.Context(), g.shape()); err != nil || result.Phase != cluster.Waiting ||
		!strings.Contains(result.Reason, stopped.address) || result.Steps > 0 {
		t.Errorf("got %+v, %v", result, err)
	}
	if err := syscall.Kill(stopped.cmd.Process.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	g.shards[1] = append(g.shards[1], stranger)
	if result := g.bring(cluster.Refused); !strings.Contains(result.Reason, stranger.address+
		" is in no cluster, and has 1 keys") {
		t.Errorf("got %+v", result)
	}
}
