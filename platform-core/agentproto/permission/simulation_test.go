// SPDX-License-Identifier: Apache-2.0

package permission_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
)

// stormy is how long a simulated history has faults, and calm how long it has none afterwards.
const (
	stormy = 5 * time.Minute
	calm   = 2 * time.Minute
)

func simulate(seed uint64, flawed flaws) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 1)), flaws: flawed, named: map[int64]permission.Member{}}
	rate := func() float64 {
		spread := 0.12 + flawed.slow
		return 1 + (2*w.random.Float64()-1)*spread
	}
	for i := range 1 + w.random.IntN(3) {
		n := &node{world: w, rate: rate(), offset: w.between(0, time.Hour), up: true,
			self: permission.Member{Name: fmt.Sprintf("pod-%d", i), Identity: "0"}}
		n.agent = permission.NewAgent(n.self, permission.State{})
		w.nodes = append(w.nodes, n)
		w.after(w.between(0, time.Second), func() { n.tick(n.boots) })
	}
	var engines []*engine
	for _, name := range []string{"engine-a", "engine-b"} {
		e := &engine{world: w, name: name, rate: rate(), offset: time.Hour}
		engines = append(engines, e)
		w.after(w.between(0, time.Second), e.tick)
	}
	// Nodes that are not named hear of the record from the engine or by a read.
	for _, n := range w.nodes {
		w.after(time.Second, n.listen)
	}
	w.after(10*time.Second, func() { w.fault(engines) })
	w.run(stormy)
	w.calm, w.api.down = true, false
	for _, n := range w.nodes {
		n.cut, n.apart = false, false
	}
	for _, e := range engines {
		e.cut = false
	}
	w.run(stormy + calm)
	return w
}

// listen has a member look at the record every four seconds.
func (n *node) listen() {
	n.after(4*time.Second, n.listen)
	if n.up && !n.paused && !n.agent.Named() {
		n.do(n.read)
	}
}

// fault lets something go wrong, every few seconds.
func (w *world) fault(engines []*engine) {
	if w.calm {
		return
	}
	w.after(w.between(time.Second, 10*time.Second), func() { w.fault(engines) })
	n := w.nodes[w.random.IntN(len(w.nodes))]
	e := engines[w.random.IntN(len(engines))]
	length := w.between(time.Second, 25*time.Second)
	switch w.random.IntN(8) {
	case 0:
		n.cutOff(length)
	case 1:
		w.note("the API server is down")
		w.api.down = true
		w.after(length, func() { w.api.down = false })
	case 2:
		if n.up {
			n.crash()
		}
	case 3:
		if n.up && w.random.IntN(2) == 0 {
			n.lose()
		}
	case 4:
		if n.up && !n.paused {
			n.pause()
		}
	case 5:
		n.apartFor(length)
	case 6:
		e.cut = true
		w.after(length, func() { e.cut = false })
	}
}

func (w *world) tail() string { return strings.Join(w.log[max(0, len(w.log)-60):], "\n") }

// TestNeverTwoPrimaries runs histories with everything that the design names: lost, late, doubled and reordered
// messages, clocks that drift, machines that pause, agents that crash, disks that are lost, an API server that is away,
// two engines at once.
func TestNeverTwoPrimaries(t *testing.T) {
	t.Parallel()
	histories, terms, idle := uint64(200), 0, 0
	if testing.Short() {
		histories = 50
	}
	for seed := range histories {
		w := simulate(seed, flaws{})
		if w.violation != "" {
			t.Fatalf("seed %d: %s\n%s", seed, w.violation, w.tail())
		}
		terms += len(w.named)
		if !w.served() {
			idle++
			if w.couldServe() {
				t.Errorf("seed %d: nobody writes, minutes after the last fault\n%s", seed, w.tail())
			}
		}
	}
	if mean := float64(terms) / float64(histories); mean < 3 {
		t.Errorf("on average %.1f terms with a writer in a history: the simulation shows nothing", mean)
	}
	if idle > int(histories)/2 {
		t.Errorf("%d of %d histories ended without a writer", idle, histories)
	}
	t.Logf("%d histories of %s, %d terms with a writer, %d without one at the end", histories, stormy, terms, idle)
}

func (w *world) served() bool {
	for _, n := range w.nodes {
		if n.writes() {
			return true
		}
	}
	return false
}

// couldServe says whether a member is there that may be named: without one, a person has to decide.
func (w *world) couldServe() bool {
	for _, n := range w.nodes {
		if w.api.record.Eligible(n.self) {
			return true
		}
	}
	return false
}

// TestEachRuleIsNeeded breaks one rule at a time.
func TestEachRuleIsNeeded(t *testing.T) {
	t.Parallel()
	for name, flawed := range map[string]flaws{
		"the engine waits less":                          {wait: -7 * time.Second},
		"a permission counts from its receipt":           {fromReceipt: true},
		"a candidate that the writer has yet to hear of": {anyCandidate: true},
		"a record is overwritten unseen":                 {anyVersion: true},
		"clocks drift by more than the margin":           {slow: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3000) {
				if w := simulate(seed, flawed); w.violation != "" {
					t.Logf("seed %d: %s", seed, w.violation)
					return
				}
			}
			t.Error("nothing went wrong: the simulation does not see what the rule is for")
		})
	}
}
