// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/internal/failover"
)

var update = flag.Bool("update", false, "rewrite the golden logs")

// event is something that happens to the world of a story, and how long it then goes on.
type event struct {
	says string
	does func(w *world)
	goes time.Duration
}

// play tells a story and compares it with the golden log.
func play(t *testing.T, name string, replicas int, events ...event) {
	t.Run(name, func(t *testing.T) {
		w := newWorld(t, replicas, 1)
		w.run(10 * time.Second)
		for _, e := range events {
			w.note("--- %s", e.says)
			e.does(w)
			w.run(e.goes)
		}
		got := strings.Join(w.log, "\n") + "\n"
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the story is\n%s\nwant\n%s", got, want)
		}
	})
}

func (w *world) run(d time.Duration) {
	for end := w.now + d; w.now < end; {
		w.step()
	}
}

// gone takes a pod and its volume away, and makes it again a moment later.
func replaced(w *world, name string) {
	w.make(w.find(name))
}

func TestStories(t *testing.T) {
	kill := func(name string) func(*world) {
		return func(w *world) { p := w.find(name); p.runs = false }
	}
	breaks := func(name string) func(*world) {
		return func(w *world) { w.find(name).breaks = true }
	}
	nothing := func(*world) {}
	play(t, "first-primary", 3, event{"nothing happens for a minute", nothing, time.Minute})
	play(t, "process-restarts-in-place", 3, event{"the process of the primary is killed", kill("a-0"), 10 * time.Second})
	play(t, "process-does-not-come-back", 3,
		event{"the process of the primary ends and does not start again", breaks("a-0"), 10 * time.Second},
		event{"it can run again", func(w *world) { w.find("a-0").breaks = false }, 10 * time.Second})
	play(t, "primary-is-cut-off", 3,
		event{"nobody reaches the primary any more", func(w *world) { w.find("a-0").cut = true }, 20 * time.Second},
		event{"it is back", func(w *world) { w.find("a-0").cut = false }, 10 * time.Second})
	play(t, "follower-is-cut-off", 3,
		event{"nobody reaches a follower any more", func(w *world) { w.find("a-2").cut = true }, 90 * time.Second},
		event{"it is back", func(w *world) { w.find("a-2").cut = false }, 10 * time.Second})
	play(t, "primary-loses-its-volume", 3,
		event{"pod and volume of the primary are replaced", func(w *world) { replaced(w, "a-0") }, 20 * time.Second})
	play(t, "api-server-is-away", 3,
		event{"nobody reaches the API server", func(w *world) { w.apiDown = true }, 10 * time.Minute},
		event{"it is back", func(w *world) { w.apiDown = false }, 10 * time.Second})
	play(t, "scaled-in", 3, event{"one pod less is wanted",
		func(w *world) { w.wanted = w.wanted[:2]; w.pods = w.pods[:2] }, 10 * time.Second})
	play(t, "manual", 3,
		event{"failover is manual, and the primary does not come back",
			func(w *world) { w.mode = failover.Manual; breaks("a-0")(w) }, 30 * time.Second},
		event{"a person says that it is to hand over", func(w *world) { w.order, w.orderFrom = &failover.Order{}, "a-0" },
			5 * time.Second},
		event{"a person says that another pod is to take over", func(w *world) {
			w.order = &failover.Order{Way: failover.TakeOver, By: "failover-1"}
		}, 10 * time.Second})
	play(t, "taken-over", 3,
		event{"a person says that a-2 is to take over, whatever the primary says", func(w *world) {
			w.handover, w.order, w.orderFrom = failover.Declared,
				&failover.Order{To: "a-2", Way: failover.TakeOver, By: "failover-1"}, "a-0"
		}, 10 * time.Second})
	play(t, "switched-over", 3,
		event{"a person says that a-2 is to write", func(w *world) {
			w.handover, w.order, w.orderFrom = failover.Declared, &failover.Order{To: "a-2"}, "a-0"
		}, 10 * time.Second},
		event{"a person says that a pod is to write that is not there", func(w *world) {
			w.order, w.orderFrom = &failover.Order{To: "a-9"}, "a-2"
		}, 5 * time.Second})
	play(t, "operator-dies-midway", 3,
		event{"nobody reaches the primary any more", func(w *world) { w.find("a-0").cut = true }, 5 * time.Second},
		event{"another operator takes over, which knows nothing", func(w *world) { w.engines[0].memory = failover.Memory{} },
			15 * time.Second})
	play(t, "no-other-can-take-over", 2,
		event{"the follower breaks", breaks("a-1"), 5 * time.Second},
		event{"the primary breaks too", breaks("a-0"), 10 * time.Second},
		event{"the primary can run again", func(w *world) { w.find("a-0").breaks = false }, 10 * time.Second})
	play(t, "alone", 1,
		event{"neither API server nor operator are there, and the process is killed",
			func(w *world) { w.apiDown = true; kill("a-0")(w) }, 10 * time.Minute},
		event{"they are back", func(w *world) { w.apiDown = false }, 10 * time.Second},
		event{"two more pods are wanted", func(w *world) {
			for _, name := range []string{"a-1", "a-2"} {
				w.wanted, w.pods = append(w.wanted, name), append(w.pods, &pod{name: name})
				w.make(w.find(name))
			}
		}, 10 * time.Second},
		event{"the first one does not come back", breaks("a-0"), 10 * time.Second})
	play(t, "status-is-lost", 3, event{"the API server lost all records", func(w *world) {
		w.record, w.former, w.history, w.version = permission.Record{}, nil, nil, w.version+1
		w.named = map[int64]permission.Member{}
		w.engines[0].memory = failover.Memory{}
	}, 20 * time.Second})
}

