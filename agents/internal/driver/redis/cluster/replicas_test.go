// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// ofMembers is the shape with so many members in each shard: others come, or leave.
func ofMembers(shape *Shape, count int) *Shape {
	changed := &Shape{Goal: shape.Goal}
	for _, shard := range shape.Shards {
		var members []string
		for i := range max(count, len(shard)) {
			name := strings.TrimSuffix(shard[0], "0") + strconv.Itoa(i)
			if i >= count {
				changed.Leaving = append(changed.Leaving, name)
				continue
			}
			members = append(members, name)
		}
		changed.Shards = append(changed.Shards, members)
	}
	return changed
}

// Replicas come and go, while primaries are any of them. A copy of what somebody owns that leaves is never given up.
func TestRandomHistoriesOfReplicas(t *testing.T) {
	once := atOnce
	atOnce = 1
	t.Cleanup(func() { atOnce = once })
	for seed := range *histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{T: t, random: rand.New(rand.NewPCG(seed, 7)), members: map[string]*node{}, calm: true, every: 8}
			shape := simulatedShape([]int{0, 1, 2}, nil)
			for _, name := range shape.members() {
				w.fresh(name)
			}
			w.bring(shape)
			w.fill()
			for _, count := range []int{3, 2, 1, 3} {
				w.calm = true
				for _, name := range ofMembers(shape, count).members() {
					if w.members[name] == nil {
						w.fresh(name)
					}
				}
				w.handOver(w.members[fmt.Sprintf("m%d-%d", w.random.IntN(3), len(shape.Shards[0])-1)])
				w.calm = false
				shape = ofMembers(shape, count)
				w.bring(shape)
				w.check()
			}
		})
	}
}

// handOver has a replica take over, and all hear of that.
func (w *world) handOver(n *node) {
	w.Helper()
	if n.master() {
		return
	}
	if err := w.failover(n, ""); err != nil || !n.owns() {
		w.fail("%s does not take over: %v", n.member, err)
	}
	w.gossip(3)
}
