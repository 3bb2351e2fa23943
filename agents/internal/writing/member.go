// SPDX-License-Identifier: Apache-2.0

package writing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// Errors of a Member, beside ErrMemory and ErrNoPermission.
var (
	// ErrStale says that a call comes from before what was promised.
	ErrStale = errors.New("the term is lower than the one that was promised")
	// ErrNotPeer says that a pod asks for an acknowledgement that has no part in the set.
	ErrNotPeer = errors.New("the pod may not ask this member")
	// ErrInvalid says that a call makes no sense whenever it is made.
	ErrInvalid = errors.New("invalid call")
	// ErrClosed says that the agent ends, or that its pod has no member any more.
	ErrClosed = errors.New("the member is closed")
)

// Config of a Member. All fields but StartSentinel are required.
type Config struct {
	// Pod is the own name.
	Pod string
	// Set is the name of the WorkloadSet; its pods are called Set-N.
	Set string
	// Dir is the folder with the data, whose lock the caller holds until the Member is closed.
	Dir string
	// Peers are asked for their acknowledgement.
	Peers Peers
	// StartSentinel has a Sentinel beside the Guard; nil for none, where this program is not PID 1.
	StartSentinel StartSentinel
	// Log of the member.
	Log *slog.Logger
}

// Peers are the agents of the other pods of the set.
type Peers interface {
	// Acknowledge asks the agent of a pod. The context has a deadline.
	Acknowledge(ctx context.Context, pod string, term int64) (*agentv1.AcknowledgeResponse, error)
	// Close gives back what the connections take.
	Close()
}

// Member is the part of one pod in who may write. It is safe for concurrent use.
type Member struct {
	Config
	guard *Guard
	begun time.Duration
	end   context.CancelFunc
	ended chan struct{}
	// again has the next round begin at once.
	again chan struct{}
	view  broadcast[View]
	reads broadcast[*agentv1.WantedRead]

	mu     sync.Mutex
	agent  *permission.Agent
	memory memory
	// kept is what is on disk.
	kept memory
	// trouble says why that is not the same; nil while it is.
	trouble error
	closed  bool
	asked   asked
	wish    wish
	// doing says what the process manager has to say of an action.
	doing string
	// goesBy is the version of the list that the process goes by; nil where it knows of none.
	goesBy *int64
}

// Open takes up what the folder says, and begins to ask. A folder that says something that cannot be read is an error
// (ErrMemory), never begun anew.
func Open(c Config) (*Member, error) {
	found, err := recall(c.Dir)
	if err != nil {
		return nil, err
	}
	var sentinel *Sentinel
	if c.StartSentinel != nil {
		if sentinel, err = NewSentinel(c.StartSentinel, c.Log); err != nil {
			return nil, err
		}
	}
	guard, err := NewGuard(sentinel, c.Log)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	self := permission.Member{Name: c.Pod, Identity: found.Identity}
	m := &Member{Config: c, guard: guard, begun: Boottime(), end: end, ended: make(chan struct{}),
		again: make(chan struct{}, 1),
		agent: permission.NewAgent(self, found.State), memory: found, kept: found, asked: asked{since: Boottime()}}
	c.Log.Info("member of the set", "identity", found.Identity, "promised", found.State.Promised, "term", found.State.Term)
	m.mu.Lock()
	m.publish()
	m.mu.Unlock()
	m.reads.set(nil)
	go m.run(ctx)
	return m, nil
}

// Close ends the member: a writer is killed, and nothing is answered any more.
func (m *Member) Close() {
	m.end()
	<-m.ended
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.guard.Close()
	m.Peers.Close()
}

// Guard of the process.
func (m *Member) Guard() *Guard { return m.guard }

// Acknowledge answers a pod that asks for the acknowledgement of its term.
func (m *Member) Acknowledge(ctx context.Context, pod string, term int64) (*agentv1.AcknowledgeResponse, error) {
	answer, err := m.acknowledge(pod, term)
	if err != nil {
		return nil, err
	}
	// Where the own process was the writer until now, it is gone before another is told that it may write.
	return answer, m.guard.AwaitEnd(ctx)
}

