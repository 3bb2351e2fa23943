// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/writing"
	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// awaitTime waits until the machine's clock says so: the tests are about time.
func awaitTime(t *testing.T, at time.Duration) {
	t.Helper()
	eventually(t, func() error {
		if now := writing.Boottime(); now < at {
			return fmt.Errorf("it is %v", now)
		}
		return nil
	})
}

func TestNobodyRunsBeforeAPrimaryIsNamed(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	for _, m := range s.members {
		m.begin()
	}
	for _, m := range s.members {
		status := m.awaits("its identity", func(status *agentv1.MemberStatus) bool { return status.GetMessage() != "" })
		if status.GetWriting() || status.GetNamed() || status.GetTerm() != 0 ||
			!strings.Contains(status.GetMessage(), "no primary is known") {
			t.Errorf("the status is %v", status)
		}
	}
	first, second := s.members[0], s.members[1]
	eventually(t, func() error {
		// Each looked for itself.
		if first.api.reads.Load() == 0 || second.api.reads.Load() == 0 {
			return fmt.Errorf("the API server was not asked")
		}
		return nil
	})
	if first.server() != 0 || second.server() != 0 {
		t.Error("a process runs before a primary is named")
	}
	// The status agents find the record by themselves: nobody tells.
	s.put(permission.Record{}.Bootstrap([]permission.Member{first.member(), second.member()}))
	s.put(s.get().Name(first.member()))
	first.awaitsWriting()
	first.says("writer")
	second.says("follower " + first.fqdn())
	eventually(t, func() error {
		if report := second.api.report.Load(); report == nil || !strings.Contains(*report, second.member().Identity) {
			return fmt.Errorf("the report is %v", report)
		}
		return nil
	})
}

