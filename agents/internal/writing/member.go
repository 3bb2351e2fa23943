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

// Errors of a Member, besides ErrMemberFile and ErrNoPermission.
var (
	// ErrStale says that a call has a lower term than the promised one.
	ErrStale = errors.New("the term is lower than the one that was promised")
	// ErrNotPeer says that the caller is not a pod of the set that may ask for an acknowledgement.
	ErrNotPeer = errors.New("the pod may not ask this member")
	// ErrInvalid says that a call is invalid.
	ErrInvalid = errors.New("invalid call")
	// ErrClosed says that the agent is shutting down, or that the pod has no member any more.
	ErrClosed = errors.New("the member is closed")
)

// Config of a Member. All fields but StartSentinel are required.
type Config struct {
	// Pod is the name of this pod.
	Pod string
	// Set is the name of the WorkloadSet; its pods are called Set-N.
	Set string
	// Dir is the data directory. The caller holds its lock until the Member is closed.
	Dir string
	// Peers acknowledge the term of the primary.
	Peers Peers
	// StartSentinel starts a Sentinel for the Guard; nil for none, where this program is not PID 1.
	StartSentinel StartSentinel
	// Log of the member.
	Log *slog.Logger
}

// Peers are the agents of the other pods of the set.
type Peers interface {
	// Acknowledge asks the agent of a pod. The context has a deadline.
	Acknowledge(ctx context.Context, pod string, term int64) (*agentv1.AcknowledgeResponse, error)
	// Close closes the connections.
	Close()
}

// Member is this pod's member of the set: its promises, its write lease and its role. It is safe for concurrent use.
type Member struct {
	Config
	guard *Guard
	begun time.Duration
	end   context.CancelFunc
	ended chan struct{}
	// again triggers the next round.
	again chan struct{}
	view  broadcast[View]
	reads broadcast[*agentv1.WantedRead]

	mu         sync.Mutex
	agent      *permission.Agent
	memberFile memberFile
	// persisted is the content on disk.
	persisted memberFile
	// storageError is why the content on disk differs from memberFile; nil if it does not.
	storageError   error
	closed         bool
	primaryContact primaryContact
	readRequest    readRequest
	// actionMessage is the process manager's message on a running action.
	actionMessage string
	// processListVersion is the version of the list that the process applies; nil if the process does not know the list.
	processListVersion *int64
}

// Open loads the state of the directory, and starts the rounds. State that cannot be read is an error (ErrMemberFile)
// and is never replaced.
func Open(c Config) (*Member, error) {
	found, err := loadMemberFile(c.Dir)
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
		agent: permission.NewAgent(self, found.State), memberFile: found, persisted: found,
		primaryContact: primaryContact{since: Boottime()}}
	c.Log.Info("member of the set", "identity", found.Identity, "promised", found.State.Promised, "term", found.State.Term)
	m.mu.Lock()
	m.publish()
	m.mu.Unlock()
	m.reads.set(nil)
	go m.run(ctx)
	return m, nil
}

// Close ends the member: a primary is killed, and calls are rejected.
func (m *Member) Close() {
	m.end()
	<-m.ended
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.guard.Close()
	m.Peers.Close()
}

// Guard returns the guard of the process.
func (m *Member) Guard() *Guard { return m.guard }

// Acknowledge answers a primary that asks for the acknowledgement of its term.
func (m *Member) Acknowledge(ctx context.Context, pod string, term int64) (*agentv1.AcknowledgeResponse, error) {
	answer, err := m.acknowledge(pod, term)
	if err != nil {
		return nil, err
	}
	// If this process was the primary until now, it has ended before another one gets its lease.
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
		m.primaryContact.record(term, now)
	case term > promised && now >= time.Duration(m.readRequest.id)+Period:
		// A read of the record shows whether the term exists. Repeated calls do not cause more reads.
		m.requestRead(now)
	}
	if err := m.persist(); err != nil {
		return nil, err
	}
	return &agentv1.AcknowledgeResponse{Acknowledged: acknowledged, Promised: promised,
		Identity: m.memberFile.Identity}, nil
}

// admits rejects a pod that cannot be the primary of the term, as far as this member knows. If it does not know the
// record, the name has to be that of a pod of the set.
func (m *Member) admits(pod string, term int64) error {
	if term <= 0 {
		return fmt.Errorf("%w: term %d", ErrInvalid, term)
	}
	digits, ofSet := strings.CutPrefix(pod, m.Set+"-")
	if ordinal, err := strconv.ParseUint(digits, 10, 31); !ofSet || err != nil ||
		strconv.FormatUint(ordinal, 10) != digits || pod == m.Pod {
		return fmt.Errorf("%w: %q is no other pod of the set %q", ErrNotPeer, pod, m.Set)
	}
	record := m.memberFile.Record
	switch {
	case record.Term != term:
	case record.Primary != nil && record.Primary.Name != pod:
		return fmt.Errorf("%w: %q is not named in term %d", ErrNotPeer, pod, term)
	case record.Primary == nil && !names(record, pod):
		return fmt.Errorf("%w: %q is in no list of term %d", ErrNotPeer, pod, term)
	}
	return nil
}

