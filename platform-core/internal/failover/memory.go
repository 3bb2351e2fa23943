// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
)

// Timeouts and intervals.
const (
	// maxAnswerAge is how long an answer or a measurement is valid.
	maxAnswerAge = 2 * time.Second
	// retryInterval is the time between two attempts of a failed call.
	retryInterval = time.Second
	// firstWriteTimeout is how long a new primary has until it writes for the first time in its term.
	firstWriteTimeout = 30 * time.Second
	// absenceTimeout after which a member that is not well is taken off the list.
	absenceTimeout = 30 * time.Second
	// pausePoll is the interval of checks whether the candidate has caught up with the paused primary.
	pausePoll = 100 * time.Millisecond
	// pauseFor is how long a plugin pauses a primary.
	pauseFor = 5 * time.Second
	// maxPause bounds a pause, from before the call until the decision to depose the primary. The rest of pauseFor is for
	// the write of the record.
	maxPause = 3 * time.Second
	// pauseReserve is the part of a pause that is reserved for telling the former primary the written record.
	pauseReserve = 500 * time.Millisecond
	// pauseAgain is the backoff after a failed handover; it grows by as much with each attempt.
	pauseAgain = 10 * time.Second
	// pastHistories is the number of former histories that are remembered.
	pastHistories = 16
	// proxyPeriod is the sync period of kube-proxy, by default. The primary label is removed that long before the next
	// primary gets it, if the change is planned: the second change would otherwise wait for the rest of the period.
	proxyPeriod = time.Second
	// labelLead is how long the primary label is removed before the pause. The rest of proxyPeriod passes until the new
	// primary writes.
	labelLead = 700 * time.Millisecond
	// maxUnlabelled bounds how long a candidate is without a role label before it gets the primary label.
	maxUnlabelled = 10 * time.Second
	// maxMisses is the number of unanswered calls after which another candidate is chosen.
	maxMisses = 3
)

// Memory is the in-memory state of a set between two decisions of one process. Losing it costs only time. The zero
// value is that of a process that has just started.
type Memory struct {
	// term and named are those of the record that the other fields belong to.
	term  int64
	named permission.Member
	// seenWriting says that the primary was seen to write in its term.
	seenWriting bool
	// downSince is when the primary went down, moved forward by the healthy periods since. wellSince is when it became
	// healthy again. Both are 0 for a primary that was not down recently.
	downSince, wellSince time.Duration
	// startingSince is when a primary began to start that was not seen down before; 0 if it does not start.
	startingSince time.Duration
	// absent is since when members are not in sync.
	absent map[permission.Member]time.Duration
	// history of the primary's data as last reported; that of the former primary while none is named.
	history string
	// past are the latest histories that primaries had before.
	past []string
	// answers of agents, and measurements, by pod.
	answers  map[string]Answer
	measures map[string]measured
	// failures counts the consecutive failed measurements by pod.
	failures map[string]int
	// told is when the record was last sent, and acknowledged which record the pod has confirmed, by pod.
	told         map[string]time.Duration
	acknowledged map[string]acknowledgedRecord
	// misses counts the consecutive unanswered calls by pod.
	misses map[string]int
	// deposal in progress, and since when there is no primary; 0 before. Measurements from before settled may be outdated.
	deposal *permission.Deposal
	settled time.Duration
	// ended is when the former primary was known to have ended; 0 before.
	ended time.Duration
	// labelRemovedAt is when the primary label was removed from a primary that may still write; 0 if it was not.
	labelRemovedAt time.Duration
	// candidate is the pod that a switchover hands over to, and unlabelledSince since when it is without its role label; 0
	// if it has it.
	candidate       string
	unlabelledSince time.Duration
	// pause of the primary.
	pause pause
	// caughtUp is the member that had all data of the primary when that was paused.
	caughtUp caughtUpMember
}

// caughtUpMember is a member that has all writes acknowledged before a term, provided that the former primary ended
// while it was paused.
type caughtUpMember struct {
	member permission.Member
	term   int64
	// until is the end of the pause.
	until time.Duration
}

// Answer is the outcome of a call to an agent.
type Answer struct {
	// At is when it arrived, or when the call was given up.
	At time.Duration
	// Member is the membership state in the answer.
	Member MemberState
	// Problem is why there is no answer.
	Problem string
	// Refusal says that the agent is alive but rejects the call, for example because of the certificate.
	Refusal Refusal
}

// Refusal says whether an agent rejected the call.
type Refusal string

// Values of Refusal.
const (
	NotRefused Refusal = ""
	Refused    Refusal = "Refused"
)

// Alive says whether the agent that was called is alive.
func (a Answer) Alive() bool { return a.Problem == "" || a.Refusal == Refused }

type measured struct {
	at time.Duration
	Measurement
}

type pause struct {
	attempt int
	// prepared is when the proxies were ready, or given up; 0 before.
	prepared time.Duration
	// began is when the call was decided, of the proxies or of the pause itself. held is since when the primary takes no
	// writes; 0 before.
	began, held time.Duration
	// failed is when the attempt failed, and why.
	failed  time.Duration
	problem string
}

// Answered records the outcome of a call.
func (m *Memory) Answered(pod string, a Answer) {
	if m.answers == nil {
		m.answers, m.misses = map[string]Answer{}, map[string]int{}
	}
	m.answers[pod] = a
	if m.misses[pod]++; a.Problem == "" {
		m.misses[pod] = 0
	}
}

