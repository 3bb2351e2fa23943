// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// restCheck is how often an operator looks whether it is at rest.
	restCheck = 20 * time.Second
	// restBytes is the most that an operator at rest allocates between two looks, its Lease and its metrics included.
	restBytes = 16 << 20
	// worthBytes is how much unused memory has to be held for giving it back to be worth a collection.
	worthBytes = 16 << 20
)

// givesBack returns memory to the node once the operator has come to rest. Go would keep for minutes what a rush of work
// took, and an operator is at rest most of its life.
type givesBack struct {
	allocated uint64
	free      func()
	read      func() usage
}

// usage is what Go says of its memory, in bytes.
type usage struct {
	// allocated since the start, and unused: held, but in no use by an object.
	allocated, unused uint64
}

func newGivesBack() *givesBack { return &givesBack{free: debug.FreeOSMemory, read: readUsage} }

// Start implements manager.Runnable.
func (g *givesBack) Start(ctx context.Context) error {
	tick := time.NewTicker(restCheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.look()
		case <-ctx.Done():
			return nil
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: those that wait to lead hold memory, too.
func (*givesBack) NeedLeaderElection() bool { return false }

func (g *givesBack) look() {
	now := g.read()
	atRest := now.allocated-g.allocated < restBytes
	g.allocated = now.allocated
	if atRest && now.unused >= worthBytes {
		g.free()
	}
}

func readUsage() usage {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	allocated, free, objects, live := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()
	// What died since the last collection is unused as well.
	return usage{allocated: allocated, unused: free + objects - min(live, objects)}
}
