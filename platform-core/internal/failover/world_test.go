// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/failover"
)

const (
	// tick is the grain of time.
	tick = 50 * time.Millisecond
	// copyTime is how long a pod without data needs for all of a primary's.
	copyTime = 3 * time.Second
)

// world is a set of pods with the real agents of package permission, an API server, and processes of the engine.
type world struct {
	*testing.T
	random  *rand.Rand
	now     time.Duration
	pods    []*pod
	wanted  []string
	record  permission.Record
	former  *permission.Member
	version int
	// history of records, for engines that read a cache.
	history []stored
	apiDown bool
	engines []*engine
	mode    failover.Mode
	// order to the pod orderFrom to hand over.
	order     *failover.Order
	orderFrom string
	// handover says whether the primary can be paused.
	handover failover.Handover
	measures failover.Measures
	maxLag   *int64
	// copies that others are to have of each write, and acked the last one that had as many.
	copies  failover.SynchronousReplicas
	acked   position
	log     []string
	named   map[int64]permission.Member
	volumes int
}

// position is how far data goes: of two branches the one that began in the later term goes on from all of the other
// that counts.
type position struct{ branch, data int64 }

func (a position) before(b position) bool {
	return a.branch < b.branch || a.branch == b.branch && a.data < b.data
}

type stored struct {
	record  permission.Record
	former  *permission.Member
	version int
}

// pod with its agent, its process and its volume.
type pod struct {
	name  string
	agent *permission.Agent
	self  permission.Member
	disk  permission.State
	// up says that the agent runs, there that the pod is.
	up, there bool
	// cut from everybody, and its node's machine frozen with it.
	cut   bool
	cutAt time.Duration
	// away is when it was last not to be reached.
	away time.Duration
	// breaks says that its process cannot run.
	breaks bool
	// runs, isPrimary and follows are of the process: whether it is up, as what, and whom it follows.
	runs, isPrimary bool
	follows         string
	primary         string
	starts          time.Duration
	nextRound       time.Duration
	asked           time.Duration
	labelled        bool
	paused          time.Duration
	// data that it has; full says that it ever had all of a primary's.
	data int64
	full bool
	// branch is the term in which the last of it was written, and parent the one that it goes on from.
	branch, parent int64
	copied         time.Duration
	// reported is what the annotation says, and due when the next look at it comes.
	reported failover.Pod
	due      time.Duration
}

// engine is a process of the operator.
type engine struct {
	*world
	name   string
	memory failover.Memory
	cut    bool
	// lag says that it may read an old record, but none before the newest that it saw.
	lag    bool
	newest int
	// away is when it last reached nobody.
	away time.Duration
}

func newWorld(t *testing.T, replicas int, seed uint64) *world {
	w := &world{T: t, random: rand.New(rand.NewPCG(seed, 7)), now: time.Hour, mode: failover.Auto,
		named: map[int64]permission.Member{}, measures: failover.ByAction}
	for i := range replicas {
		name := fmt.Sprintf("a-%d", i)
		w.wanted = append(w.wanted, name)
		w.pods = append(w.pods, &pod{name: name})
		w.make(w.pods[i])
	}
	w.engines = []*engine{{world: w, name: "engine"}}
	return w
}

// make gives a pod an empty volume and starts it.
func (w *world) make(p *pod) {
	w.volumes++
	*p = pod{name: p.name, self: permission.Member{Name: p.name, Identity: fmt.Sprintf("v%d", w.volumes)}}
	w.boot(p)
}

