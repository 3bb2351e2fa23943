// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
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
	roomBytes = 24 << 20
	// smallBytes is how much an operator may hold before it is short of room: what is in use, and as much garbage. Without
	// it a rush of work on ten thousand Entities is half spent on collections.
	smallBytes = 192 << 20
	// roomShare of what is in use may be garbage in any case, or a very large operator would do nothing but collect.
	roomShare = 8
	// marginBytes is what an operator may hold beyond what is in use, its garbage, and what Go needs for itself.
	marginBytes = 8 << 20
)

// gcVariables are set by who decides on it himself.
var gcVariables = []string{"GOGC", "GOMEMLIMIT"}

// roomFor returns how many bytes of garbage there may be beside so many in use.
func roomFor(inUse uint64) uint64 {
	return max(roomBytes, inUse/roomShare, min(inUse, smallBytes-min(inUse, smallBytes)))
}

// percentFor returns Go's percentage of garbage for so many bytes in use. Go's own, 100, has an operator of many
// objects take twice the memory that it needs.
func percentFor(inUse uint64) int {
	if inUse <= roomBytes {
		return 100
	}
	return int(roomFor(inUse) * 100 / inUse)
}

// bounds are those that Go keeps: garbage in percent of what is in use, and bytes in all, near which it collects more
// often and returns memory at once. It may exceed them rather than stand still.
type bounds struct {
	percent int
	bytes   int64
}

// boundsFor returns those for an operator's use. They leave what Go needs for itself as it is, since no collection
// makes that less.
func boundsFor(u usage) bounds {
	return bounds{percent: percentFor(u.inUse), bytes: int64(u.inUse + roomFor(u.inUse) + u.overhead + marginBytes)}
}

// givesBack keeps the operator's memory near what it has in use: after each collection it limits the garbage until the
// next one, and it returns memory to the node once the operator has come to rest. Go would keep for minutes what a rush
// of work took, and an operator is at rest most of its life.
type givesBack struct {
	allocated uint64
	free      func()
	read      func() usage
	// limit sets the bounds; nil leaves them alone.
	limit func(bounds)
}

// usage is what Go says of its memory, in bytes.
type usage struct {
	// allocated since the start; inUse by objects at the last collection; unused: held, but in no use by an object;
	// overhead: in use by no object, but by Go: stacks, tables, parts of spans.
	allocated, inUse, unused, overhead uint64
}

func newGivesBack() *givesBack {
	g := &givesBack{free: debug.FreeOSMemory, read: readUsage}
	if !slices.ContainsFunc(gcVariables, func(name string) bool { return os.Getenv(name) != "" }) {
		g.limit = func(b bounds) {
			debug.SetGCPercent(b.percent)
			debug.SetMemoryLimit(b.bytes)
		}
	}
	return g
}

// begin bounds the memory from now on: before the caches are filled, which is when an operator of many objects needs
// most.
func (g *givesBack) begin(ctx context.Context) {
	if g.limit != nil {
		afterEachCollection(ctx, g.bound)
	}
}

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

// look gives memory back when nothing happened since the last look.
func (g *givesBack) look() {
	now := g.read()
	atRest := now.allocated-g.allocated < restBytes
	g.allocated = now.allocated
	if atRest && now.unused >= worthBytes {
		g.free()
	}
}

// bound limits what is held by what is in use now.
func (g *givesBack) bound() { g.limit(boundsFor(g.read())) }

// collected is an object that nothing refers to: that it is cleaned up tells of a collection. It is large enough to
// stand alone.
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
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/total:bytes"},
	}
	metrics.Read(samples)
	value := func(i int) uint64 { return samples[i].Value.Uint64() }
	allocated, live, objects, free, released, total := value(0), value(1), value(2), value(3), value(4), value(5)
	return usage{
		allocated: allocated,
		inUse:     live,
		unused:    free + objects - min(live, objects), // What died since the last collection is unused as well.
		overhead:  total - min(total, objects+free+released),
	}
}
