// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// heldBack bounds what a process that is killed leaves less than it had.
const heldBack = 40

// crash notes that the process of a writer has ended. It may have held something back, and does not write again in its term where others may have that.
func (w *world) crash(p *pod) {
	if !w.crashes || p.wrote == 0 || p.runs && p.writer {
		return
	}
	if len(w.record.List.Members) > 1 {
		p.forfeited = p.wrote
		p.data = max(0, p.data-int64(w.random.IntN(heldBack)))
	}
	p.wrote = 0
}

// sight is how far the data of a pod is, as a server tells that knows no more than what it has heard since it was started.
func (e *engine) sight(p *pod) failover.Measurement {
	if p.anew {
		return failover.Measurement{Order: 1, History: "new of " + p.name}
	}
	m := failover.Measurement{Order: p.data, History: fmt.Sprint(p.branch), Earlier: fmt.Sprint(p.parent)}
	if !p.writer {
		m.Silence = new(int64((e.now - p.heard) / time.Second))
	}
	return m
}

// TestStoriesOfCrashes: what becomes of a writer that died and may have left less than others have.
func TestStoriesOfCrashes(t *testing.T) {
	crashes := event{"a process that is killed may leave less than it had", func(w *world) { w.crashes = true }, 5 * time.Second}
	kill := func(names ...string) func(*world) {
		return func(w *world) {
			for _, name := range names {
				w.find(name).runs = false
			}
		}
	}
	play(t, "writer-dies", 3, crashes,
		event{"the process of the writer is killed", kill("a-0"), 10 * time.Second},
		event{"and that of the next one", func(w *world) { kill(w.record.Primary.Name)(w) }, 10 * time.Second})
	play(t, "writer-and-follower-die", 3, crashes, event{"the processes of the writer and of a follower are killed", kill("a-0", "a-1"), 10 * time.Second})
	play(t, "all-die", 3, crashes,
		event{"all processes are killed", kill("a-0", "a-1", "a-2"), 10 * time.Second},
		event{"and soon again", kill("a-0", "a-1", "a-2"), 40 * time.Second})
	play(t, "writer-dies-and-the-follower-is-away", 2, crashes,
		event{"the follower breaks, and the process of the writer is killed", func(w *world) { w.find("a-1").breaks = true; kill("a-0")(w) }, 20 * time.Second},
		event{"the follower can run again", func(w *world) { w.find("a-1").breaks = false }, 10 * time.Second})
	play(t, "writer-dies-and-the-follower-stays-away", 2, crashes,
		event{"the follower breaks, and the process of the writer is killed", func(w *world) { w.find("a-1").breaks = true; kill("a-0")(w) }, time.Minute})
	play(t, "writer-dies-without-an-engine", 3, crashes,
		event{"the operator is away, and the process of the writer is killed", func(w *world) { w.engines[0].cut = true; kill("a-0")(w) }, 5 * time.Minute},
		event{"another operator takes over, which knows nothing", func(w *world) { w.engines[0].cut = false; w.engines[0].memory = failover.Memory{} }, 10 * time.Second})
	play(t, "sole-writer-dies", 1, crashes, event{"the process is killed", kill("a-0"), 10 * time.Second})
	play(t, "writer-dies-while-one-pod-is-wanted", 2, crashes,
		event{"one pod less is wanted, and the process of the writer is killed", func(w *world) {
			w.wanted, w.pods = w.wanted[:1], w.pods[:1]
			kill("a-0")(w)
		}, 10 * time.Second})
	play(t, "writer-dies-manual", 3, crashes,
		event{"failover is manual, and the process of the writer is killed", func(w *world) { w.mode = failover.Manual; kill("a-0")(w) }, 30 * time.Second},
		event{"a person says that another pod is to take over", func(w *world) {
			w.order, w.orderFrom = &failover.Order{Way: failover.TakeOver, By: "failover-1"}, "a-0"
		}, 10 * time.Second})
}

