// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"time"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/writing"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// roleInterval is the time between attempts to start a process that may not be started yet: the plan may have been
// mended.
const roleInterval = 2 * time.Second

// OpenMember takes up the part that the pod has in who may write, after an expanded plan that has writing. The folder
// of the process is locked.
type OpenMember func(*plan.Plan) (*writing.Member, error)

// Errors of Member.
var (
	errNoWriting = errors.New("the plan of this pod has no writing: the engine does not choose the primary here")
	errNotYet    = errors.New("the folder with the data was not read yet")
	errFenced    = errors.New("the process was killed: its write lease has expired")
)

// notYet says why a process may not be started now.
type notYet struct{ why string }

func (e notYet) Error() string { return "the process is not started: " + e.why }

// membership is what others can know of the member at any time.
type membership struct {
	member *writing.Member
	// err is why there is none.
	err error
	// changed is closed when it is another one.
	changed chan struct{}
}

// setMembership makes it known.
func (s *Supervisor) setMembership(member *writing.Member, err error) {
	before := s.membership.Load()
	if before != nil && before.member == member && errors.Is(err, before.err) {
		return
	}
	s.membership.Store(&membership{member: member, err: err, changed: make(chan struct{})})
	if before != nil {
		close(before.changed)
	}
}

// fence is the supervisor's side of the member.
type fence struct {
	// member is nil where the plan has no writing, and until the folder was read.
	member *writing.Member
	// plan that has what the transitions need: expanded, and of the member's folder.
	plan *plan.Plan
	// changed is closed when the member has another view.
	changed <-chan struct{}
	// part that the process has.
	part part
	// transition that is under way; nil when none is.
	transition *transition
	// failures of transitions in a row, and when to try again, or to look after one who follows.
	failures int
	again    *time.Timer
	// look says that it is time to look after one who follows.
	look bool
}

// part is what the process runs as.
type part struct {
	role writing.Role
	// primary is the pod that a follower follows.
	primary string
	// list is the version of the list that a primary goes by.
	list int64
	// unpromoted is a primary that was started as a follower and does not know yet.
	unpromoted bool
}

// Member is the pod's part in who may write; the error says why there is none. The channel is closed when that is no
// longer so.
func (s *Supervisor) Member() (member *writing.Member, changed <-chan struct{}, err error) {
	now := s.membership.Load()
	return now.member, now.changed, now.err
}

// Enforce kills a primary whose permission has ended. Whoever answers somebody calls it before: the program may have
// been stopped for a while.
func (s *Supervisor) Enforce() {
	if now := s.membership.Load(); now.member != nil {
		now.member.Guard().Check()
	}
}

func (s *Supervisor) memberChanged() <-chan struct{} { return s.fence.changed }

func (s *Supervisor) transitionRetry() <-chan time.Time {
	if s.fence.again == nil {
		return nil
	}
	return s.fence.again.C
}

// join takes up the member of the folder, which is locked, where the plan has writing.
func (s *Supervisor) join(next *planfile.Prepared) error {
	p := s.dirs.Writing(next)
	if p == nil {
		s.leaveSet(errNoWriting)
		return nil
	}
	f := &s.fence
	if f.member != nil && f.member.Dir == next.Plan.Process.Dir && f.member.Set == p.Writing.Set {
		f.plan = p
		return nil
	}
	s.leaveSet(errNotYet)
	if p.Process.Dir != next.Plan.Process.Dir {
		return fmt.Errorf("the folder with the data is %q in the plan, and the mounted one has %q", next.Plan.Process.Dir,
			p.Process.Dir)
	}
	member, err := s.open(p)
	if err != nil {
		s.setMembership(nil, err)
		return err
	}
	f.member, f.plan = member, p
	_, f.changed = member.View()
	s.setMembership(member, nil)
	return nil
}

// leaveSet closes the member, if there is one.
func (s *Supervisor) leaveSet(why error) {
	s.setMembership(nil, why)
	if s.fence.member != nil {
		s.fence.member.Close()
	}
	s.fence = fence{}
}

// joinStopped takes up the member of a process that is stopped: the primary depends on its acknowledgement all the
// same.
func (s *Supervisor) joinStopped() {
	if s.fence.member != nil {
		return
	}
	next, err := s.prepare()
	if err == nil {
		// A plan without writing leaves the folder of a stopped process alone.
		if s.dirs.Writing(next) == nil {
			s.setMembership(nil, errNoWriting)
			return
		}
		if err = s.lock.Take(next.Plan.Process.Dir); err == nil {
			err = s.join(next)
		}
	}
	if err != nil {
		s.message = "cannot become a member of the set: " + err.Error()
		s.timer.Reset(roleInterval)
		return
	}
	s.message = ""
}

