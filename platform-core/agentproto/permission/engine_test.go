// SPDX-License-Identifier: Apache-2.0

package permission_test

import (
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
)

// engine is one process of the operator. There are two, which both believe to lead.
type engine struct {
	*world
	name   string
	rate   float64
	offset time.Duration
	cut    bool
	// begun counts requests, to know answers that are no longer waited for.
	begun   int
	waiting bool
	// deposal under way, and the version of its record.
	deposal *permission.Deposal
	version int
	// silent is when the primary was first found not to run.
	silent time.Duration
	// asked counts how often the candidate was asked in vain.
	asked int
}

func (e *engine) clock() time.Duration {
	return e.offset + time.Duration(float64(e.now)*e.rate)
}

// call sends a request and takes its answer, or gives up after two seconds.
func (e *engine) call(broken func() bool, serve func() (answer func())) {
	e.begun++
	begun := e.begun
	e.waiting = true
	e.send(broken, func() {
		answer := serve()
		if answer == nil {
			return
		}
		e.send(broken, func() {
			if e.begun == begun {
				e.waiting = false
				answer()
			}
		})
	})
	e.after(2*time.Second, func() {
		if e.begun == begun {
			e.waiting = false
		}
	})
}

func (e *engine) unreachable() bool { return e.cut || e.api.down }

// write changes the record if it is still the one that was seen.
func (e *engine) write(version int, record permission.Record, done func(version int)) {
	e.call(e.unreachable, func() func() {
		if e.api.version != version && !e.flaws.anyVersion {
			return func() { e.deposal = nil }
		}
		e.api.version++
		e.api.record = record
		written := e.api.version
		e.note("%s writes term %d, primary %v, list %v, previous %v", e.name, record.Term, record.Primary, record.List,
			record.Previous)
		return func() { done(written) }
	})
}

func (e *engine) tick() {
	e.after(400*time.Millisecond, e.tick)
	switch {
	case e.waiting:
	case e.chance(0.01):
		// It dies, and another one takes over that knows nothing.
		e.deposal = nil
	case e.deposal != nil:
		e.depose()
	default:
		e.observe()
	}
}

// observe reads the record and decides what to do with it.
func (e *engine) observe() {
	e.call(e.unreachable, func() func() {
		record, version := e.api.record, e.api.version
		return func() { e.decide(record, version) }
	})
}

func (e *engine) decide(record permission.Record, version int) {
	switch {
	case record.Term == 0:
		if next, err := record.Bootstrap(e.members()); err == nil {
			e.write(version, next, func(int) {})
		}
	case record.Primary == nil:
		e.take(record, version)
	case e.chance(0.1) || e.dead(record):
		e.write(version, record.Depose(), func(written int) { e.take(record.Depose(), written) })
	case record.Previous != nil:
		e.confirm(record, version)
	case e.chance(0.2) || e.calm && !slices.Equal(record.List.Members, e.members()):
		members := e.members()
		if !e.calm && len(members) > 1 && e.chance(0.5) {
			i := e.random.IntN(len(members))
			members = slices.Delete(members, i, i+1)
		}
		if next, err := record.Change(members); err == nil {
			e.write(version, next, func(int) {})
		}
	}
}

// dead says, when faults are over, that the primary will not come by itself.
func (e *engine) dead(record permission.Record) bool {
	n := e.find(record.Primary.Name)
	if !e.calm || n.running {
		e.silent = 0
		return false
	}
	if e.silent == 0 {
		e.silent = e.now
	}
	return e.now-e.silent > 20*time.Second
}

func (e *engine) members() []permission.Member {
	var members []permission.Member
	for _, n := range e.nodes {
		members = append(members, n.self)
	}
	return members
}

// confirm asks the primary which list it goes by.
func (e *engine) confirm(record permission.Record, version int) {
	n := e.find(record.Primary.Name)
	broken := func() bool { return e.cut || n.cut }
	e.call(broken, func() func() {
		if !n.up || n.paused {
			return nil
		}
		state := n.disk
		return func() {
			next := record.Confirm(state.Term, state.List.Version)
			if next.Previous == nil {
				e.write(version, next, func(int) {})
			}
		}
	})
}

func (e *engine) take(record permission.Record, version int) {
	e.deposal = &permission.Deposal{Record: record, RecordedAt: e.clock()}
	e.version = version
	e.aim()
}