// TestHistoriesAfterCrashes: of writers that are killed again and again, each of which leaves less than it had, no write is lost that another member had,
// as long as not two members fail at once; whatever becomes of API server and operators meanwhile.
func TestHistoriesAfterCrashes(t *testing.T) {
	histories := 100
	if testing.Short() {
		histories = 20
	}
	for seed := range histories {
		w := newWorld(t, 2+seed%3, uint64(seed))
		w.crashes, w.waits = true, 1
		w.engines = []*engine{{world: w, name: "one", lag: true}, {world: w, name: "two", lag: true}}
		w.run(20 * time.Second)
		faults := 0
		for range 4 * 60 * 20 {
			if w.stands() && w.random.IntN(20) == 0 {
				faults++
				w.hit()
			}
			w.mishap()
			w.step()
		}
		w.calm()
		w.run(2 * time.Minute)
		w.settled(seed)
		if faults < 5 || w.acked.data == 0 || w.record.Term < 5 {
			w.failed("seed %d: %d faults, term %d, %d acknowledged", seed, faults, w.record.Term, w.acked.data)
		}
		if p := w.find(w.record.Primary.Name); (position{p.branch, p.data}).before(w.acked) {
			w.failed("seed %d: %s has %d of term %d, and %d of term %d was acknowledged", seed, p.name, p.data, p.branch, w.acked.data, w.acked.branch)
		}
	}
}

// stands says whether all pods are members and well.
func (w *world) stands() bool {
	r := w.record
	return r.Primary != nil && r.Previous == nil && len(r.List.Members) == len(w.pods) && !slices.ContainsFunc(w.pods, func(p *pod) bool {
		return !p.there || !p.up || !p.runs || p.anew || p.cut || p.writer != (p.name == r.Primary.Name) || p.reported.Health != report.Healthy
	})
}

// hit has one process die, most often that of the writer, or all that runs in its pod.
func (w *world) hit() {
	p := w.find(w.record.Primary.Name)
	if w.random.IntN(4) == 0 {
		p = w.pods[w.random.IntN(len(w.pods))]
	}
	w.note("the process of %s is killed", p.name)
	p.runs = false
	if w.random.IntN(3) == 0 {
		w.note("and its container")
		w.crash(p)
		w.boot(p)
	}
}

// mishap lets something go wrong that is no member, now and then.
func (w *world) mishap() {
	switch w.random.IntN(800) {
	case 0:
		w.apiDown = !w.apiDown
		w.note("the API server is away: %t", w.apiDown)
	case 1, 2:
		w.apiDown = false
	case 3:
		e := w.engines[w.random.IntN(len(w.engines))]
		w.note("%s dies", e.name)
		e.memory = failover.Memory{}
	case 4:
		e := w.engines[w.random.IntN(len(w.engines))]
		e.cut = !e.cut
		w.note("%s is cut off: %t", e.name, e.cut)
	}
}

// dead is the trio whose writer died, with these measurements of the two others.
func dead(one, two failover.Measurement) failover.Facts {
	f := trio()
	f.Pods[0].Health, f.Pods[0].Member.Writing, f.Pods[0].Member.Forfeited = report.Unhealthy, false, 5
	f.Pods[1].Measurement, f.Pods[2].Measurement = one, two
	return f
}

// chosenAfter plays the trio on until another is named, and returns who that is, after how long, and what was said last before.
func chosenAfter(t *testing.T, f failover.Facts, m *failover.Memory, limit time.Duration) (name string, took time.Duration, said string) {
	t.Helper()
	for began := f.Now; f.Now-began < limit; f.Now += 100 * time.Millisecond {
		d := failover.Plan(f, m)
		said = d.Message
		for _, s := range d.Steps {
			switch {
			case s.Action == failover.Write && s.Record.Primary != nil:
				return s.Record.Primary.Name, f.Now - began, said
			case s.Action == failover.Write:
				f.Record, f.Former = s.Record, s.Former
				m.Wrote(f.Record, f.Now)
			case s.Action == failover.Promise || s.Action == failover.Ask:
				m.Answered(s.Pod, failover.Answer{At: f.Now, Member: failover.Known{Identity: f.Pods[s.Pod[2]-'0'].Member.Identity, Promised: f.Record.Term}})
			}
		}
	}
	return "", limit, said
}

