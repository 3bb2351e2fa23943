// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"os"
	"runtime"
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
	// roomBytes is how much garbage a large operator may hold before it is collected; more only when roomShare is more.
	roomBytes = 40 << 20
	// roomShare of what is in use may be garbage in any case, or a very large operator would do nothing but collect.
	roomShare = 4
	// gcVariable is set by who decides on it himself.
	gcVariable = "GOGC"
)

// percentFor returns Go's percentage of garbage for so many bytes in use. Go's own, 100, has an operator of many objects take
// twice the memory that it needs.
func percentFor(inUse uint64) int {
	if inUse <= roomBytes {
		return 100
	}
	return int(max(roomBytes, inUse/roomShare) * 100 / inUse)
}

// givesBack keeps the operator's memory near what it has in use: after each collection it limits the garbage until the next one, and it
// returns memory to the node once the operator has come to rest. Go would keep for minutes what a rush of work took, and an operator is at rest
// most of its life.
type givesBack struct {
	allocated uint64
	percent   int
	free      func()
	read      func() usage
	// limit sets the percentage of garbage; nil leaves it alone.
	limit func(percent int)
}

// usage is what Go says of its memory, in bytes.
type usage struct {
	// allocated since the start; inUse by objects at the last collection; unused: held, but in no use by an object.
	allocated, inUse, unused uint64
}

func newGivesBack() *givesBack {
	g := &givesBack{percent: 100, free: debug.FreeOSMemory, read: readUsage}
	if os.Getenv(gcVariable) == "" {
		g.limit = func(percent int) { debug.SetGCPercent(percent) }
	}
	return g
}

// Start implements manager.Runnable.
func (g *givesBack) Start(ctx context.Context) error {
	if g.limit != nil {
		afterEachCollection(ctx, g.bound)
	}
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

// look gives memory back when nothing happened since the last look.
func (g *givesBack) look() {
	now := g.read()
	atRest := now.allocated-g.allocated < restBytes
	g.allocated = now.allocated
	if atRest && now.unused >= worthBytes {
		g.free()
	}
}

// bound limits the garbage by what is in use now.
func (g *givesBack) bound() {
	if percent := percentFor(g.read().inUse); percent != g.percent {
		g.limit(percent)
		g.percent = percent
	}
}

// collected is an object that nothing refers to: that it is cleaned up tells of a collection. It is large enough to stand alone.
type collected struct{ _ [64]byte }

// afterEachCollection calls do after each collection of garbage, one call at a time, until the context ends.
func afterEachCollection(ctx context.Context, do func()) {
	if ctx.Err() != nil {
		return
	}
	runtime.AddCleanup(new(collected), func(struct{}) {
		do()
		afterEachCollection(ctx, do)
	}, struct{}{})
}

func readUsage() usage {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	allocated, free, objects, live := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()
	// What died since the last collection is unused as well.
	return usage{allocated: allocated, inUse: live, unused: free + objects - min(live, objects)}
}