// aim lets go wrong what the protocol leans on just now: the primary hears of nothing.
func (e *engine) aim() {
	if last := e.lastPrimary(); last != nil && e.chance(0.8) {
		n := e.find(last.Name)
		if e.chance(0.5) {
			n.cutOff(e.between(5*time.Second, 25*time.Second))
		} else {
			n.apartFor(e.between(5*time.Second, 25*time.Second))
		}
	}
}

// trip ends a candidate right after its promise, sometimes.
func (e *engine) trip(candidate permission.Member) {
	n := e.find(candidate.Name)
	switch {
	case !n.up || !e.chance(0.8):
	case e.chance(0.5):
		n.crash()
	default:
		n.lose()
	}
}

func (e *engine) depose() {
	d := e.deposal
	if e.flaws.anyCandidate && d.Record.Previous != nil {
		d.Record.Previous = nil
	}
	switch step, _ := d.Next(e.clock() - e.flaws.wait); step {
	case permission.StepChoose:
		e.choose()
	case permission.StepPromise, permission.StepCheck:
		e.promise(step)
	case permission.StepWait:
		if e.chance(0.02) {
			// Another one looks better now.
			e.choose()
		}
		if e.chance(0.1) {
			e.ask(d)
		}
	case permission.StepName:
		if next, err := d.Record.Name(d.Candidate); err == nil {
			e.write(e.version, next, func(int) { e.deposal = nil })
		}
	}
}

func (e *engine) choose() {
	members := e.members()
	members = slices.DeleteFunc(members, func(m permission.Member) bool { return !e.deposal.Record.Eligible(m) })
	if len(members) == 0 {
		e.recover()
		return
	}
	d := e.deposal
	e.asked = 0
	e.deposal = &permission.Deposal{Record: d.Record, RecordedAt: d.RecordedAt, Stopped: d.Stopped,
		Candidate: members[e.random.IntN(len(members))]}
}

// recover goes on where no candidate is left, on proof that the primary is gone. Where all members are gone, a person
// brings the data back.
func (e *engine) recover() {
	record, last := e.deposal.Record, e.lastPrimary()
	alive := func(m permission.Member) bool { return slices.Contains(e.members(), m) }
	if last != nil && alive(*last) {
		return
	}
	next, err := record.Ended()
	if err == nil && !slices.ContainsFunc(next.List.Members, alive) {
		next = permission.Record{Term: record.Term + 1,
			List: permission.List{Version: record.List.Version + 1, Members: e.members()}}
	}
	e.write(e.version, next, func(written int) { e.take(next, written) })
}

func (e *engine) promise(step permission.Step) {
	d := e.deposal
	if e.asked++; e.asked > 3 {
		e.choose()
		return
	}
	e.request(d.Candidate, d.Record.Term, func(promised int64) {
		e.asked = 0
		switch {
		case e.deposal != d:
		case promised != d.Record.Term:
			e.deposal = nil
		case step == permission.StepPromise:
			d.PromisedAt = e.clock()
			e.after(e.between(0, 300*time.Millisecond), func() { e.trip(d.Candidate) })
		default:
			d.CheckedAt = e.clock() - e.flaws.wait
		}
	})
}

// ask has everybody who may have been the primary promise the term: when all did, none of them runs.
func (e *engine) ask(d *permission.Deposal) {
	n := e.nodes[e.random.IntN(len(e.nodes))]
	last := e.lastPrimary()
	if last == nil || n.self != *last {
		return
	}
	e.request(n.self, d.Record.Term, func(promised int64) {
		if e.deposal == d && promised == d.Record.Term {
			d.Stopped = true
		}
	})
}

// lastPrimary is who was named last, which the engine reads from its own history.
func (e *engine) lastPrimary() *permission.Member {
	for term := e.deposal.Record.Term - 1; term > 0; term-- {
		if m, ok := e.named[term]; ok {
			return &m
		}
	}
	return nil
}

func (e *engine) request(to permission.Member, term int64, done func(promised int64)) {
	n := e.find(to.Name)
	broken := func() bool { return e.cut || n.cut }
	e.call(broken, func() func() {
		if n.self != to || !n.up || n.paused {
			return nil
		}
		var promised int64
		n.do(func() { promised = n.agent.Promise(term) })
		return func() { done(promised) }
	})
}
