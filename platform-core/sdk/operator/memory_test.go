// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
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

func TestGarbageIsLimitedWhereMuchIsInUse(t *testing.T) {
	var now usage
	var limits []int
	g := &givesBack{percent: 100, free: func() {}, read: func() usage { return now }, limit: func(percent int) { limits = append(limits, percent) }}
	for _, mebibytes := range []uint64{20, 64, 128, 128, 256, 1024, 20} {
		now.inUse = mebibytes << 20
		g.bound()
	}
	if want := []int{62, 31, 25, 100}; !slices.Equal(limits, want) {
		t.Errorf("limits were %v, want %v", limits, want)
	}
	t.Setenv(gcVariable, "75")
	if newGivesBack().limit != nil {
		t.Error("what somebody decided on is changed")
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