// castable says why the process has no role to be started in now; nil where it needs none.
func (s *Supervisor) castable() error {
	f := &s.fence
	if f.member == nil {
		return nil
	}
	if f.transition != nil {
		return notYet{"the command that changes its role has not ended yet"}
	}
	view, changed := f.member.View()
	f.changed = changed
	if view.Role != writing.Primary && view.Role != writing.Replica {
		return notYet{view.Why}
	}
	return nil
}

// cast says what the process is to be, and gives it the arguments for that.
func (s *Supervisor) cast(next *planfile.Prepared) (part, error) {
	f := &s.fence
	next.Args = nil
	if err := s.castable(); err != nil || f.member == nil {
		return part{}, err
	}
	view, changed := f.member.View()
	f.changed = changed
	switch view.Role {
	case writing.Primary:
		next.Args = f.plan.Writing.PrimaryArgs
		if !f.member.Continues() {
			if err := dropEntities(next.Plan); err != nil {
				return part{}, err
			}
		}
		return part{role: writing.Primary, list: view.List}, f.member.Begins()
	case writing.Replica:
		args, err := s.dirs.ReplicaArgs(f.plan, view.Primary)
		next.Args = args
		as := part{role: writing.Replica, primary: view.Primary}
		if f.plan.Writing.FollowOnStart {
			as.primary = ""
		}
		return as, errors.Join(err, dropEntities(next.Plan))
	}
	return part{}, notYet{view.Why}
}

// dropEntities has the process start without the objects that the driver kept for it when it was the primary in an
// earlier term: since then they were kept in another pod, and what was removed there must not come back. The engine
// makes anew what is to be there.
func dropEntities(p *plan.Plan) error {
	if p.Driver == nil || p.Driver.EntitiesFile == "" {
		return nil
	}
	if err := atomicfile.Remove(p.Driver.EntitiesFile); err != nil {
		return fmt.Errorf("cannot drop the entities of an earlier term: %w", err)
	}
	return nil
}

// startAs starts the process as what it was cast for.
func (s *Supervisor) startAs(as part, next *planfile.Prepared) (Process, error) {
	if as.role != writing.Primary {
		return s.launcher.Start(next, s.lock.File())
	}
	var started Process
	err := s.fence.member.Guard().Start(func() (writing.Process, error) {
		var err error
		started, err = s.launcher.Start(next, s.lock.File())
		return started, err
	})
	if errors.Is(err, writing.ErrNoPermission) {
		return nil, notYet{err.Error()}
	}
	return started, err
}

// partBegins: the process was started.
func (s *Supervisor) partBegins(as part) {
	s.fence.part = as
	if s.fence.member != nil {
		s.fence.goBy(as.list)
	}
}

// goBy takes note of the list that the process goes by as the primary.
func (f *fence) goBy(list int64) {
	f.part.list = list
	if f.plan.Writing.UpdateMembers == nil {
		f.member.GoesBy(nil)
		return
	}
	f.member.GoesBy(&list)
}

// fenced says whether the process that has ended was killed because its permission had ended.
func (s *Supervisor) fenced(ended Process) bool {
	return s.fence.member != nil && s.fence.member.Guard().Killed(ended)
}

// partEnded: the process has ended.
func (s *Supervisor) partEnded() {
	s.cancelTransition()
	s.fence.part = part{}
	s.fence.failures = 0
	if s.fence.member != nil {
		s.fence.member.Doing("")
		s.fence.member.Changed()
	}
}

// reconsider has the process become what it is to be.
func (s *Supervisor) reconsider() {
	f := &s.fence
	if f.member == nil {
		return
	}
	var view writing.View
	view, f.changed = f.member.View()
	if s.process == nil && s.state == waiting {
		s.start()
		return
	}
	if s.process == nil || s.state != running || s.after == leave {
		return
	}
	wanted := f.next(view)
	if f.transition != nil {
		if f.transition.to != wanted && (f.transition.to.step != checkFollowing || wanted != (target{})) {
			s.cancelTransition()
		}
		return
	}
	if f.look && wanted == (target{}) && f.part.role == writing.Replica {
		wanted = target{step: checkFollowing, primary: f.part.primary}
	}
	f.look = false
	if wanted != (target{}) {
		s.transit(wanted)
	}
}

// staleTerm refuses a call from before what was promised. Term 0 is that of callers among whom nobody competes.
func (s *Supervisor) staleTerm(term uint64) error {
	if s.fence.member == nil || term == 0 {
		return nil
	}
	if view, _ := s.fence.member.View(); term < uint64(view.Promised) {
		return fmt.Errorf("%w: %d is lower than %d, which was promised", callrecord.ErrStaleTerm, term, view.Promised)
	}
	return nil
}

// report is the member as the status has it.
func (s *Supervisor) memberReport() *agentv1.MemberReport {
	if s.fence.member == nil {
		return nil
	}
	view, _ := s.fence.member.View()
	return view.Report()
}