func (m *Member) acknowledge(pod string, term int64) (*agentv1.AcknowledgeResponse, error) {
	defer m.lock()()
	if m.closed {
		return nil, ErrClosed
	}
	if err := m.admits(pod, term); err != nil {
		return nil, err
	}
	acknowledged, promised := m.agent.Acknowledge(term)
	switch now := Boottime(); {
	case acknowledged:
		m.asked.by(term, now)
	case term > promised && now >= time.Duration(m.wish.id)+Period:
		// The record says whether there is such a term. However often that is asked, it is not read more often.
		m.wishNow(now)
	}
	if err := m.settle(); err != nil {
		return nil, err
	}
	return &agentv1.AcknowledgeResponse{Acknowledged: acknowledged, Promised: promised, Identity: m.memory.Identity}, nil
}

// admits refuses a pod that cannot be the writer of the term, as far as that is known here. Where the record is not
// known yet, the name has to be that of a pod of the set.
func (m *Member) admits(pod string, term int64) error {
	if term <= 0 {
		return fmt.Errorf("%w: term %d", ErrInvalid, term)
	}
	digits, ofSet := strings.CutPrefix(pod, m.Set+"-")
	if ordinal, err := strconv.ParseUint(digits, 10, 31); !ofSet || err != nil ||
		strconv.FormatUint(ordinal, 10) != digits || pod == m.Pod {
		return fmt.Errorf("%w: %q is no other pod of the set %q", ErrNotPeer, pod, m.Set)
	}
	record := m.memory.Record
	switch {
	case record.Term != term:
	case record.Primary != nil && record.Primary.Name != pod:
		return fmt.Errorf("%w: %q is not named in term %d", ErrNotPeer, pod, term)
	case record.Primary == nil && !names(record, pod):
		return fmt.Errorf("%w: %q is in no list of term %d", ErrNotPeer, pod, term)
	}
	return nil
}

