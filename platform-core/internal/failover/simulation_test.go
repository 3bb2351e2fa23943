// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/internal/failover"
)

// TestHistories plays random faults to two engines at once, of which each may die, be cut off or read what is old:
// never do two pods write, never is a pod named that has no data, and once the faults are over one pod writes and all
// others are members.
func TestHistories(t *testing.T) {
	histories(t, func(*world, int) {}, func(*world, int) {})
}

// TestHistoriesWithCopies: whatever goes wrong, a write that as many others had as it waited for is never lost.
func TestHistoriesWithCopies(t *testing.T) {
	histories(t, func(w *world, seed int) {
		w.copies = failover.SynchronousReplicas{Wanted: 1 + seed/4%min(2, len(w.pods)-1),
			Shortage: []failover.Shortage{failover.Wait, failover.Continue}[seed/8%2]}
	}, func(w *world, seed int) {
		if w.acked == (position{}) || w.record.List.SynchronousReplicas != w.copies.Wanted {
			w.failed("seed %d: nothing is acknowledged by %d others: %+v", seed, w.copies.Wanted, w.record)
		}
	})
}

// histories plays one after the other, each in a world that was prepared, and checks what is left of it.
func histories(t *testing.T, prepare, check func(w *world, seed int)) {
	number := 150
	if testing.Short() {
		number = 20
	}
	for seed := range number {
		w := newWorld(t, 2+seed%4, uint64(seed))
		w.handover = []failover.Handover{failover.NoHandover, failover.Declared}[seed%2]
		w.engines = []*engine{{world: w, name: "one", lag: true}, {world: w, name: "two", lag: true}}
		prepare(w, seed)
		for range 3 * 60 * 20 {
			w.problem()
			w.step()
		}
		w.calm()
		w.run(2 * time.Minute)
		w.settled(seed)
		check(w, seed)
	}
}

// spares says whether the volume of a pod can go: all others have what was acknowledged.
func (w *world) spares(p *pod) bool {
	return !slices.ContainsFunc(w.pods, func(q *pod) bool {
		return q != p && !(q.full && q.there && w.record.Eligible(q.self)) || q != p && w.copies.Wanted > 0 &&
			(position{q.branch, q.data}).before(w.acked)
	})
}

// problem lets something go wrong, now and then.
func (w *world) problem() {
	p := w.pods[w.random.IntN(len(w.pods))]
	if w.random.IntN(60) != 0 {
		return
	}
	switch w.random.IntN(16) {
	case 0, 1:
		w.note("the process of %s is killed", p.name)
		p.runs = false
	case 2:
		w.note("%s breaks: %t", p.name, !p.breaks)
		p.breaks = !p.breaks
	case 3, 4:
		w.note("%s is cut off: %t", p.name, !p.cut)
		p.cut = !p.cut
	case 5:
		w.note("the container of %s is killed", p.name)
		p.up, p.runs = false, false
	case 6, 7:
		if p.there && !p.up {
			labelled := p.labelled
			w.boot(p)
			p.labelled = labelled
		}
	case 8:
		w.note("the pod %s is deleted", p.name)
		p.there, p.runs, p.labelled = false, false, false
	case 9, 10:
		if !p.there {
			w.boot(p)
		}
	case 11:
		// A volume is lost while the others are well: with all of them gone nothing is left to go on from.
		if w.spares(p) {
			w.note("%s loses its volume", p.name)
			w.make(p)
		}
	case 12:
		w.note("the API server is away: %t", !w.apiDown)
		w.apiDown = !w.apiDown
	case 13:
		e := w.engines[w.random.IntN(len(w.engines))]
		w.note("%s dies", e.name)
		e.memory = failover.Memory{}
	case 14:
		e := w.engines[w.random.IntN(len(w.engines))]
		w.note("%s is cut off: %t", e.name, !e.cut)
		e.cut = !e.cut
	case 15:
		ways := []failover.Way{failover.HandOver, failover.AsNeeded, failover.TakeOver}
		w.order = &failover.Order{To: []string{"", p.name}[w.random.IntN(2)], Way: ways[w.random.IntN(len(ways))]}
		w.orderFrom = w.pods[w.random.IntN(len(w.pods))].name
		w.note("%s is to hand over to %q", w.orderFrom, w.order.To)
	}
}

// calm ends all faults.
func (w *world) calm() {
	w.note("--- calm")
	w.apiDown = false
	for _, p := range w.pods {
		p.breaks, p.cut = false, false
		if !p.there || !p.up {
			labelled := p.labelled && p.there
			w.boot(p)
			p.labelled = labelled
		}
	}
	for _, e := range w.engines {
		e.cut = false
	}
}

func (w *world) settled(seed int) {
	w.Helper()
	r := w.record
	if r.Primary == nil || r.Previous != nil || len(r.List.Members) != len(w.pods) || w.order != nil && w.order.To == "" &&
		w.orderFrom == r.Primary.Name {
		w.failed("seed %d: the record is %+v, order %+v", seed, r, w.order)
	}
	p := w.find(r.Primary.Name)
	if !p.runs || !p.isPrimary || !p.labelled {
		w.failed("seed %d: %s does not write: %+v", seed, p.name, p)
	}
	for _, q := range w.pods {
		if q != p && (!q.runs || q.isPrimary || q.follows != p.name || q.labelled) {
			w.failed("seed %d: %s does not follow %s: %+v", seed, q.name, p.name, q)
		}
	}
}
