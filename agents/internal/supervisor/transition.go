// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroinfra/agents/internal/writing"
	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/podtext"
)

const (
	// firstRetry of a transition that failed, doubled up to maxRetry.
	firstRetry = 200 * time.Millisecond
	maxRetry   = 5 * time.Second
)

// Act is an action that is run beside the process.
type Act struct {
	Action     *plan.Action
	Parameters map[string]string
	// Secret looks up what its environment needs.
	Secret configfile.Lookup
}

// step from one role to another.
type step string

const (
	promote step = "promote"
	follow  step = "follow"
	rejoin  step = "rejoin"
	// updateMembers has the primary go by another list of members.
	updateMembers step = "update the members"
	// checkFollowing has a follower look whether it still follows.
	checkFollowing step = "tend"
)

// target is a step, and the pod that is the primary then, or the list that it is to go by; empty when nothing is to be
// done.
type target struct {
	step    step
	primary string
	list    int64
}

// transition is a step under way.
type transition struct {
	to target
	// list that the agent went by when it began.
	list   int64
	done   chan error
	cancel context.CancelFunc
	// abandoned says that something else is wanted now.
	abandoned bool
}

// next is what a running process lacks of what it is to be. A primary that is no longer to be one is killed by the
// guard, and needs no step.
func (f *fence) next(view writing.View) target {
	wanted := view.Wanted
	switch {
	case f.part.role == writing.Replica && wanted.Role == writing.Primary, f.part.role == writing.Primary &&
		f.part.unpromoted:
		return target{step: promote}
	case f.part.role == writing.Primary && wanted.Role == writing.Primary && f.plan.Writing.UpdateMembers != nil &&
		f.part.list < view.List:
		return target{step: updateMembers, list: view.List}
	case f.part.role != writing.Replica || wanted.Role != writing.Replica:
		return target{}
	case wanted.Primary != f.part.primary:
		return target{step: follow, primary: wanted.Primary}
	case wanted.Rejoin:
		return target{step: rejoin, primary: wanted.Primary}
	}
	return target{}
}

// transit begins a step. One that the plan has no action for is a restart with other arguments; there is none to
// rejoin.
func (s *Supervisor) transit(to target) {
	f := &s.fence
	// The actions may have changed since the process was started.
	if p := s.dirs.Writing(s.prepared); p != nil && f.member.Set == p.Writing.Set && f.member.Dir == p.Process.Dir {
		f.plan = p
	}
	if to.step == promote && !f.part.unpromoted {
		if err := errors.Join(f.member.Begins(), f.member.Guard().Adopt(s.process)); err != nil {
			s.transitionFailed(to, err)
			return
		}
		f.part = part{role: writing.Primary, unpromoted: true}
		f.member.Changed()
	}
	action := map[step]*plan.Action{promote: f.plan.Writing.Promote, follow: f.plan.Writing.Follow,
		rejoin: f.plan.Writing.Rejoin, updateMembers: f.plan.Writing.UpdateMembers,
		checkFollowing: f.plan.Writing.Follow}[to.step]
	switch {
	case action == nil && to.step == rejoin:
		s.transitionDone(&transition{to: to})
		return
	case action == nil:
		s.log.Info("restarting the process in another role", "step", string(to.step), "primary", to.primary)
		s.beginStop(startAgain)
		return
	}
	if to.step != checkFollowing {
		s.log.Info("changing the role of the process", "step", string(to.step), "primary", to.primary)
	}
	act := Act{Action: action, Secret: s.prepared.Secret(s.dirs)}
	if to.primary != "" {
		act.Parameters = map[string]string{plan.ParameterPrimary: podtext.PodOf(to.primary, f.plan.Domain).FQDN}
	}
	ctx, cancel := context.WithCancel(context.Background())
	view, _ := f.member.View()
	t := &transition{to: to, list: view.List, done: make(chan error, 1), cancel: cancel}
	f.transition = t
	launcher, prepared := s.launcher, s.prepared
	go func() { t.done <- launcher.Act(ctx, prepared, act) }()
}

func (s *Supervisor) transitionEnded() <-chan error {
	if s.fence.transition == nil {
		return nil
	}
	return s.fence.transition.done
}

// cancelTransition ends the command of a step. What is next waits until it has ended.
func (s *Supervisor) cancelTransition() {
	if t := s.fence.transition; t != nil {
		t.abandoned = true
		t.cancel()
	}
	if s.fence.again != nil {
		s.fence.again.Stop()
		s.fence.again = nil
	}
}

// onTransition: the command of a step has ended.
func (s *Supervisor) onTransition(err error) {
	t := s.fence.transition
	s.fence.transition = nil
	t.cancel()
	switch {
	case t.abandoned:
	case t.to.step == checkFollowing:
		if err != nil {
			// The primary may be away: who knows of another one is told.
			s.log.Info("the process does not follow", "primary", t.to.primary, "problem", err.Error())
		}
		s.lookAgain()
	case err != nil:
		s.transitionFailed(t.to, err)
		return
	default:
		s.transitionDone(t)
	}
	s.reconsider()
}

func (s *Supervisor) transitionFailed(to target, err error) {
	f := &s.fence
	s.message = fmt.Sprintf("cannot %s: %v; it is tried again", to.step, err)
	s.log.Error("cannot change the role of the process", "step", string(to.step), "primary", to.primary, "error",
		err.Error())
	f.member.Doing(s.message)
	delay := firstRetry << min(f.failures, 10)
	f.failures++
	f.again = time.NewTimer(min(delay, maxRetry))
}

func (s *Supervisor) transitionDone(t *transition) {
	f, to := &s.fence, t.to
	f.failures, s.message = 0, ""
	f.member.Doing("")
	switch to.step {
	case promote:
		f.part.unpromoted = false
		f.goBy(t.list)
	case updateMembers:
		f.goBy(t.list)
		s.log.Info("the process applies another list of members", "list", t.list)
		return
	case follow:
		f.part.primary = to.primary
		s.lookAgain()
	case rejoin:
		if err := f.member.Rejoined(); err != nil {
			s.transitionFailed(to, err)
			return
		}
	}
	s.roleChanges++
	s.log.Info("the role of the process is changed", "step", string(to.step), "primary", to.primary)
}

// lookAgain has a follower be looked after in a while, where the plan asks for it.
func (s *Supervisor) lookAgain() {
	f := &s.fence
	if seconds := f.plan.Writing.FollowIntervalSeconds; seconds > 0 && f.plan.Writing.Follow != nil && f.again == nil {
		f.again = time.NewTimer(time.Duration(seconds) * time.Second)
	}
}

// onTransitionRetry: a step that failed may be tried again, or a follower is to be looked after.
func (s *Supervisor) onTransitionRetry() {
	s.fence.again, s.fence.look = nil, true
	s.reconsider()
}
