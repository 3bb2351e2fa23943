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
	// Period of the rounds. A permission outlives two that fail.
	Period = 2 * time.Second
	// roundTimeout bounds a round.
	roundTimeout = 1500 * time.Millisecond
	// answerTimeout is how long a wish for a read stands before the next.
	answerTimeout = 4 * time.Second
	// maxReadPeriod bounds the time between reads while nobody is known to be named.
	maxReadPeriod = 30 * time.Second
)

// wish for a read of the record.
type wish struct {
	// id is the time at which the wish was published, in nanoseconds: an answer to an agent before this one is none to
	// this one.
	id uint64
	// open says that there is no answer yet.
	open bool
	// failed is the error of the last read, so that the same one is not told again.
	failed string
	// next is when the next one may be published that nobody is in a hurry for, and pause what it waits then.
	next, pause time.Duration
}

// run asks until the context ends.
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
		timer.Reset(m.pass(ctx) - (Boottime() - begun))
	}
}

// hurry has the next pass begin at once.
func (m *Member) hurry() {
	select {
	case m.again <- struct{}{}:
	default:
	}
}

// pass is one round of a writer, or a look of anybody else. It returns after how long the next one is due, from its
// begin.
func (m *Member) pass(ctx context.Context) time.Duration {
	round, wait := m.begin()
	if round == nil {
		return wait
	}
	m.round(ctx, round)
	return wait
}

// begin looks at how things are, and begins a round when the member is named.
func (m *Member) begin() (*permission.Round, time.Duration) {
	defer m.lock()()
	now := Boottime()
	if m.trouble != nil {
		// What is not on disk is not acted on.
		if err := m.settle(); err != nil {
			return nil, Period
		}
	}
	wait := Period
	if m.depends() {
		wait = min(wait, m.asked.look(now)-now)
	} else {
		m.asked.unreachable = false
	}
	round := m.agent.Ask(now)
	if round == nil && (!m.asked.heard || m.wanted(now).Role == Nothing) {
		m.wishAtLeisure(now)
	}
	// A sole member has its permission with the round, and a former one may have run out.
	if err := m.settle(); err != nil {
		return nil, Period
	}
	return round, wait
}

// depends says whether another member should ask this one: it is in the list that is known here, or the writer of this
// term has asked it before. Who joins a list is not told of that, since the writer asks all that are in its own.
func (m *Member) depends() bool {
	record, self := m.memory.Record, permission.Member{Name: m.Pod, Identity: m.memory.Identity}
	return record.Primary != nil && *record.Primary != self && record.Term == m.agent.State().Promised &&
		(record.List.Has(self) || m.asked.term == record.Term)
}

// round asks all others at once, and for a read where they do not all answer.
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
		m.wishNow(Boottime())
	}
}

func (m *Member) answered(round *permission.Round, from permission.Member, answer *agentv1.AcknowledgeResponse) {
	defer m.lock()()
	if answer.GetAcknowledged() && answer.GetPromised() == round.Term {
		m.agent.Acknowledged(round, from)
	} else {
		m.agent.Refused(answer.GetPromised())
	}
	// An error stays in m.trouble, which begin looks at.
	_ = m.settle()
}

// wishAtLeisure publishes a wish, less and less often. Called with the lock.
func (m *Member) wishAtLeisure(now time.Duration) {
	if now < m.wish.next {
		return
	}
	m.wish.pause = min(max(2*m.wish.pause, Period), maxReadPeriod)
	m.wish.next = now + m.wish.pause
	m.wishNow(now)
}

// wishNow publishes a wish, unless there is one that may still be answered. Called with the lock.
func (m *Member) wishNow(now time.Duration) {
	if m.wish.open && now < time.Duration(m.wish.id)+answerTimeout {
		return
	}
	m.wish.id, m.wish.open = uint64(now), true
	m.reads.set(&agentv1.WantedRead{Id: m.wish.id, Set: m.Set})
}

// Reads returns the read that is wanted, nil when none is, and a channel that is closed when there is another one.
func (m *Member) Reads() (*agentv1.WantedRead, <-chan struct{}) { return m.reads.get() }

// AnswerRead takes the outcome of a consistent read that began after the wish with the id was published.
func (m *Member) AnswerRead(id uint64, r permission.Record, failure string) error {
	return m.change(func() error {
		if !m.wish.open || id != m.wish.id {
			return nil
		}
		m.wish.open = false
		m.reads.set(nil)
		if failure != "" {
			if failure != m.wish.failed {
				m.Log.Warn("cannot read who may write", "error", failure)
			}
			m.wish.failed = failure
			return nil
		}
		m.wish.failed = ""
		m.asked.heard = true
		if r.Term < m.agent.State().Promised {
			// The engine has the next term promised before it is recorded only by a mistake; or nothing was recorded yet.
			return nil
		}
		m.agent.Read(time.Duration(id), r)
		m.remember(r)
		return nil
	})
}
