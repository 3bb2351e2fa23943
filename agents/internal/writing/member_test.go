// SPDX-License-Identifier: Apache-2.0

package writing

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// waitTimeout bounds every wait for a condition.
const waitTimeout = 2 * time.Minute

// nobody is there to acknowledge.
type nobody struct{}

func (nobody) Acknowledge(context.Context, string, int64) (*agentv1.AcknowledgeResponse, error) {
	return nil, errors.New("nobody is there")
}

func (nobody) Close() {}

// fake is a process that ends by SIGKILL.
type fake struct {
	done chan struct{}
	once sync.Once
}

func newFake() *fake { return &fake{done: make(chan struct{})} }

func (f *fake) PID() int              { return 1 }
func (f *fake) Done() <-chan struct{} { return f.done }
func (f *fake) SignalGroup(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		f.once.Do(func() { close(f.done) })
	}
	return nil
}

func open(t *testing.T, dir string) *Member {
	t.Helper()
	m, err := Open(Config{Pod: "set-0", Set: "set", Dir: dir, Peers: nobody{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// named is a record that names the member in a term, in a list with another one.
func named(m *Member, term int64) permission.Record {
	self := permission.Member{Name: m.Pod, Identity: m.memberFile.Identity}
	return permission.Record{Term: term, Primary: &self,
		List: permission.List{Version: 1, Members: []permission.Member{self, {Name: "set-1", Identity: "x"}}}}
}

// awaitReadRequest waits for a read that is wanted.
func awaitReadRequest(t *testing.T, m *Member) uint64 {
	t.Helper()
	timeout := time.After(waitTimeout)
	for {
		wanted, changed := m.Reads()
		if wanted != nil {
			return wanted.GetId()
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatal("no read is wanted")
		}
	}
}

func valid(m *Member) bool {
	status, err := m.Status()
	return err == nil && status.GetPermissionLeftMs() > 0
}

// TestPermissionCountsFromTheReadRequest for the read that gave it, and an answer to another wish gives none.
func TestPermissionCountsFromTheReadRequest(t *testing.T) {
	m := open(t, t.TempDir())
	id := awaitReadRequest(t, m)
	for _, other := range []uint64{0, 1, id - 1, id + 1} {
		if err := m.AnswerRead(other, named(m, 1), ""); err != nil || valid(m) {
			t.Fatalf("an answer to wish %d gave a permission, %v", other, err)
		}
	}
	if err := m.AnswerRead(id, named(m, 1), ""); err != nil || !valid(m) {
		t.Fatalf("no permission, %v", err)
	}
	if until := m.agent.Until(); until != time.Duration(id)+permission.Validity {
		t.Errorf("it ends at %v, and the wish was published at %v", until, time.Duration(id))
	}
	// The same answer again is one to no wish.
	if err := m.AnswerRead(id, named(m, 1), ""); err != nil {
		t.Error(err)
	}
	if _, err := m.Learn(t.Context(), named(m, 1)); err != nil {
		t.Error(err)
	}
	if until := m.agent.Until(); until != time.Duration(id)+permission.Validity {
		t.Errorf("what gives no permission moved its end to %v", until)
	}
}

// TestAPromiseOutlivesTheAgent and a permission does not.
func TestAPromiseOutlivesTheAgent(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir)
	if err := m.AnswerRead(awaitReadRequest(t, m), named(m, 3), ""); err != nil || !valid(m) {
		t.Fatal(err)
	}
	identity := m.memberFile.Identity
	m.Close()
	if _, err := m.Promise(t.Context(), 9); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed member promises: %v", err)
	}
	again := open(t, dir)
	status, err := again.Status()
	if err != nil || status.GetIdentity() != identity || status.GetPromised() != 3 || status.GetTerm() != 3 ||
		!status.GetNamed() || status.GetPermissionLeftMs() != 0 {
		t.Errorf("the status is %v, %v", status, err)
	}
	start := func() (Process, error) { t.Error("started"); return newFake(), nil }
	if err := again.Guard().Start(start); !errors.Is(err, ErrNoPermission) {
		t.Errorf("got %v", err)
	}
}

// TestAPeerDoesNotRaiseTheTerm: the record is read, and says what it is.
func TestAPeerDoesNotRaiseTheTerm(t *testing.T) {
	m := open(t, t.TempDir())
	record := named(m, 3)
	record.Primary = &record.List.Members[1]
	first := awaitReadRequest(t, m)
	if err := m.AnswerRead(first, record, ""); err != nil {
		t.Fatal(err)
	}
	answer, err := m.Acknowledge(t.Context(), "set-1", math.MaxInt64)
	if err != nil || answer.GetAcknowledged() || answer.GetPromised() != 3 {
		t.Fatalf("the answer is %v, %v", answer, err)
	}
	if wanted, _ := m.Reads(); wanted != nil && Boottime() < time.Duration(first)+Period {
		t.Error("a peer has the record read as often as it likes")
	}
	m.mu.Lock()
	m.readRequest.id -= uint64(Period)
	m.mu.Unlock()
	if answer, err := m.Acknowledge(t.Context(), "set-1", 4); err != nil || answer.GetAcknowledged() {
		t.Errorf("the answer is %v, %v", answer, err)
	}
	record.Term = 4
	if err := m.AnswerRead(awaitReadRequest(t, m), record, ""); err != nil {
		t.Fatal(err)
	}
	if answer, err := m.Acknowledge(t.Context(), "set-1", 4); err != nil || !answer.GetAcknowledged() {
		t.Errorf("the answer is %v, %v", answer, err)
	}
}

// TestADiskThatTakesNothingMakesNoPromise: what cannot be kept is not answered, and the primary is killed all the same.
func TestADiskThatTakesNothingMakesNoPromise(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir)
	if err := m.AnswerRead(awaitReadRequest(t, m), named(m, 1), ""); err != nil {
		t.Fatal(err)
	}
	process := newFake()
	if err := m.Guard().Start(func() (Process, error) { return process, nil }); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, plan.MemberFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Promise(t.Context(), 2); !errors.Is(err, ErrMemberFile) {
		t.Errorf("it promises: %v", err)
	}
	select {
	case <-process.done:
	case <-time.After(waitTimeout):
		t.Error("the primary goes on")
	}
	status, err := m.Status()
	view, _ := m.View()
	if err != nil || status.GetPromised() != 1 || view.Promised != 1 {
		t.Errorf("what is not on disk looks like a promise: %v, %+v, %v", status, view, err)
	}
	if err := m.Begins(); !errors.Is(err, ErrMemberFile) {
		t.Errorf("a primary may begin on a folder without the identity: %v", err)
	}
	if view, _ := m.View(); view.Role != Nothing {
		t.Errorf("the role is %v", view.Role)
	}
}

// TestTheGuardKillsInTime by itself, and a process only that is the primary.
func TestTheGuardKillsInTime(t *testing.T) {
	g, err := NewGuard(nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	if err := g.Adopt(newFake()); !errors.Is(err, ErrNoPermission) {
		t.Fatalf("got %v", err)
	}
	end := Boottime() + 300*time.Millisecond
	g.Set(end)
	process := newFake()
	if err := g.Adopt(process); err != nil || !g.Writing() {
		t.Fatal(err)
	}
	select {
	case <-process.done:
	case <-time.After(waitTimeout):
		t.Fatal("the primary goes on")
	}
	if late := Boottime() - end; late < 0 || late > 200*time.Millisecond {
		t.Errorf("it was killed %v after the end", late)
	}
	if !g.Killed(process) || g.Writing() {
		t.Error("the guard does not know")
	}
	if err := g.AwaitEnd(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAFollowerTellsOfAPrimaryThatDoesNotAsk once, and no more when it has asked for a while.
func TestAFollowerTellsOfAPrimaryThatDoesNotAsk(t *testing.T) {
	a := primaryContact{since: time.Second}
	for _, step := range []struct {
		at             time.Duration
		primaryContact bool
		want           bool
	}{
		{2 * time.Second, false, false}, {3 * time.Second, true, false}, {5 * time.Second, true, false},
		{7900 * time.Millisecond, false, false},
		{8 * time.Second, false, true}, {10 * time.Second, true, true}, {11 * time.Second, false, true},
		{12 * time.Second, true, false},
		{15 * time.Second, false, true}, {16 * time.Second, true, true}, {20 * time.Second, true, true},
		{22 * time.Second, true, false},
	} {
		if step.primaryContact {
			a.record(1, step.at)
		} else {
			a.nextCheck(step.at)
		}
		if a.unreachable != step.want {
			t.Errorf("at %v it is %v, want %v", step.at, a.unreachable, step.want)
		}
	}
}

// TestWhoIsAskedDependsOnThePrimary also when it joined a list after the record that it knows; not on the primary of a
// later term that has not asked it.
func TestWhoIsAskedDependsOnThePrimary(t *testing.T) {
	m := open(t, t.TempDir())
	other := permission.Member{Name: "set-9", Identity: "x"}
	alone := func(term int64) permission.Record {
		return permission.Record{Term: term, Primary: &other,
			List: permission.List{Version: term, Members: []permission.Member{other}}}
	}
	wants := func(what string, want bool) {
		t.Helper()
		defer m.lock()()
		if got := m.expectsRounds(); got != want {
			t.Errorf("%s it depends on the primary: %v, want %v", what, got, want)
		}
	}
	learns := func(record permission.Record) {
		t.Helper()
		if _, err := m.Learn(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	learns(alone(1))
	wants("in no list", false)
	if answer, err := m.Acknowledge(t.Context(), other.Name, 1); err != nil || !answer.GetAcknowledged() {
		t.Fatalf("it answers %v, %v", answer, err)
	}
	wants("once it was asked", true)
	learns(alone(2))
	wants("in another term", false)
	listed := alone(3)
	listed.List.Members = append(listed.List.Members, permission.Member{Name: m.Pod, Identity: m.memberFile.Identity})
	learns(listed)
	wants("in the list", true)
}

func TestNewerRecords(t *testing.T) {
	one := permission.Member{Name: "set-0", Identity: "a"}
	list := func(version int64) permission.List {
		return permission.List{Version: version, Members: []permission.Member{one}}
	}
	old := list(1)
	story := []permission.Record{
		{}, {Term: 1, List: list(1)}, {Term: 1, Primary: &one, List: list(1)},
		{Term: 1, Primary: &one, List: list(2), Previous: &old},
		{Term: 1, Primary: &one, List: list(2)}, {Term: 2, List: list(2)}, {Term: 2, Primary: &one, List: list(2)},
	}
	for n, r := range story {
		for o, other := range story {
			if got := newer(r, other); got != (n > o) {
				t.Errorf("%d is newer than %d: %v", n, o, got)
			}
		}
	}
}
