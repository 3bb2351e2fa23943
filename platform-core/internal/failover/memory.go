// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
)

// Times that the planner goes by.
const (
	// fresh is how long an answer or a measurement counts.
	fresh = 2 * time.Second
	// again is how soon a call that failed is repeated.
	again = time.Second
	// patience with a writer that has yet to write for the first time in its term.
	patience = 30 * time.Second
	// absence after which a member that is not well is taken off the list.
	absence = 30 * time.Second
	// pausePoll is how soon to look again whether a candidate has all that the paused writer has.
	pausePoll = 100 * time.Millisecond
	// pauseFor is how long a plugin pauses a writer.
	pauseFor = 5 * time.Second
	// pausePatience bounds a pause from before it is asked for until it is decided to depose the writer: the rest is for
	// the write of the record.
	pausePatience = 3 * time.Second
	// pauseReserve is what is left of a pause for what the writer is told once the record is written.
	pauseReserve = 500 * time.Millisecond
	// pauseAgain is how soon a writer that did not hand over is paused again; each time later by as much.
	pauseAgain = 10 * time.Second
	// pastHistories are as many as are remembered.
	pastHistories = 16
	// proxyPeriod is how often kube-proxy changes at most where Services lead, all of them together, unless it is told
	// otherwise. The label of one writer goes that long before the next one has it, where that can be foreseen: it would
	// have to wait for the rest of the time.
	proxyPeriod = time.Second
	// shutFor is how long the label of a writer is off before it is paused: what is left of proxyPeriod goes by until the
	// next one writes.
	shutFor = 700 * time.Millisecond
	// sparedFor bounds how long an heir is without its own label, from when it goes until it has the writer's.
	sparedFor = 10 * time.Second
	// tries is how often a candidate is called in vain before another is chosen.
	tries = 3
)

// Memory is what one process of the engine remembers of a set between two decisions. Nothing is lost with it but time.
// The zero value is that of a process that has just begun.
type Memory struct {
	// term and named are of the record that the rest is about.
	term  int64
	named permission.Member
	// established says that the writer of the term was seen to write.
	established bool
	// down is since when the writer is seen to be down, but for the time in which it was back, and well since when it is
	// not down any more; both 0 for a writer that was not down of late.
	down, well time.Duration
	// starts is since when the writer comes up that was not seen to be down before; 0 while it does not.
	starts time.Duration
	// absent is since when members of the list are not well.
	absent map[permission.Member]time.Duration
	// history of the writer's data, as it reported it last; also that of the one before, while nobody writes.
	history string
	// past are the latest of those that writers had before.
	past []string
	// answers of agents, and measurements, by pod.
	answers  map[string]Answer
	measures map[string]measured
	// failures counts the measurements of a pod in a row that failed.
	failures map[string]int
	// told is when each pod was last told the record, and taught who took it in, by pod.
	told   map[string]time.Duration
	taught map[string]lesson
	// misses counts the calls in a row that a pod did not answer.
	misses map[string]int
	// deposal under way, and since when nobody writes any more; 0 before. What was measured before may have changed.
	deposal *permission.Deposal
	settled time.Duration
	// ended is when the writer before was known to have ended; 0 before.
	ended time.Duration
	// shut is since when Services lead to the writer no more although it may write, 0 while they do.
	shut time.Duration
	// heir is who is about to take over from a writer that hands over, and spared since when Services lead nobody to it; 0
	// while they do.
	heir   string
	spared time.Duration
	// pause of the writer.
	pause pause
	// vouched is who had all that the writer had, when that took no more writes.
	vouched vouched
}

// vouched is a member that has all that was acknowledged before a term, provided that the writer before ended while it
// was paused.
type vouched struct {
	member permission.Member
	term   int64
	// until is when the pause is over.
	until time.Duration
}

// Answer of an agent to a call.
type Answer struct {
	// At is when it came, or when it was given up.
	At time.Duration
	// Member is what it said.
	Member Known
	// Problem says why there is none.
	Problem string
	// Refusal says that the agent is there and will not answer, for example since it does not know our certificate.
	Refusal Refusal
}

// Refusal says whether an agent answered that it will not.
type Refusal string

// Values of Refusal.
const (
	NotRefused Refusal = ""
	Refused    Refusal = "Refused"
)

// Alive says whether whoever was called is there.
func (a Answer) Alive() bool { return a.Problem == "" || a.Refusal == Refused }

type measured struct {
	at time.Duration
	Measurement
}

type pause struct {
	attempt int
	// prepared is when what comes before it was done, or given up; 0 before.
	prepared time.Duration
	// began is when it was decided to ask the writer, or what comes before it, and held since when it takes no writes; 0
	// before.
	began, held time.Duration
	// failed is when the attempt failed, and why.
	failed  time.Duration
	problem string
}

// Answered takes note of what became of a call.
func (m *Memory) Answered(pod string, a Answer) {
	if m.answers == nil {
		m.answers, m.misses = map[string]Answer{}, map[string]int{}
	}
	m.answers[pod] = a
	if m.misses[pod]++; a.Problem == "" {
		m.misses[pod] = 0
	}
}

// lesson is what a member took in.
type lesson struct {
	identity string
	list     int64
}