// TestWhoFollowsAWriterThatDied: those that went on come first, then the writer itself, then those that began anew.
func TestWhoFollowsAWriterThatDied(t *testing.T) {
	on := func(order int64) failover.Measurement {
		return failover.Measurement{Order: order, History: "x", Silence: new(int64(1))}
	}
	anew := failover.Measurement{Order: 1, History: "of its own"}
	ahead := failover.Measurement{Order: 1 << 40, History: "of its own"}
	for name, tc := range map[string]struct {
		one, two failover.Measurement
		knows    string
		change   func(f *failover.Facts)
		want     string
		least    time.Duration
	}{
		"both went on":                           {one: on(110), two: on(120), knows: "x", want: "a-2"},
		"both went on, nobody knows of it":       {one: on(110), two: on(120), want: "a-2"},
		"one went on":                            {one: anew, two: on(1), knows: "x", want: "a-2"},
		"one went on, the other counts higher":   {one: ahead, two: on(1), knows: "x", want: "a-2"},
		"one went on, and nobody knows of it":    {one: ahead, two: on(1), want: "a-2"},
		"all began anew":                         {one: anew, two: ahead, knows: "x", want: "a-0"},
		"all began anew, and nobody knows of it": {one: anew, two: ahead, want: "a-0"},
		"one is of an earlier stream":            {one: anew, two: failover.Measurement{Order: 900, History: "w", Silence: new(int64(1))}, knows: "w x", want: "a-0"},
		"one began anew, the other is away": {one: anew, two: on(120), knows: "x", want: "a-0", least: 30 * time.Second, change: func(f *failover.Facts) {
			f.Pods[2].Health = report.Unhealthy
		}},
		"one is away, the other went on": {one: on(110), two: on(120), knows: "x", want: "a-1", change: func(f *failover.Facts) { f.Pods[2].Health = report.Unhealthy }},
		"both are away": {one: on(1), two: on(2), knows: "x", want: "a-0", least: 30 * time.Second, change: func(f *failover.Facts) {
			f.Pods[1].Presence, f.Pods = failover.Unreachable, f.Pods[:2]
		}},
		"the others have other volumes": {one: on(1), two: on(2), knows: "x", want: "a-0", change: func(f *failover.Facts) {
			f.Pods[1].Member.Identity, f.Pods[2].Member.Identity = "empty", "empty too"
		}},
		"writes wait for copies, and one that may have them is away": {one: anew, two: on(1), knows: "x", want: "", change: func(f *failover.Facts) {
			f.Copies, f.Record.List.Copies, f.Pods[2].Health = failover.Copies{Wanted: 1}, 1, report.Unhealthy
		}},
		"the process died in a term before": {one: on(110), two: on(120), knows: "x", want: "", change: func(f *failover.Facts) {
			f.Pods[0].Member.Forfeited, f.Pods[0].Member.Writing, f.Pods[0].Health = 4, true, report.Healthy
		}},
		"failover is manual": {one: on(110), two: on(120), knows: "x", want: "", change: func(f *failover.Facts) { f.Mode = failover.Manual }},
	} {
		t.Run(name, func(t *testing.T) {
			var m failover.Memory
			for history := range strings.FieldsSeq(tc.knows) {
				well := trio()
				well.Pods[0].History = history
				failover.Plan(well, &m)
			}
			f := dead(tc.one, tc.two)
			if tc.change != nil {
				tc.change(&f)
			}
			got, took, said := chosenAfter(t, f, &m, 2*time.Minute)
			if got != tc.want || got != "" && (took < tc.least || took > tc.least+2*time.Second) {
				t.Errorf("after %s %q is named, want %q after %s; it says %q", took, got, tc.want, tc.least, said)
			}
		})
	}
}

// TestALossThatIsAcceptedIsNotWaitedFor: who says so goes on with what is there.
func TestALossThatIsAcceptedIsNotWaitedFor(t *testing.T) {
	f := dead(failover.Measurement{Order: 1, History: "of its own"}, failover.Measurement{})
	f.Pods[2].Health = report.Unhealthy
	f.Order = &failover.Order{Way: failover.TakeOver, Loss: failover.Accepted, By: "failover-1"}
	if got, took, said := chosenAfter(t, f, &failover.Memory{}, time.Minute); got != "a-1" || took > 2*time.Second {
		t.Errorf("after %s %q is named; it says %q", took, got, said)
	}
}

// TestALaterTermOfAWriterThatDied: after the record was lost, who died in the last term is not named before the others were compared.
func TestALaterTermOfAWriterThatDied(t *testing.T) {
	f := dead(failover.Measurement{}, failover.Measurement{})
	f.Record.Term = 3
	step := failover.Plan(f, &failover.Memory{}).Steps[0]
	if step.Action != failover.Write || step.Record.Primary != nil || step.Former == nil || step.Former.Name != "a-0" {
		t.Errorf("it does %v, former %v", step, step.Former)
	}
}
