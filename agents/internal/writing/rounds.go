// SPDX-License-Identifier: Apache-2.0

package writing

import (
	"context"
	"sync"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

const (
	// Period of the rounds. A write lease outlives two failed rounds.
	Period = 2 * time.Second
	// roundTimeout bounds a round.
	roundTimeout = 1500 * time.Millisecond
	// answerTimeout is after how long an unanswered read request is repeated.
	answerTimeout = 4 * time.Second
	// maxReadPeriod bounds the backoff of reads while no primary is known.
	maxReadPeriod = 30 * time.Second
)

// readRequest is a request for a read of the record.
type readRequest struct {
	// id is the time of the request in nanoseconds. Answers to a previous agent have another id.
	id uint64
	// open says that there is no answer yet.
	open bool
	// failed is the error of the last read. The same error is not logged again.
	failed string
	// next is when the next request with backoff is due, and pause its current backoff.
	next, pause time.Duration
}

// run makes rounds until the context ends.
func (m *Member) run(ctx context.Context) {
	defer close(m.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-m.again:
		}
		begun := Boottime()
		timer.Reset(m.runOnce(ctx) - (Boottime() - begun))
	}
}

// triggerRound triggers the next round at once.
func (m *Member) triggerRound() {
	select {
	case m.again <- struct{}{}:
	default:
	}
}

// runOnce makes one round as the primary, or checks the primary as a replica. It returns the time from its start to the
// next one.
func (m *Member) runOnce(ctx context.Context) time.Duration {
	round, wait := m.beginRound()
	if round == nil {
		return wait
	}
	m.round(ctx, round)
	return wait
}

// beginRound checks the state, and starts a round if this member is the primary.
func (m *Member) beginRound() (*permission.Round, time.Duration) {
	defer m.lock()()
	now := Boottime()
	if m.storageError != nil {
		// State that is not on disk is not acted on.
		if err := m.persist(); err != nil {
			return nil, Period
		}
	}
	wait := Period
	if m.expectsRounds() {
		wait = min(wait, m.primaryContact.nextCheck(now)-now)
	} else {
		m.primaryContact.unreachable = false
	}
	round := m.agent.Ask(now)
	if round == nil && (!m.primaryContact.recordKnown || m.wanted(now).Role == Nothing) {
		m.requestReadWithBackoff(now)
	}
	// The only member of a list gets its lease with the round. A former lease may have expired.
	if err := m.persist(); err != nil {
		return nil, Period
	}
	return round, wait
}

// expectsRounds says whether the primary should ask this member for acknowledgements: it is in the list that it knows,
// or has been asked before in this term. New members are not told; the primary asks all that are in its own list.
func (m *Member) expectsRounds() bool {
	record, self := m.memberFile.Record, permission.Member{Name: m.Pod, Identity: m.memberFile.Identity}
	return record.Primary != nil && *record.Primary != self && record.Term == m.agent.State().Promised &&
		(record.List.Has(self) || m.primaryContact.term == record.Term)
}

// round asks all other members in parallel, and requests a read if some do not answer.
func (m *Member) round(ctx context.Context, round *permission.Round) {
	m.mu.Lock()
	members := append([]permission.Member(nil), round.Members...)
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	var calls sync.WaitGroup
	for _, member := range members {
		calls.Go(func() {
			answer, err := m.Peers.Acknowledge(ctx, member.Name, round.Term)
			if err != nil {
				m.Log.Debug("no acknowledgement", "pod", member.Name, "error", err.Error())
				return
			}
			m.answered(round, permission.Member{Name: member.Name, Identity: answer.GetIdentity()}, answer)
		})
	}
	calls.Wait()
	defer m.lock()()
	if len(round.Members) > 0 && !m.closed {
		m.requestRead(Boottime())
	}
}

func (m *Member) answered(round *permission.Round, from permission.Member, answer *agentv1.AcknowledgeResponse) {
	defer m.lock()()
	if answer.GetAcknowledged() && answer.GetPromised() == round.Term {
		m.agent.Acknowledged(round, from)
	} else {
		m.agent.Refused(answer.GetPromised())
	}
	// beginRound handles the storage error.
	_ = m.persist()
}

// requestReadWithBackoff requests a read, with backoff. It is called with the lock.
func (m *Member) requestReadWithBackoff(now time.Duration) {
	if now < m.readRequest.next {
		return
	}
	m.readRequest.pause = min(max(2*m.readRequest.pause, Period), maxReadPeriod)
	m.readRequest.next = now + m.readRequest.pause
	m.requestRead(now)
}

// requestRead requests a read, unless a request is pending. It is called with the lock.
func (m *Member) requestRead(now time.Duration) {
	if m.readRequest.open && now < time.Duration(m.readRequest.id)+answerTimeout {
		return
	}
	m.readRequest.id, m.readRequest.open = uint64(now), true
	m.reads.set(&agentv1.WantedRead{Id: m.readRequest.id, Set: m.Set})
}

// Reads returns the requested read, nil for none, and a channel that is closed on a change.
func (m *Member) Reads() (*agentv1.WantedRead, <-chan struct{}) { return m.reads.get() }

// AnswerRead applies the outcome of a consistent read that began after the request with the id.
func (m *Member) AnswerRead(id uint64, r permission.Record, failure string) error {
	return m.change(func() error {
		if !m.readRequest.open || id != m.readRequest.id {
			return nil
		}
		m.readRequest.open = false
		m.reads.set(nil)
		if failure != "" {
			if failure != m.readRequest.failed {
				m.Log.Warn("cannot read the record of the primary", "error", failure)
			}
			m.readRequest.failed = failure
			return nil
		}
		m.readRequest.failed = ""
		m.primaryContact.recordKnown = true
		if r.Term < m.agent.State().Promised {
			// A term is promised only after it is recorded: this read is stale, or nothing is recorded yet.
			return nil
		}
		m.agent.Read(time.Duration(id), r)
		m.remember(r)
		return nil
	})
}