// Promise has the member acknowledge no lower term. When it returns without an error, that is on disk, and no process
// runs that was the writer in a lower term.
func (m *Member) Promise(ctx context.Context, term int64) (*agentv1.MemberStatus, error) {
	if err := m.change(func() error {
		if term <= 0 {
			return fmt.Errorf("%w: term %d", ErrInvalid, term)
		}
		if promised := m.agent.Promise(term); promised > term {
			return fmt.Errorf("%w: %d is lower than %d", ErrStale, term, promised)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if err := m.guard.AwaitEnd(ctx); err != nil {
		return nil, err
	}
	return m.Status()
}

// Learn takes over what the record is. It gives no permission.
func (m *Member) Learn(ctx context.Context, r permission.Record) (*agentv1.MemberStatus, error) {
	if err := m.change(func() error {
		if r.Term <= 0 {
			return fmt.Errorf("%w: the record has no term", ErrInvalid)
		}
		if promised := m.agent.State().Promised; r.Term < promised {
			return fmt.Errorf("%w: the record is of term %d, and %d was promised", ErrStale, r.Term, promised)
		}
		m.agent.Learn(r)
		m.remember(r)
		return nil
	}); err != nil {
		return nil, err
	}
	m.hurry()
	if err := m.guard.AwaitEnd(ctx); err != nil {
		return nil, err
	}
	return m.Status()
}

// change has the outcome of a change on disk before it returns.
func (m *Member) change(change func() error) error {
	defer m.lock()()
	if m.closed {
		return ErrClosed
	}
	return errors.Join(change(), m.settle())
}

// lock takes the lock and looks at the permission before anything else.
func (m *Member) lock() (unlock func()) {
	m.mu.Lock()
	m.guard.Check()
	return m.mu.Unlock
}

// remember keeps a record that is newer than the last.
func (m *Member) remember(r permission.Record) {
	m.asked.heard = true
	if !newer(r, m.memory.Record) {
		return
	}
	m.memory.Record = r
	if r.Primary != nil {
		m.memory.Writer = *r.Primary
		m.asked.named(Boottime())
	}
}

// newer says whether a record was written after another. In a term a writer is named once, the lists grow, and what was
// before them is forgotten.
func newer(r, than permission.Record) bool {
	switch {
	case r.Term != than.Term:
		return r.Term > than.Term
	case (r.Primary == nil) != (than.Primary == nil):
		return r.Primary != nil
	case r.List.Version != than.List.Version:
		return r.List.Version > than.List.Version
	}
	return r.Previous == nil && than.Previous != nil
}

// names says whether a pod is in a list of the record.
func names(r permission.Record, pod string) bool {
	for _, list := range []*permission.List{&r.List, r.Previous} {
		if list == nil {
			continue
		}
		for _, member := range list.Members {
			if member.Name == pod {
				return true
			}
		}
	}
	return false
}

// settle carries out what follows from a change: a permission that was lost ends at once, and what is to be on disk
// goes there before a longer one counts and before anything is answered. Called with the lock.
func (m *Member) settle() error {
	if until := m.agent.Until(); until <= Boottime() {
		m.guard.Set(until)
	}
	m.memory.State = m.agent.State()
	m.trouble = nil
	if !reflect.DeepEqual(m.memory, m.kept) {
		if err := m.memory.keep(m.Dir); err != nil {
			m.trouble = err
			m.Log.Error("cannot keep what was promised", "error", err.Error())
			m.publish()
			return err
		}
		m.kept = m.memory
		// Something has happened, and more may be known soon.
		m.wish.next, m.wish.pause = 0, 0
	}
	m.guard.Set(m.agent.Until())
	m.publish()
	return nil
}

// Continues says whether a process ran as the writer here in the present term.
func (m *Member) Continues() bool {
	defer m.lock()()
	term := m.agent.State().Term
	return term != 0 && term == m.kept.WroteIn
}

// Begins notes that a process is about to run as the writer. It fails where the folder is no longer that of the member.
func (m *Member) Begins() error {
	defer m.lock()()
	if err := m.memory.isThere(m.Dir); err != nil {
		m.trouble = err
		m.publish()
		return err
	}
	m.memory.Wrote, m.memory.WroteIn = true, m.agent.State().Term
	return m.settle()
}

// Rejoined notes that what the process wrote as the writer is reconciled.
func (m *Member) Rejoined() error {
	return m.change(func() error {
		m.memory.Wrote = false
		return nil
	})
}

// Doing is what the process manager has to say of an action; "" when there is nothing.
func (m *Member) Doing(what string) {
	defer m.lock()()
	m.doing = what
}

// GoesBy is the version of the list that the process goes by from now on; nil where it knows of none, and that of the
// agent counts alone.
func (m *Member) GoesBy(version *int64) {
	defer m.lock()()
	m.goesBy = version
	m.publish()
}

// Changed has the view made anew: the process was started or has ended.
func (m *Member) Changed() {
	defer m.lock()()
	m.publish()
}

// Status is how the member is now.
func (m *Member) Status() (*agentv1.MemberStatus, error) {
	defer m.lock()()
	if m.closed {
		return nil, ErrClosed
	}
	// What failed to be kept is no promise.
	state, now := m.kept.State, Boottime()
	message := m.doing
	if m.trouble != nil {
		message = m.trouble.Error()
	} else if message == "" {
		message = m.wanted(now).Why
	}
	return &agentv1.MemberStatus{
		Name: m.Pod, Identity: m.memory.Identity, Promised: state.Promised, Term: state.Term, ListVersion: m.confirmed(),
		Writing: m.guard.Writing(), Named: state.Term != 0 && state.Term == state.Promised,
		PermissionLeftMs: max(0, m.agent.Until()-now).Milliseconds(),
		UnaskedMs:        (now - max(m.asked.last, m.begun)).Milliseconds(), Message: strings.ToValidUTF8(message, "?"),
		Primary: m.named(),
	}, nil
}

// broadcast is the latest of something for many readers.
type broadcast[T any] struct {
	mu      sync.Mutex
	now     T
	changed chan struct{}
}

func (b *broadcast[T]) set(now T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		if same(b.now, now) {
			return
		}
		close(b.changed)
	}
	b.now, b.changed = now, make(chan struct{})
}

func (b *broadcast[T]) get() (T, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.changed
}

func same(a, b any) bool {
	if x, ok := a.(proto.Message); ok {
		return proto.Equal(x, b.(proto.Message))
	}
	return reflect.DeepEqual(a, b)
}
