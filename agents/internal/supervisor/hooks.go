// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"fmt"

	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// hooks are the commands of the plan that are run at points of the life of a process.
type hooks struct {
	// current is the one that the state waits for, or that was begun in it; nil for none.
	current *hook
	// alive counts the commands that have not ended, with those that were abandoned.
	alive int
	// ends has how each of them ended.
	ends chan hookEnd
	// passed is what the process is to be started with at once: its hook before the start has succeeded.
	passed *planfile.Prepared
}

// hook is one command that runs.
type hook struct {
	point    plan.HookPoint
	prepared *planfile.Prepared
	cancel   context.CancelFunc
}

type hookEnd struct {
	hook *hook
	err  error
}

// hookAtWork says that a process is not started yet because of a hook. What comes next is when that has ended.
type hookAtWork struct{ why string }

func (e hookAtWork) Error() string { return "the process is not started yet: " + e.why }

// runHook runs the hook of a plan at a point in the background, where it has one.
func (s *Supervisor) runHook(point plan.HookPoint, prepared *planfile.Prepared) {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hook{point: point, prepared: prepared, cancel: cancel}
	s.hooks.current = h
	s.hooks.alive++
	s.log.Info("hook started", "hook", string(point))
	launcher := s.launcher
	go func() {
		end := hookEnd{h, launcher.Hook(ctx, prepared, point)}
		select {
		case s.hooks.ends <- end:
		case <-s.ended:
		}
	}()
}

// abandonHook kills the hook of the state that ends. Nothing is started before it has ended.
func (s *Supervisor) abandonHook() {
	if s.hooks.current != nil {
		s.hooks.current.cancel()
		s.hooks.current = nil
	}
}

// onHookEnded: the command of a hook has ended.
func (s *Supervisor) onHookEnded(end hookEnd) {
	s.hooks.alive--
	end.hook.cancel()
	if s.hooks.current != end.hook {
		s.onHookGone()
		return
	}
	s.hooks.current = nil
	err := end.err
	if err != nil {
		err = fmt.Errorf("hook %s: %w", end.hook.point, err)
		s.log.Error("a hook failed", "error", err.Error())
	} else {
		s.log.Info("hook succeeded", "hook", string(end.hook.point))
	}
	switch {
	case end.hook.point == plan.PreStop:
		s.signalStop()
	case err == nil && end.hook.point == plan.PreStart:
		s.hooks.passed = end.hook.prepared
		s.start()
	case err != nil && end.hook.point == plan.PreStart:
		s.settlePending(err)
		s.enterBackoff(err.Error())
	case err != nil:
		s.message = err.Error()
	}
}

// onHookGone: a hook that was abandoned has ended. Who waits for that goes on.
func (s *Supervisor) onHookGone() {
	switch {
	case s.hooks.alive > 0:
	case s.state == starting && s.process == nil:
		s.start()
	case s.state == stopped:
		s.releaseStopped()
	}
}

// beginPreStart runs the hook before a start, when the process has a role to be started in.
func (s *Supervisor) beginPreStart(next *planfile.Prepared) error {
	if err := s.castable(); err != nil {
		return err
	}
	if err := next.Write(s.prepared); err != nil {
		return err
	}
	s.runHook(plan.PreStart, next)
	return hookAtWork{fmt.Sprintf("hook %s runs", plan.PreStart)}
}