// TestAnOutageOfTheAPIServerStopsNothing and no end of the process or of its container does, either, while the other
// members are there.
func TestAnOutageOfTheAPIServerStopsNothing(t *testing.T) {
	t.Parallel()
	s := newSet(t, 3)
	s.bootstrap()
	primary := s.members[0]
	primary.awaitsWriting()
	for _, m := range s.members {
		m.api.down.Store(true)
	}
	down := writing.Boottime()
	server := primary.server()
	awaitTime(t, down+permission.Validity+permission.Margin)
	if status := primary.status(); !status.GetWriting() || primary.server() != server {
		t.Fatalf("the primary was stopped: %v\n%s", status, primary.stderr)
	}
	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	primary.starts(2)
	// PID 1 and all with it. The next container has no permission, and the others give one.
	if err := syscall.Kill(primary.process.inner(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	primary.process.code()
	primary.begin()
	primary.starts(3)
	primary.awaitsWriting()
	// A follower that comes back knows whom it followed.
	follower := s.members[1]
	follower.process.stop(syscall.SIGKILL)
	before := strings.Count(follower.stdout.String(), "follower "+primary.fqdn())
	follower.begin()
	eventually(t, func() error {
		if strings.Count(follower.stdout.String(), "follower "+primary.fqdn()) == before {
			return fmt.Errorf("the follower is not back: %v", follower.status())
		}
		return nil
	})
}

// TestAPrimaryNeedsTheOthersOrTheAPIServer and is killed in time without both, with a connection open.
func TestAPrimaryNeedsTheOthersOrTheAPIServer(t *testing.T) {
	t.Parallel()
	s := newSet(t, 3)
	s.bootstrap()
	defer s.writingClients()()
	primary := s.members[0]
	s.awaitWrites(primary)
	primary.cutPeers()
	cut := writing.Boottime()
	awaitTime(t, cut+permission.Validity+permission.Margin)
	if status := primary.status(); !status.GetWriting() {
		t.Fatalf("the primary was stopped although the API server is there: %v\n%s", status, primary.stderr)
	}
	for _, m := range s.members[1:] {
		if status := m.status(); status.GetUnaskedMs() < 6000 {
			t.Errorf("%s was asked: %v", m.name, status)
		}
		m.await(m.control, "the report of the missing writer",
			func(s *agentv1.ProcessStatus) bool { return s.GetMember().GetWriterUnreachable() })
	}
	primary.api.down.Store(true)
	alone := writing.Boottime()
	primary.awaits("its end", func(status *agentv1.MemberStatus) bool { return !status.GetWriting() })
	if took := writing.Boottime() - alone; took > permission.Validity+500*time.Millisecond {
		t.Errorf("it wrote for %v after it was cut off", took)
	}
	if status := primary.status(); !status.GetNamed() || status.GetPermissionLeftMs() != 0 ||
		!strings.Contains(status.GetMessage(), "waits for its write lease") {
		t.Errorf("the status is %v", status)
	}
	primaryPeriods := s.wantPrimaryPeriods(primary)
	if last := primaryPeriods[0].last; last > alone+permission.Validity+500*time.Millisecond {
		t.Errorf("a write was taken %v after it was cut off", last-alone)
	}
	primary.mend()
	primary.awaitsWriting()
	for _, m := range s.members[1:] {
		m.await(m.control, "that the primary is back",
			func(s *agentv1.ProcessStatus) bool { return !s.GetMember().GetWriterUnreachable() })
	}
}

// TestAnotherPrimaryNeverWritesAtOnce cuts a primary off from everything while connections to it stay open, and names
// another.
func TestAnotherPrimaryNeverWritesAtOnce(t *testing.T) {
	t.Parallel()
	s := newSet(t, 3)
	s.bootstrap()
	stop := s.writingClients()
	old, next, third := s.members[0], s.members[1], s.members[2]
	s.awaitWrites(old)
	next.says("follower " + old.fqdn())
	third.says("follower " + old.fqdn())
	old.cutPeers()
	old.api.down.Store(true)

	s.put(s.get().Depose(), nil)
	s.promise(next)
	awaitTime(t, writing.Boottime()+permission.Validity+permission.Margin)
	s.put(s.get().Name(next.member()))
	s.tell(next, third)
	next.awaitsWriting()
	next.says("writer")
	third.says("follower " + next.fqdn())
	if status := old.status(); status.GetWriting() || !status.GetNamed() {
		t.Errorf("the old writer: %v", status)
	}
	// It comes back, and hears of the next one from the API server alone.
	old.mend()
	old.says("follower " + next.fqdn())
	old.says("rejoined " + next.fqdn())
	eventually(t, func() error {
		primaryPeriods := s.primaryPeriods()
		if last := primaryPeriods[len(primaryPeriods)-1]; last.instance != next.name || last.writes < 100 {
			return fmt.Errorf("%v", primaryPeriods)
		}
		return nil
	})
	stop()
	s.wantPrimaryPeriods(old, next)
	// Each of the others asks and is asked in the new term.
	for _, m := range s.members {
		m.awaits("the new term", func(status *agentv1.MemberStatus) bool { return status.GetPromised() == 2 })
	}
}

// TestAPromiseEndsThePrimary of a lower term at once, and before it is answered.
func TestAPromiseEndsThePrimary(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	s.bootstrap()
	defer s.writingClients()()
	old, next := s.members[0], s.members[1]
	s.awaitWrites(old)
	server := old.server()
	s.put(s.get().Depose(), nil)
	s.promise(old)
	promised := writing.Boottime()
	if err := syscall.Kill(server, 0); err == nil {
		t.Error("the server is there after the promise")
	}
	s.promise(next)
	s.put(s.get().Name(next.member()))
	s.tell(next, old)
	next.says("writer")
	old.says("follower " + next.fqdn())
	old.says("rejoined " + next.fqdn())
	s.awaitWrites(next)
	if primaryPeriods := s.wantPrimaryPeriods(old, next); primaryPeriods[0].last > promised {
		t.Errorf("a write was taken %v after the promise", primaryPeriods[0].last-promised)
	}
	for name, call := range map[string]func() error{
		"Promise": func() error {
			_, err := next.calls.Promise(next.ctx(), &agentv1.PromiseRequest{Term: 1})
			return err
		},
		"Learn": func() error {
			stale := s.get()
			stale.Term = 1
			_, err := next.calls.Learn(next.ctx(), &agentv1.LearnRequest{Record: wire(stale)})
			return err
		},
		"Restart": func() error {
			_, err := next.control.Restart(next.ctx(),
				&agentv1.RestartRequest{Header: &agentv1.CallHeader{IdempotencyKey: "old", Term: 1}})
			return err
		},
	} {
		code := codes.FailedPrecondition
		if name == "Restart" {
			code = codes.Aborted
		}
		if err := call(); err == nil || !strings.Contains(err.Error(), "is lower than") || status.Code(err) != code {
			t.Errorf("%s of an old term: %v", name, err)
		}
	}
	if status := next.status(); !status.GetWriting() || status.GetPromised() != 2 {
		t.Errorf("the status is %v", status)
	}
}

// TestAStoppedPID1KillsBeforeItAnswers: the first answer after a pause of everybody that outlasts the permission is
// that nothing writes any more.
func TestAStoppedPID1KillsBeforeItAnswers(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	s.bootstrap()
	primary := s.members[0]
	primary.says("writer")
	pid := primary.process.inner()
	server, sentinel := primary.settled()
	for _, stopped := range []int{pid, sentinel, server} {
		stop(t, stopped)
	}
	paused := writing.Boottime()
	// Called while nobody answers, and so waiting when PID 1 goes on.
	answers := make(chan *agentv1.ProcessStatus, 1)
	go func() {
		status, err := primary.control.GetStatus(primary.ctx(), &agentv1.GetStatusRequest{})
		if err != nil {
			t.Error(err)
		}
		answers <- status
	}()
	awaitTime(t, paused+permission.Validity+time.Second)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	<-answers
	if err := syscall.Kill(server, 0); err == nil && !isZombie(server) {
		t.Error("the server was there when PID 1 answered")
	}
	primary.starts(2)
	if primary.server() == server {
		t.Error("the server goes on")
	}
}

// TestWhatCannotBeReadIsNeverBegunAnew: a file that is broken keeps the process down, and another identity is made on
// an empty folder only, which then never writes.
func TestWhatCannotBeReadIsNeverBegunAnew(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	s.bootstrap()
	primary := s.members[0]
	primary.awaitsWriting()
	identity := primary.member().Identity
	primary.process.stop(syscall.SIGKILL)
	path := "data/" + plan.MemberFile
	good, err := os.ReadFile(primary.path(path))
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]string{"empty": "", "cut": string(good[:len(good)/2]),
		"no identity": `{"state":{"promised":1}}`} {
		primary.write(path, broken)
		primary.begin()
		primary.await(primary.control, "that it says why: "+name, func(s *agentv1.ProcessStatus) bool {
			return s.GetPid() == 0 && strings.Contains(s.GetMessage(), "cannot be used") &&
				strings.Contains(s.GetMessage(), "rebuild the member")
		})
		if _, err := primary.calls.GetMember(primary.ctx(), &agentv1.GetMemberRequest{}); err == nil ||
			!strings.Contains(err.Error(), "FailedPrecondition") {
			t.Errorf("%s: GetMember: %v", name, err)
		}
		primary.process.stop(syscall.SIGKILL)
		if now, err := os.ReadFile(primary.path(path)); err != nil || string(now) != broken {
			t.Errorf("%s: the file was replaced by %q, %v", name, now, err)
		}
	}
	if err := os.Remove(primary.path(path)); err != nil {
		t.Fatal(err)
	}
	primary.begin()
	status := primary.awaits("that it knows the record", func(status *agentv1.MemberStatus) bool {
		return strings.Contains(status.GetMessage(), "with the volume that it had before")
	})
	if status.GetIdentity() == identity || status.GetNamed() || status.GetWriting() || primary.server() != 0 {
		t.Errorf("the status is %v", status)
	}
	// What was written down is what counts.
	primary.process.stop(syscall.SIGKILL)
	primary.write(path, string(good))
	primary.begin()
	primary.awaitsWriting()
}

// TestAChangeOfTheRoleIsTriedUntilItSucceeds, with what is in the way told.
func TestAChangeOfTheRoleIsTriedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	s.bootstrap()
	old, next := s.members[0], s.members[1]
	old.awaitsWriting()
	next.says("follower " + old.fqdn())
	next.write("data/"+controlFails, "")
	s.put(s.get().Depose(), nil)
	s.promise(old)
	s.promise(next)
	s.put(s.get().Name(next.member()))
	s.tell(next)
	next.awaits("the reason", func(status *agentv1.MemberStatus) bool {
		return status.GetWriting() && strings.Contains(status.GetMessage(), "cannot promote") &&
			strings.Contains(status.GetMessage(), "not now: writer")
	})
	if err := os.Remove(next.path("data", controlFails)); err != nil {
		t.Fatal(err)
	}
	next.says("writer")
	next.awaits("nothing in the way", func(status *agentv1.MemberStatus) bool { return status.GetMessage() == "" })
}