// Promise makes the member acknowledge no lower term. When it returns without an error, the promise is on disk, and no
// process runs that was the primary of a lower term.
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

// Learn stores the record. It does not grant a write lease.
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
	m.triggerRound()
	if err := m.guard.AwaitEnd(ctx); err != nil {
		return nil, err
	}
	return m.Status()
}

// change applies a change and persists its outcome before it returns.
func (m *Member) change(change func() error) error {
	defer m.lock()()
	if m.closed {
		return ErrClosed
	}
	return errors.Join(change(), m.persist())
}

// lock locks the member and checks the write lease before anything else.
func (m *Member) lock() (unlock func()) {
	m.mu.Lock()
	m.guard.Check()
	return m.mu.Unlock
}

// remember stores a record that is newer than the last.
func (m *Member) remember(r permission.Record) {
	m.primaryContact.recordKnown = true
	if !newer(r, m.memberFile.Record) {
		return
	}
	m.memberFile.Record = r
	if r.Primary != nil {
		m.memberFile.LastPrimary = *r.Primary
		m.primaryContact.named(Boottime())
	}
}

// newer says whether a record was written after another. Within a term the primary is named once, versions of the list
// grow, and the previous list is removed.
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

// persist applies a change: it ends a lost write lease at once, and persists the state before a longer lease counts and
// before a call is answered. It is called with the lock.
func (m *Member) persist() error {
	if until := m.agent.Until(); until <= Boottime() {
		m.guard.Set(until)
	}
	m.memberFile.State = m.agent.State()
	m.storageError = nil
	if !reflect.DeepEqual(m.memberFile, m.persisted) {
		if err := m.memberFile.save(m.Dir); err != nil {
			m.storageError = err
			m.Log.Error("cannot keep what was promised", "error", err.Error())
			m.publish()
			return err
		}
		m.persisted = m.memberFile
		// Something has changed: the backoff of reads starts again.
		m.readRequest.next, m.readRequest.pause = 0, 0
	}
	m.guard.Set(m.agent.Until())
	m.publish()
	return nil
}

// Continues says whether a process ran as the primary here in the current term.
func (m *Member) Continues() bool {
	defer m.lock()()
	term := m.agent.State().Term
	return term != 0 && term == m.persisted.WroteIn
}

// Begins records that a process is about to run as the primary. It fails if the directory is not that of the member any
// more.
func (m *Member) Begins() error {
	defer m.lock()()
	if err := m.memberFile.checkIdentity(m.Dir); err != nil {
		m.storageError = err
		m.publish()
		return err
	}
	m.memberFile.Wrote, m.memberFile.WroteIn = true, m.agent.State().Term
	return m.persist()
}

// Rejoined records that the data written as the former primary has been reconciled.
func (m *Member) Rejoined() error {
	return m.change(func() error {
		m.memberFile.Wrote = false
		return nil
	})
}

// Doing sets the process manager's message on a running action; "" for none.
func (m *Member) Doing(what string) {
	defer m.lock()()
	m.actionMessage = what
}

// GoesBy sets the version of the list that the process applies; nil if the process does not know the list, so that only
// the agent's version counts.
func (m *Member) GoesBy(version *int64) {
	defer m.lock()()
	m.processListVersion = version
	m.publish()
}

// Changed updates the view: the process has started or ended.
func (m *Member) Changed() {
	defer m.lock()()
	m.publish()
}

// Status returns the current status of the member.
func (m *Member) Status() (*agentv1.MemberStatus, error) {
	defer m.lock()()
	if m.closed {
		return nil, ErrClosed
	}
	// What is not on disk is not promised.
	state, now := m.persisted.State, Boottime()
	message := m.actionMessage
	if m.storageError != nil {
		message = m.storageError.Error()
	} else if message == "" {
		message = m.wanted(now).Why
	}
	return &agentv1.MemberStatus{
		Name: m.Pod, Identity: m.memberFile.Identity, Promised: state.Promised, Term: state.Term,
		ListVersion: m.confirmedListVersion(),
		Writing:     m.guard.Writing(), Named: state.Term != 0 && state.Term == state.Promised,
		PermissionLeftMs: max(0, m.agent.Until()-now).Milliseconds(),
		UnaskedMs:        (now - max(m.primaryContact.last, m.begun)).Milliseconds(),
		Message:          strings.ToValidUTF8(message, "?"),
		Primary:          m.named(),
	}, nil
}

// broadcast holds the latest value for many readers.
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