// Told takes note of what became of telling a pod the record, of which the list had this version.
func (m *Memory) Told(pod string, list int64, a Answer) {
	m.Answered(pod, a)
	if m.told == nil {
		m.told, m.taught = map[string]time.Duration{}, map[string]lesson{}
	}
	m.told[pod] = a.At
	if a.Problem == "" {
		m.taught[pod] = lesson{a.Member.Identity, list}
	}
}

// Measured takes note of what a measurement gave.
func (m *Memory) Measured(pod string, at time.Duration, result Measurement) {
	if m.measures == nil {
		m.measures, m.failures = map[string]measured{}, map[string]int{}
	}
	m.measures[pod] = measured{at, result}
	if m.failures[pod]++; result.Problem == "" {
		m.failures[pod] = 0
	}
}

// Prepared takes note that what comes before an attempt to pause the writer is done. The time for the pause itself
// begins.
func (m *Memory) Prepared(attempt int, at time.Duration) {
	if p := &m.pause; p.attempt == attempt && p.prepared == 0 {
		p.prepared, p.began = at, at
	}
}

// PauseOutcome is what became of the action that pauses the writer.
type PauseOutcome string

// Outcomes of a pause.
const (
	PauseRunning PauseOutcome = "Running"
	PauseHeld    PauseOutcome = "Held"
	PauseFailed  PauseOutcome = "Failed"
)

// Paused takes note of how an attempt to pause the writer stands.
func (m *Memory) Paused(attempt int, at time.Duration, outcome PauseOutcome, problem string) {
	p := &m.pause
	if p.attempt != attempt {
		*p = pause{attempt: attempt, began: at}
	}
	switch outcome {
	case PauseHeld:
		p.held = at
	case PauseFailed:
		p.failed, p.problem = at, problem
		m.open()
	}
}

// open has Services lead to whom they would.
func (m *Memory) open() { m.shut, m.heir, m.spared = 0, "", 0 }

// Spared is the pod that is to be without the label that it has, as it is about to get the writer's: both are changes
// of where Services lead. It is empty for none; rest is how long it stays so at most.
func (m *Memory) Spared(now time.Duration) (heir string, rest time.Duration) {
	if rest = m.spared + sparedFor - now; m.spared == 0 || rest <= 0 {
		return "", 0
	}
	return m.heir, rest
}

// IsShut says whether the writer of the record is to be without its label, so that Services lead nobody to it who is
// not there yet.
func (m *Memory) IsShut() bool { return m.shut != 0 }

// Wrote takes note that the record is this one since the answer that came at a time.
func (m *Memory) Wrote(r permission.Record, at time.Duration) {
	m.begin(r)
	if r.Primary == nil {
		if m.deposal == nil || m.deposal.Record.Term != r.Term {
			m.attend(&permission.Deposal{Record: r, RecordedAt: at})
		}
	}
}

// attend begins with a deposal of which nothing is known yet; nil for none.
func (m *Memory) attend(deposal *permission.Deposal) { m.deposal, m.settled, m.ended = deposal, 0, 0 }

// Vouch takes note that a member has all that was acknowledged before a term: the record was written until a time at
// which the writer before took no writes, and takes none for a moment longer.
func (m *Memory) Vouch(member permission.Member, term int64, until time.Duration) {
	m.vouched = vouched{member, term, until + pauseReserve}
}

// begin forgets what is of an earlier record.
func (m *Memory) begin(r permission.Record) {
	var named permission.Member
	if r.Primary != nil {
		named = *r.Primary
		m.attend(nil)
	}
	if m.term == r.Term && m.named == named {
		return
	}
	*m = Memory{term: r.Term, named: named, history: m.history, past: m.past, answers: m.answers, measures: m.measures,
		failures: m.failures, misses: m.misses, deposal: m.deposal, settled: m.settled, ended: m.ended,
		vouched: m.vouched, heir: m.heir, spared: m.spared}
}

// wrote takes down which history a writer says that its data has.
func (m *Memory) wrote(history string) {
	if m.history != "" && m.history != history {
		m.past = append(m.past, m.history)
		m.past = m.past[max(0, len(m.past)-pastHistories):]
	}
	m.history = history
}

// later says whether what was measured is of a history that the writer began after the one that other data has,
// although it never came to say so: a process that is started again begins one, and may end before anybody asked. Those
// of one writer follow one another, so that who heard of it last has the later one, unless it is known to be an earlier
// one.
func (m *Memory) later(have, than Measurement) bool {
	return have.History != "" && have.History != than.History && have.History != m.history &&
		!slices.Contains(m.past, have.History) &&
		have.Silence != nil && (than.Silence == nil || *have.Silence <= *than.Silence)
}

// answer of a pod, when it is one that counts.
func (m *Memory) answer(pod string, now time.Duration) (a Answer, counts bool) {
	a, found := m.answers[pod]
	return a, found && now-a.At < fresh
}

// due says whether a call may be made now, or when.
func due(last time.Duration, known bool, now, interval time.Duration) (at time.Duration, isDue bool) {
	if !known || now-last >= interval {
		return now, true
	}
	return last + interval, false
}

// slowest is how much rarer calls become that a pod does not answer.
const slowest = 10

// pace is how soon a call is repeated: less and less often where nobody answers.
func (m *Memory) pace(pod string, interval time.Duration) time.Duration {
	return interval * time.Duration(min(1+m.misses[pod], slowest))
}