// TestEntitiesLastAsLongAsTheTermOfTheirPrimary: in a later one they are kept in another pod, and what was removed
// there must not come back.
func TestEntitiesLastAsLongAsTheTermOfTheirPrimary(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	first, second := s.members[0], s.members[1]
	wantKept := func(m *memberPod, want bool) {
		t.Helper()
		if _, err := os.Stat(m.path(entitiesFile)); (err == nil) != want {
			t.Errorf("%s keeps entities: %v, want %v", m.name, err == nil, want)
		}
	}
	name := func(m *memberPod) {
		t.Helper()
		s.promise(m)
		s.put(s.get().Name(m.member()))
		s.tell(s.members...)
	}
	second.write(entitiesFile, "")
	s.bootstrap()
	first.says("writer")
	second.says("follower " + first.fqdn())
	wantKept(second, false)

	// A process that is started anew in the same term is the same primary.
	first.write(entitiesFile, "")
	if err := syscall.Kill(first.server(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	first.starts(2)
	wantKept(first, true)

	s.put(s.get().Depose(), nil)
	s.promise(first)
	name(second)
	second.says("writer")
	first.says("follower " + second.fqdn())
	wantKept(first, false)

	// The same pod in the next term: who knows what was in between.
	second.write(entitiesFile, "")
	s.put(s.get().Depose(), nil)
	name(second)
	second.starts(2)
	wantKept(second, false)
}

// TestAListIsConfirmedOnceTheProcessGoesByIt, and a follower that is to look for itself first follows by the action.
func TestAListIsConfirmedOnceTheProcessGoesByIt(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	for _, m := range s.members {
		p := m.plan()
		p.Writing.FollowOnStart, p.Writing.FollowIntervalSeconds = true, 1
		p.Writing.UpdateMembers = &plan.Action{Name: "update-members", Command: []string{ownPath(t), "enlisted"},
			Env: p.Writing.Promote.Env}
		m.mount(p)
	}
	s.bootstrap()
	old, next := s.members[0], s.members[1]
	goesBy := func(version int64) func(*agentv1.MemberStatus) bool {
		return func(status *agentv1.MemberStatus) bool {
			return status.GetWriting() && status.GetListVersion() == version
		}
	}
	old.awaits("the list from the start", goesBy(s.get().List.Version))
	eventually(t, func() error {
		if said := strings.Count(next.stdout.String(), "follower "+next.set.members[0].fqdn()+"\n"); said < 4 {
			return fmt.Errorf("it was told %d times whom it follows, want once at the start, once after, and again and again",
				said)
		}
		return nil
	})
	old.write("data/"+controlFails, "")
	before := s.get().List.Version
	s.put(s.get().ChangeSynchronousReplicas(s.get().List.Members, 1))
	s.tell(old)
	old.awaits("the reason", func(status *agentv1.MemberStatus) bool {
		return strings.Contains(status.GetMessage(), "cannot update the members")
	})
	if status := old.status(); status.GetListVersion() != before {
		t.Errorf("list %d is confirmed, and the process goes by %d", status.GetListVersion(), before)
	}
	if err := os.Remove(old.path("data", controlFails)); err != nil {
		t.Fatal(err)
	}
	old.awaits("the new list", goesBy(before+1))
	old.says("enlisted")
	kept, err := os.ReadFile(old.path("data", plan.MemberFile))
	if err != nil || !strings.Contains(string(kept), `"synchronousReplicas":1`) {
		t.Errorf("the folder has %s, %v", kept, err)
	}
}