// acknowledgedRecord is the record that a member has confirmed.
type acknowledgedRecord struct {
	identity string
	list     int64
}

// Told records the outcome of sending the record, with this version of its list.
func (m *Memory) Told(pod string, list int64, a Answer) {
	m.Answered(pod, a)
	if m.told == nil {
		m.told, m.acknowledged = map[string]time.Duration{}, map[string]acknowledgedRecord{}
	}
	m.told[pod] = a.At
	if a.Problem == "" {
		m.acknowledged[pod] = acknowledgedRecord{a.Member.Identity, list}
	}
}

// Measured records a measurement.
func (m *Memory) Measured(pod string, at time.Duration, result Measurement) {
	if m.measures == nil {
		m.measures, m.failures = map[string]measured{}, map[string]int{}
	}
	m.measures[pod] = measured{at, result}
	if m.failures[pod]++; result.Problem == "" {
		m.failures[pod] = 0
	}
}

// Prepared records that the proxies are ready for an attempt to pause the primary. The time of the pause begins.
func (m *Memory) Prepared(attempt int, at time.Duration) {
	if p := &m.pause; p.attempt == attempt && p.prepared == 0 {
		p.prepared, p.began = at, at
	}
}

// PauseOutcome is the outcome of the action that pauses the primary.
type PauseOutcome string

// Outcomes of a pause.
const (
	PauseRunning PauseOutcome = "Running"
	PauseHeld    PauseOutcome = "Held"
	PauseFailed  PauseOutcome = "Failed"
)

// Paused records the outcome of an attempt to pause the primary.
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
		m.restoreLabels()
	}
}

// restoreLabels lets the primary and the candidate have their labels again.
func (m *Memory) restoreLabels() { m.labelRemovedAt, m.candidate, m.unlabelledSince = 0, "", 0 }

// UnlabelledCandidate returns the pod that has to be without its role label because it is about to get the primary
// label: both change the endpoints of Services. It is empty for none; rest is how long this lasts at most.
func (m *Memory) UnlabelledCandidate(now time.Duration) (candidate string, rest time.Duration) {
	if rest = m.unlabelledSince + maxUnlabelled - now; m.unlabelledSince == 0 || rest <= 0 {
		return "", 0
	}
	return m.candidate, rest
}

// PrimaryLabelRemoved says whether the named primary has to be without its label, so that Services send it no new
// clients.
func (m *Memory) PrimaryLabelRemoved() bool { return m.labelRemovedAt != 0 }

// Wrote records that the API server has had this record since the answer at that time.
func (m *Memory) Wrote(r permission.Record, at time.Duration) {
	m.reset(r)
	if r.Primary == nil {
		if m.deposal == nil || m.deposal.Record.Term != r.Term {
			m.setDeposal(&permission.Deposal{Record: r, RecordedAt: at})
		}
	}
}

// setDeposal starts a deposal without answers; nil for none.
func (m *Memory) setDeposal(deposal *permission.Deposal) {
	m.deposal, m.settled, m.ended = deposal, 0, 0
}

// RecordCaughtUp records that a member has all writes acknowledged before a term: the record was written before the
// time until which the former primary was paused, with a reserve.
func (m *Memory) RecordCaughtUp(member permission.Member, term int64, until time.Duration) {
	m.caughtUp = caughtUpMember{member, term, until + pauseReserve}
}

// reset drops the state of an earlier record.
func (m *Memory) reset(r permission.Record) {
	var named permission.Member
	if r.Primary != nil {
		named = *r.Primary
		m.setDeposal(nil)
	}
	if m.term == r.Term && m.named == named {
		return
	}
	*m = Memory{term: r.Term, named: named, history: m.history, past: m.past, answers: m.answers, measures: m.measures,
		failures: m.failures, misses: m.misses, deposal: m.deposal, settled: m.settled, ended: m.ended,
		caughtUp: m.caughtUp, candidate: m.candidate, unlabelledSince: m.unlabelledSince}
}

// recordHistory stores the history that the primary reports.
func (m *Memory) recordHistory(history string) {
	if m.history != "" && m.history != history {
		m.past = append(m.past, m.history)
		m.past = m.past[max(0, len(m.past)-pastHistories):]
	}
	m.history = history
}

// later says whether data is of a history that the primary began after that of other data, but did not report: a
// restarted process begins one, and may end before it is asked. The histories of one primary follow one another. The
// pod with the more recent contact has the later one, unless it is known as a former one.
func (m *Memory) later(have, than Measurement) bool {
	return have.History != "" && have.History != than.History && have.History != m.history &&
		!slices.Contains(m.past, have.History) &&
		have.LastContact != nil && (than.LastContact == nil || *have.LastContact <= *than.LastContact)
}

// answer returns the answer of a pod, and whether it is recent enough.
func (m *Memory) answer(pod string, now time.Duration) (a Answer, counts bool) {
	a, found := m.answers[pod]
	return a, found && now-a.At < maxAnswerAge
}

// due says whether a call is due, or when it will be.
func due(last time.Duration, known bool, now, interval time.Duration) (at time.Duration, isDue bool) {
	if !known || now-last >= interval {
		return now, true
	}
	return last + interval, false
}

// maxPaceFactor bounds how much less often a pod that does not answer is called.
const maxPaceFactor = 10

// pace returns the interval of calls to a pod, with backoff while it does not answer.
func (m *Memory) pace(pod string, interval time.Duration) time.Duration {
	return interval * time.Duration(min(1+m.misses[pod], maxPaceFactor))
}
