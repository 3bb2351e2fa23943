// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// round observes, plans and acts until there is nothing to do now.
func (e *engine) round() {
	if e.cut || e.apiDown {
		return
	}
	for range 12 {
		seen := stored{e.record, e.former, e.version}
		if n := len(e.history); e.lag && n > 1 && e.random.IntN(4) == 0 && e.history[n-2].version >= e.newest {
			seen = e.history[n-2]
		}
		e.newest = seen.version
		d := failover.Plan(e.facts(seen), &e.memory)
		e.labels(seen)
		if len(d.Steps) == 0 {
			return
		}
		for _, s := range d.Steps {
			if !e.take(seen, s) {
				return
			}
		}
	}
	e.failed("%s does not come to an end: %v", e.name, e.log[max(0, len(e.log)-12):])
}

func (e *engine) facts(seen stored) failover.Facts {
	f := failover.Facts{Now: e.now, Record: seen.record, Former: seen.former, Mode: e.mode, After: 2 * time.Second,
		MaxLag: e.maxLag, Order: e.ordered(seen),
		Measures: e.measures, Handover: e.handover, Wanted: e.wanted, SynchronousReplicas: e.copies}
	for _, p := range e.pods {
		if !p.there {
			continue
		}
		known := p.reported
		known.Name, known.Presence, known.HasPrimaryLabel = p.name, failover.Alive, p.labelled
		if p.cut && e.now-p.cutAt > 40*time.Second {
			known.Presence = failover.Unreachable
		}
		f.Pods = append(f.Pods, known)
	}
	return f
}

// labels gives the primary label, as the rollout does.
func (e *engine) labels(seen stored) {
	for _, p := range e.pods {
		if p.labelled && e.memory.PrimaryLabelRemoved() {
			p.labelled = false
			return
		}
		if p.labelled && (seen.record.Primary == nil || p.name != seen.record.Primary.Name) {
			p.labelled = false
			return
		}
	}
	held := slices.ContainsFunc(e.pods, func(p *pod) bool { return p.there && p.labelled })
	if seen.record.Primary == nil || held || e.memory.PrimaryLabelRemoved() {
		return
	}
	if p := e.find(seen.record.Primary.Name); p != nil && p.there && p.reported.Member.Writing &&
		p.reported.Health == report.Healthy {
		p.labelled = true
	}
}

// take carries out a step; false ends the round.
func (e *engine) take(seen stored, s failover.Step) bool {
	e.note("%s", s)
	switch s.Action {
	case failover.Write:
		if p := e.find(s.Unlabel); p != nil {
			p.labelled = false
		}
		if !e.write(e, seen.version, s) {
			return false
		}
		e.memory.Wrote(s.Record, e.now)
		if s.CaughtUp != nil {
			e.memory.RecordCaughtUp(*s.CaughtUp, s.Record.Term, s.Until)
		}
		e.newest = e.version
		return true
	case failover.Pause:
		outcome, problem := failover.PauseFailed, "it does not answer"
		if p := e.find(s.Pod); e.reaches(p) && p.runs {
			outcome, problem = failover.PauseHeld, ""
			p.paused = e.now + 5*time.Second
		}
		e.memory.Paused(s.Attempt, e.now, outcome, problem)
		return true
	case failover.Measure:
		m := failover.Measurement{Problem: "it does not answer"}
		if p := e.find(s.Pod); e.reaches(p) && p.runs {
			m = failover.Measurement{Order: p.data}
			if e.copies.Wanted > 0 {
				m.History, m.Earlier = fmt.Sprint(p.branch), fmt.Sprint(p.parent)
			}
		}
		e.memory.Measured(s.Pod, e.now, m)
		return true
	}
	answer := e.ask(seen, s)
	if s.Action == failover.Tell {
		e.memory.Told(s.Pod, seen.record.List.Version, answer)
	} else {
		e.memory.Answered(s.Pod, answer)
	}
	return true
}

func (e *engine) reaches(p *pod) bool { return p != nil && p.there && p.up && !p.cut && !e.cut }

func (e *engine) ask(seen stored, s failover.Step) failover.Answer {
	p := e.find(s.Pod)
	if !e.reaches(p) {
		return failover.Answer{At: e.now, Problem: "it does not answer"}
	}
	switch s.Action {
	case failover.Promise:
		if seen.record.Term < p.agent.State().Promised {
			return failover.Answer{At: e.now, Problem: "it has promised a higher term"}
		}
		p.agent.Promise(seen.record.Term)
		p.primary = ""
	case failover.Tell:
		if seen.record.Term < p.agent.State().Promised {
			return failover.Answer{At: e.now, Problem: "it has promised a higher term"}
		}
		e.learnt(p, seen.record)
		p.nextRound = e.now
	}
	p.disk = p.agent.State()
	e.executeSwitchover(p)
	return failover.Answer{At: e.now, Member: e.known(p, p.disk)}
}

// ordered is the order, as long as it is about the pod that writes, or wrote until now.
func (e *engine) ordered(seen stored) *failover.Order {
	primary := seen.record.Primary
	if primary == nil {
		primary = seen.former
	}
	if e.order == nil || primary == nil || primary.Name != e.orderFrom {
		return nil
	}
	return e.order
}