// TestARestoredRecord: after the API server was restored from a backup the members know of a later term than the
// record. A term above theirs follows, whatever the record says, and never do two pods write meanwhile.
func TestARestoredRecord(t *testing.T) {
	for seed := range 40 {
		w := newWorld(t, 3, uint64(seed))
		w.run(15 * time.Second)
		backup := stored{w.record, w.former, w.version}
		for range 1 + seed%3 {
			primary := w.find(w.record.Primary.Name)
			primary.breaks = true
			w.run(6 * time.Second)
			primary.breaks = false
			w.run(time.Duration(w.random.IntN(12_000)) * time.Millisecond)
		}
		before := w.record.Term
		if before <= backup.record.Term {
			t.Fatalf("seed %d: nobody took over", seed)
		}
		w.note("--- the API server is restored")
		w.record, w.former, w.history, w.version = backup.record, backup.former, nil, w.version+1
		if seed%2 == 0 {
			w.engines[0].memory = failover.Memory{}
		}
		w.run(time.Minute)
		w.settled(seed)
		if w.record.Term <= before {
			w.failed("seed %d: term %d follows %d", seed, w.record.Term, before)
		}
	}
}

// TestFailoverIsQuick: what a fault costs, with agents that answer at once.
func TestFailoverIsQuick(t *testing.T) {
	for name, tc := range map[string]struct {
		fault func(w *world)
		limit time.Duration
	}{
		"the process is killed":       {func(w *world) { w.find("a-0").runs = false }, time.Second},
		"the process does not return": {func(w *world) { w.find("a-0").breaks = true }, 3 * time.Second},
		"the volume is lost":          {func(w *world) { replaced(w, "a-0") }, 10 * time.Second},
		"the node is cut off":         {func(w *world) { w.find("a-0").cut = true }, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 1)
			w.run(20 * time.Second)
			tc.fault(w)
			began := w.now
			w.step()
			for !slices.ContainsFunc(w.pods, func(p *pod) bool {
				return p.there && !p.cut && p.runs && p.isPrimary && p.labelled
			}) {
				if w.step(); w.now-began > tc.limit {
					w.failed("nobody writes after %s", w.now-began)
				}
			}
			t.Logf("nobody wrote for %s", w.now-began)
		})
	}
}
