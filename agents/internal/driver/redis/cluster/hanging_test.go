// SPDX-License-Identifier: Apache-2.0

//go:build processes

package cluster_test

import (
	"sync"
	"syscall"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/redis/cluster"
)

// A member that gets slots hangs in the middle of that for so long that its replica takes over. What was acknowledged
// before is there, and the member is a replica afterwards.
func TestTargetHangs(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.bring(cluster.Done)
	w := g.write()
	g.eventually(w, 1000)
	w.end()
	g.shards = append(g.shards, []*server{newServer(t), newServer(t)})
	target := g.shards[3][0]
	b, network := g.bringer()
	defer network.Close()
	var hang sync.Once
	b.Report = func(r cluster.Result) {
		if r.Slots > 1000 {
			hang.Do(func() {
				g.synced()
				if err := syscall.Kill(target.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
					t.Error(err)
				}
				replica := g.shards[3][1]
				go func() {
					defer func() { _ = syscall.Kill(target.cmd.Process.Pid, syscall.SIGCONT) }()
					replica.eventually("the replica does not take over", func() bool { return owns(replica) })
				}()
			})
		}
	}
	if result, err := b.Bring(t.Context(), g.shape()); err != nil || result.Phase != cluster.Done {
		t.Fatalf("got %+v, %v", result, err)
	}
	g.sound()
	if g.owner(3) == target {
		t.Error("the member that hung is the primary")
	}
	g.check(w)
}