// boot starts the agent of a pod on what its volume has.
func (w *world) boot(p *pod) {
	p.agent, p.up, p.there, p.runs, p.primary = permission.NewAgent(p.self, p.disk), true, true, false, ""
	p.asked, p.due, p.reported = w.now, w.now, failover.Pod{}
	p.labelled = false
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *world) find(name string) *pod {
	i := slices.IndexFunc(w.pods, func(p *pod) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return w.pods[i]
}

func (w *world) failed(format string, args ...any) {
	w.Helper()
	for _, line := range w.log[max(0, len(w.log)-60):] {
		w.Log(line)
	}
	w.Fatalf("%s: %s", w.now-time.Hour, fmt.Sprintf(format, args...))
}

// step lets time pass by a tick.
func (w *world) step() {
	w.now += tick
	for _, p := range w.pods {
		if !p.cut {
			p.cutAt = w.now
		}
		if p.cut || !p.up || !p.there || !p.runs {
			p.away = w.now
		}
		if p.there && p.up {
			w.live(p)
		}
		w.report(p)
	}
	for _, e := range w.engines {
		if e.cut || w.apiDown {
			e.away = w.now
		}
		e.round()
	}
	w.acknowledge()
	w.check()
}

// acknowledge notes how far the primary's data goes that as many others have as it waits for.
func (w *world) acknowledge() {
	for _, p := range w.pods {
		list := p.agent.State().List
		if !p.there || !p.runs || !p.isPrimary || !p.agent.Valid(w.now) || list.SynchronousReplicas == 0 {
			continue
		}
		var have []int64
		for _, q := range w.pods {
			if q != p && list.Has(q.self) && q.there && q.runs && q.full && q.branch == p.branch {
				have = append(have, q.data)
			}
		}
		if slices.Sort(have); len(have) >= list.SynchronousReplicas {
			if reached := (position{p.branch, min(p.data, have[len(have)-list.SynchronousReplicas])}); w.acked.before(reached) {
				w.acked = reached
			}
		}
	}
}

// live is what the agent of a pod does by itself, in one go and in time.
func (w *world) live(p *pod) {
	if p.runs && p.isPrimary && !p.agent.Valid(w.now) {
		p.runs = false
	}
	if w.now >= p.nextRound {
		p.nextRound = w.now + 2*time.Second
		w.round(p)
	}
	w.reconcile(p)
	p.disk = p.agent.State()
	if p.runs && p.isPrimary && p.paused < w.now {
		if term := p.agent.State().Term; p.branch != term {
			p.branch, p.parent = term, p.branch
		}
		p.data++
		p.full = true
	}
	source := w.find(p.follows)
	sends := source != nil && source.there && source.runs && source.isPrimary && !source.cut
	if sends && p.runs && !p.isPrimary && !p.cut {
		// A pod without data copies all of it first.
		late := w.copies.Wanted > 0 && w.random.IntN(3) == 0
		if p.copied += tick; (p.full || p.copied >= copyTime) && !late {
			p.data, p.full, p.branch, p.parent = source.data, true, source.branch, source.parent
		}
	}
}

// round asks for acknowledgements, and the API server where they fail.
func (w *world) round(p *pod) {
	round := p.agent.Ask(w.now)
	if round != nil && len(round.Members) > 0 {
		for _, m := range slices.Clone(round.Members) {
			q := w.find(m.Name)
			if q == nil || !q.there || !q.up || q.cut || p.cut || q.self != m {
				continue
			}
			if round.Term > q.agent.State().Promised && !w.apiDown {
				q.agent.Read(w.now, w.record)
				w.learnt(q, w.record)
			}
			acknowledged, promised := q.agent.Acknowledge(round.Term)
			q.disk = q.agent.State()
			w.executeSwitchover(q)
			if acknowledged {
				q.asked = w.now
				p.agent.Acknowledged(round, m)
			} else {
				p.agent.Refused(promised)
			}
		}
	}
	unknown := p.primary == "" && !p.agent.Named()
	if (unknown || p.agent.Named() && !p.agent.Valid(w.now+permission.Validity-tick)) && !w.apiDown && !p.cut {
		p.agent.Read(w.now, w.record)
		w.learnt(p, w.record)
	}
	w.executeSwitchover(p)
}

// executeSwitchover ends the process of a primary that may not write any more, before anything else happens.
func (w *world) executeSwitchover(p *pod) {
	if p.runs && p.isPrimary && !p.agent.Valid(w.now) {
		p.runs = false
	}
}

func (w *world) learnt(p *pod, r permission.Record) {
	if r.Term < p.agent.State().Promised {
		return
	}
	p.agent.Learn(r)
	p.primary = ""
	if r.Primary != nil {
		p.primary = r.Primary.Name
	}
}

// reconcile starts the process, and has it be what it should be.
func (w *world) reconcile(p *pod) {
	named := p.agent.Named() && p.agent.Valid(w.now)
	switch {
	case p.breaks:
		p.runs = false
	case p.runs && !p.isPrimary && named:
		p.isPrimary = true // promoted
	case p.runs && !p.isPrimary && p.primary != "":
		p.follows = p.primary
	case !p.runs && p.starts == 0 && (named || p.leader() != ""):
		p.starts = w.now + 300*time.Millisecond
	case !p.runs && p.starts != 0 && w.now >= p.starts:
		p.starts = 0
		if named || p.leader() != "" {
			p.runs, p.isPrimary, p.follows = true, named, p.leader()
		}
	}
}

// leader is whom a pod follows: the primary, or while nobody knows one the last that it followed.
func (p *pod) leader() string {
	leader := p.primary
	if leader == "" {
		leader = p.follows
	}
	if leader == p.name {
		return ""
	}
	return leader
}

// report writes the annotation, some time after something changed, when the API server is there.
func (w *world) report(p *pod) {
	if !p.there || !p.up || p.cut || w.apiDown || w.now < p.due {
		return
	}
	state := p.agent.State()
	health := report.Unhealthy
	if p.runs {
		health = report.Healthy
	}
	sync := failover.OutOfSync
	if p.runs && !p.isPrimary && p.full {
		sync = failover.InSync
	}
	suspectsPrimary := !p.agent.Named() && p.primary != "" && w.now-p.asked > 3*time.Second && w.record.List.Has(p.self)
	next := failover.Pod{Name: p.name, Health: health, Sync: sync, SuspectsPrimary: suspectsPrimary,
		Member: w.known(p, state)}
	if w.copies.Wanted > 0 && p.runs && p.isPrimary {
		next.History = fmt.Sprint(p.branch)
	}
	if next != p.reported {
		p.reported = next
		p.due = w.now + tick*time.Duration(w.random.IntN(6))
	}
}

func (w *world) known(p *pod, state permission.State) failover.MemberState {
	return failover.MemberState{Identity: p.self.Identity, Promised: state.Promised, Term: state.Term,
		ListVersion: state.List.Version,
		Writing:     p.runs && p.isPrimary && p.agent.Valid(w.now), Primary: p.primary}
}

// check looks for two primaries.
func (w *world) check() {
	w.Helper()
	var primaries []string
	for _, p := range w.pods {
		if p.there && p.runs && p.isPrimary && p.agent.Valid(w.now) {
			primaries = append(primaries, p.name)
		}
	}
	if len(primaries) > 1 {
		w.failed("%v write at once", primaries)
	}
	labelled := 0
	for _, p := range w.pods {
		if p.there && p.labelled {
			labelled++
		}
	}
	if labelled > 1 {
		w.failed("%d pods have the primary label", labelled)
	}
}

// write stores a record if the version is the one that was seen.
func (w *world) write(e *engine, version int, s failover.Step) bool {
	if w.apiDown || e.cut || w.version != version {
		return false
	}
	before := w.record
	w.record, w.former = s.Record, s.Former
	w.version++
	w.history = append(w.history, stored{w.record, w.former, w.version})
	if s.Record.Term < before.Term {
		w.failed("term %d comes after %d", s.Record.Term, before.Term)
	}
	if named := s.Record.Primary; named != nil {
		if other, twice := w.named[s.Record.Term]; twice && other != *named {
			w.failed("term %d has two primaries, %s and %s", s.Record.Term, other.Name, named.Name)
		}
		w.judge(e, before, *named)
		w.named[s.Record.Term] = *named
	}
	return true
}

// judge says whether a pod that is named has anything to write on.
func (w *world) judge(e *engine, before permission.Record, named permission.Member) {
	p := w.find(named.Name)
	fresh := before.Term != 0 && (before.Primary == nil || *before.Primary != named)
	if fresh && p != nil && p.self == named && !p.full &&
		slices.ContainsFunc(w.pods, func(q *pod) bool { return q.full }) {
		w.failed("%s is named, which has no data", named.Name)
	}
	if w.copies.Wanted > 0 {
		if fresh && p != nil && (position{p.branch, p.data}).before(w.acked) {
			w.failed("%s is named with %d of term %d, and %d of term %d was acknowledged", named.Name, p.data, p.branch,
				w.acked.data, w.acked.branch)
		}
		return
	}
	for _, q := range w.pods {
		// What another one has that could be asked for a while must not be more.
		if fresh && p != nil && p.runs && q.there && q.up && !q.cut && q.runs && !q.breaks &&
			q.reported.Health == report.Healthy &&
			w.now-q.away > 12*time.Second && w.now-e.away > 12*time.Second && before.Eligible(q.self) && q.data > p.data {
			w.failed("%s is named with %d, and %s has %d", named.Name, p.data, q.name, q.data)
		}
	}
}
