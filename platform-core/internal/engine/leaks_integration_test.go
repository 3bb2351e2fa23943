// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

const (
	// leakEngines is the number of engines that are started and ended.
	leakEngines = 10
	// leakGoroutines is the number of goroutines that may remain of one engine. watch.Filter of apimachinery, which wraps
	// each watch of metadata, keeps its goroutine when the watch ends while an event is on its way.
	leakGoroutines = 4
	// leakHeap is the heap in bytes that may remain of one engine.
	leakHeap = 2 << 20
)

// TestEndedEnginesLeaveNothing starts and ends engines, each with an instance, and compares goroutines and heap with
// what was there after the first of them, which fills the caches of the process.
func TestEndedEnginesLeaveNothing(t *testing.T) {
	cycle := func(t *testing.T) {
		namespace := env.Namespace(t)
		run(t, -1)
		node(t, namespace)
		app := application(namespace)
		create(t, app)
		testkit.WaitForReady(t, env.Client, app)
	}
	t.Run("first", cycle)
	goroutines, heap := resting()
	for n := range leakEngines {
		t.Run(fmt.Sprintf("engine %d", n), cycle)
	}
	testkit.Eventually(t, "the goroutines of ended engines to end", func(context.Context) error {
		if now, _ := resting(); now > goroutines+leakEngines*leakGoroutines {
			return fmt.Errorf("%d goroutines remain, %d were there after the first engine:\n%s", now, goroutines, stacks())
		}
		return nil
	})
	if _, now := resting(); now > heap+leakEngines*leakHeap {
		t.Errorf("the heap grew from %d to %d MiB over %d engines", heap>>20, now>>20, leakEngines)
	}
}

// resting returns the number of goroutines and the bytes of heap in use after a garbage collection.
func resting() (goroutines int, heap uint64) {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return runtime.NumGoroutine(), stats.HeapAlloc
}

// stacks returns the stacks that most goroutines share.
func stacks() []byte {
	var text bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1) // A buffer takes all of it.
	return text.Bytes()[:min(text.Len(), 8<<10)]
}
