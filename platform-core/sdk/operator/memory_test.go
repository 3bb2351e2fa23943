// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestGivesBackOnlyAtRestAndWhatIsWorthIt(t *testing.T) {
	var now usage
	freed := 0
	g := &givesBack{free: func() { freed++ }, read: func() usage { return now }}
	look := func(what string, u usage, want int) {
		t.Helper()
		now, freed = u, 0
		if g.look(); freed != want {
			t.Errorf("%s: freed %d times, want %d", what, freed, want)
		}
	}
	look("after the start", usage{allocated: 10 * restBytes, unused: worthBytes}, 0)
	look("at rest", usage{allocated: 10*restBytes + 1, unused: worthBytes}, 1)
	look("at rest with little", usage{allocated: 10*restBytes + 2, unused: worthBytes - 1}, 0)
	look("at work", usage{allocated: 12 * restBytes, unused: 10 * worthBytes}, 0)
	look("at rest again", usage{allocated: 12 * restBytes, unused: 10 * worthBytes}, 1)
}

func TestMemoryIsBoundByWhatIsInUse(t *testing.T) {
	const mebibyte = 1 << 20
	for _, c := range []struct{ inUse, overhead, bytes, percent uint64 }{
		{20, 10, 20 + 24 + 10 + 8, 100}, {48, 10, 48 + 48 + 10 + 8, 100}, {128, 20, 128 + 64 + 20 + 8, 50},
		{182, 20, 182 + 24 + 20 + 8, 13},
		{1536, 100, 1536 + 192 + 100 + 8, 12},
	} {
		var got bounds
		g := &givesBack{read: func() usage { return usage{inUse: c.inUse * mebibyte, overhead: c.overhead * mebibyte} },
			limit: func(b bounds) { got = b }}
		g.bound()
		if want := (bounds{percent: int(c.percent), bytes: int64(c.bytes * mebibyte)}); got != want {
			t.Errorf("%d MiB in use are bound by %+v, want %+v", c.inUse, got, want)
		}
	}
	for _, name := range gcVariables {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "75")
			if newGivesBack().limit != nil {
				t.Error("what somebody decided on is changed")
			}
		})
	}
}

func TestUsageAddsUp(t *testing.T) {
	u := readUsage()
	if u.inUse == 0 || u.overhead == 0 || u.overhead > 64<<20 || u.allocated < u.inUse {
		t.Errorf("usage is %+v", u)
	}
}

func TestEachCollectionIsFollowedByAnother(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := make(chan struct{})
	afterEachCollection(ctx, func() {
		select {
		case calls <- struct{}{}:
		case <-ctx.Done():
		}
	})
	for range 3 {
		for seen := false; !seen; {
			runtime.GC()
			select {
			case <-calls:
				seen = true
			default:
				runtime.Gosched()
			}
		}
	}
	cancel()
}

func TestGivesBackRealMemory(t *testing.T) {
	// Nothing is collected but by what is tested.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	held := make([]byte, 8*worthBytes)
	runtime.KeepAlive(held)
	g := newGivesBack()
	before := g.read()
	if before.unused < 8*worthBytes {
		t.Fatalf("unused is %d, of which %d are garbage", before.unused, 8*worthBytes)
	}
	g.allocated = before.allocated
	g.look()
	if after := g.read(); after.unused >= worthBytes {
		t.Errorf("unused was %d and is %d", before.unused, after.unused)
	}
}
