// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"cmp"
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/datalock"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/podtext"
)

// Defaults of plan.Stop and plan.Backoff.
const (
	defaultStopSignal     = syscall.SIGTERM
	defaultStopSeconds    = 30
	defaultInitialBackoff = 200 * time.Millisecond
	defaultMaxSeconds     = 30
	defaultResetSeconds   = 60
	// lockInterval is the time between looks at the lock of the data folder.
	lockInterval = 200 * time.Millisecond
	// zoneInterval is the time between looks for the zone of the node, which comes within a second or two.
	zoneInterval = 200 * time.Millisecond
)

// resume takes up what the container before has left: calls without an outcome, and the intent.
func (s *Supervisor) resume() {
	record := s.store.State()
	for _, call := range record.Calls {
		if call.Phase != callrecord.Running {
			continue
		}
		switch {
		case call.Method == methodStop && record.Intent == callrecord.Stop:
			s.finish(call.Key, nil)
		case (call.Method == methodStart || call.Method == methodRestart) && record.Intent == callrecord.Run:
			s.supersede(call.Key)
		default:
			s.finish(call.Key, errors.New("the container was restarted before the outcome was known"))
		}
	}
	s.start()
}

// start starts the process, or leaves it stopped when the gate is closed, or waits for the data folder. On a
// failure it is tried again after a delay.
func (s *Supervisor) start() {
	s.message = ""
	if s.store.State().Intent == callrecord.Stop {
		s.enter(stopped)
		s.joinStopped()
		return
	}
	before := s.state
	s.enter(starting)
	err := s.launch()
	if errors.Is(err, datalock.ErrHeld) {
		s.enterWaiting(before, err.Error()+"; the process is started as soon as that one has ended", lockInterval)
		return
	}
	if waits, ok := errors.AsType[hookAtWork](err); ok {
		s.message = waits.Error()
		return
	}
	if errors.Is(err, podtext.ErrZoneUnknown) {
		s.enterWaiting(before, err.Error(), zoneInterval)
		return
	}
	if refused, ok := errors.AsType[notYet](err); ok {
		s.enterWaiting(before, refused.Error(), roleInterval)
		return
	}
	if err != nil {
		s.log.Error("cannot start the process", "error", err.Error())
		s.settlePending(err)
		s.enterBackoff(err.Error())
		return
	}
	s.log.Info("process started", "pid", s.process.PID(), "configDigest", s.prepared.Plan.Digest)
	s.timer.Reset(settleTime)
}

// launch writes the files and starts the process, after the hook before the start. Until one was started, each
// attempt reads the plan anew, so that a mended one is taken.
func (s *Supervisor) launch() error {
	if s.hooks.alive > 0 {
		return hookAtWork{"a hook that is no longer wanted has yet to end"}
	}
	passed := s.hooks.passed
	s.hooks.passed = nil
	next := cmp.Or(passed, s.next)
	if next == nil {
		var err error
		if next, err = s.prepare(); err != nil {
			return err
		}
	}
	if err := s.lock.Take(next.Plan.Process.Dir); err != nil {
		return err
	}
	if err := s.join(next); err != nil {
		return err
	}
	if passed == nil && next.Plan.Process.Hook(plan.PreStart) != nil {
		return s.beginPreStart(next)
	}
	as, err := s.cast(next)
	if err != nil {
		return err
	}
	if err := next.Write(s.prepared); err != nil {
		return err
	}
	s.certificateStarts(next)
	s.logsStart(next)
	if err := s.store.Started(); err != nil {
		// A full disk is no reason to keep the process down.
		s.log.Error("cannot record the start", "error", err.Error())
	}
	process, err := s.startAs(as, next)
	if err != nil {
		return err
	}
	s.process, s.prepared, s.next, s.startedAt = process, next, nil, time.Now()
	s.partBegins(as)
	s.effects = effectsOf(next.Dynamic)
	return nil
}

// prepare reads the secrets of the plan of the process before, or of the current plan when there was none.
func (s *Supervisor) prepare() (*planfile.Prepared, error) {
	if s.prepared != nil {
		return s.dirs.Prepare(s.prepared.Source)
	}
	p, err := s.dirs.Current()
	if err != nil {
		return nil, err
	}
	return s.dirs.Prepare(p)
}

func (s *Supervisor) enter(next state) {
	s.abandonHook()
	s.state = next
	s.timer.Stop()
}

// onTimer ends the wait of the state.
func (s *Supervisor) onTimer() {
	switch s.state {
	case starting:
		s.onSettled()
	case stopping:
		if s.after == leave && s.hooks.current != nil {
			s.log.Warn("the hook before the stop is cut short: the pod ends")
			s.abandonHook()
			s.signalStop()
			return
		}
		s.onStopTimeout()
	case backoff, waiting:
		s.start()
	case stopped:
		s.joinStopped()
	case running:
		// It sets no timer; an expiry that was already under way means nothing.
	}
}

// onSettled: the process has stayed up long enough.
func (s *Supervisor) onSettled() {
	s.enter(running)
	s.settlePending(nil)
	if s.prepared.Plan.Process.Hook(plan.PostStart) != nil {
		s.runHook(plan.PostStart, s.prepared)
	}
	s.reconsider()
}

// onExited: the process and its group are gone.
func (s *Supervisor) onExited(exit reaper.Exit) {
	s.log.Info("process ended", "pid", s.process.PID(), "exit", exit.String())
	ran := time.Since(s.startedAt)
	ended := s.process
	fenced := s.fenced(ended)
	s.process = nil
	s.partEnded()
	if err := s.store.Exited(exit.String()); err != nil {
		s.log.Error("cannot record the end of the process", "error", err.Error())
	}
	s.cancelReload(errors.New("the process ended: " + exit.String()))
	s.cancelRenewal()
	if s.state == stopping {
		s.onStopped(exit)
		return
	}
	if fenced {
		s.settlePending(errFenced)
		s.start()
		return
	}
	if ran >= planfile.Seconds(s.prepared.Plan.Process.Backoff.ResetSeconds, defaultResetSeconds) {
		s.failures = 0
	}
	message := "the process ended by itself: " + exit.String()
	if said := s.lastWords(ended, exit); said != "" {
		message += ": " + said
	}
	s.settlePending(errors.New(message))
	s.enterBackoff(message)
}

// enterBackoff waits before the next start.
func (s *Supervisor) enterBackoff(message string) {
	s.message = message
	s.enter(backoff)
	var limits plan.Backoff
	if s.prepared != nil {
		limits = s.prepared.Plan.Process.Backoff
	}
	s.timer.Reset(backoffDelay(limits, s.failures))
	s.failures++
}

// enterWaiting tries again soon. What is pending stays so.
func (s *Supervisor) enterWaiting(before state, message string, interval time.Duration) {
	if before != waiting {
		s.log.Warn("waiting", "error", message)
	}
	s.message = message
	s.enter(waiting)
	s.timer.Reset(interval)
}

// backoffDelay doubles with each failure in a row.
func backoffDelay(limits plan.Backoff, failures int) time.Duration {
	delay := defaultInitialBackoff
	if limits.InitialMilliseconds > 0 {
		delay = time.Duration(limits.InitialMilliseconds) * time.Millisecond
	}
	longest := planfile.Seconds(limits.MaxSeconds, defaultMaxSeconds)
	for range failures {
		if delay >= longest {
			break
		}
		delay *= 2
	}
	return min(delay, longest)
}

// beginStop sends the stop signal, after the hook before the stop, which has a time of its own. The process exists.
func (s *Supervisor) beginStop(after afterStop) {
	s.after = after
	if s.state != stopping {
		s.enter(stopping)
		if s.prepared.Plan.Process.Hook(plan.PreStop) == nil {
			s.signalStop()
			return
		}
		s.runHook(plan.PreStop, s.prepared)
	}
	if s.hooks.current != nil {
		s.timer.Reset(s.hookTime())
	}
}

// hookTime is what the hook before the stop has from now on. It ends by itself in its time, and one that does not is no
// reason to go on for ever. Where the pod ends, it has no more than the pod's grace period allows for.
func (s *Supervisor) hookTime() time.Duration {
	limit := planfile.Seconds(s.prepared.Plan.Process.Hook(plan.PreStop).TimeoutSeconds, plan.DefaultHookSeconds)
	if s.after == leave {
		return min(limit, plan.MaxPodHookSeconds*time.Second)
	}
	return limit + s.stopTime()
}

// stopTime is what the process has from the stop signal on.
func (s *Supervisor) stopTime() time.Duration {
	return planfile.Seconds(s.prepared.Plan.Process.Stop.TimeoutSeconds, defaultStopSeconds)
}

// signalStop sends the stop signal.
func (s *Supervisor) signalStop() {
	s.timer.Reset(s.stopTime())
	stop := s.prepared.Plan.Process.Stop
	sig := defaultStopSignal
	if stop.Signal != "" {
		// The name was checked when the plan was read.
		sig, _ = planfile.Signal(stop.Signal)
	}
	if err := s.process.Signal(sig); err != nil && !errors.Is(err, reaper.ErrEnded) {
		s.log.Error("cannot stop the process", "error", err.Error())
	}
}

// onStopTimeout: the process did not end in time.
func (s *Supervisor) onStopTimeout() {
	s.abandonHook()
	s.message = "the process did not stop in time and was killed"
	s.log.Warn(s.message, "pid", s.process.PID())
	if err := s.process.SignalGroup(syscall.SIGKILL); err != nil && !errors.Is(err, reaper.ErrEnded) {
		s.log.Error("cannot kill the process", "error", err.Error())
	}
}

// onStopped: the process ended because it was told to.
func (s *Supervisor) onStopped(exit reaper.Exit) {
	s.failures = 0
	switch s.after {
	case startAgain:
		s.start()
	case stayStopped:
		s.enterStopped()
	case leave:
		s.exitCode = exit.ShellCode()
		s.enter(stopped)
	}
}

// enterStopped: the process is gone and stays so.
func (s *Supervisor) enterStopped() {
	s.enter(stopped)
	s.message = ""
	s.next = nil
	s.releaseStopped()
	s.settlePending(nil)
}

// releaseStopped gives the data folder of a stopped process back, once no hook is at work on it any more.
func (s *Supervisor) releaseStopped() {
	// What a member has promised must stay its own.
	if s.fence.member == nil && s.hooks.alive == 0 {
		s.lock.Release()
	}
}

// onShutdown: PID 1 was told to end. What is pending is taken up by the next container.
func (s *Supervisor) onShutdown() {
	s.log.Info("shutting down")
	s.cancelReload(ErrShuttingDown)
	s.cancelRenewal()
	if s.process != nil {
		s.beginStop(leave)
		return
	}
	s.after = leave
	s.enter(stopped)
}

// onForward passes a signal on when the plan allows it.
func (s *Supervisor) onForward(sig syscall.Signal) {
	name := unix.SignalName(sig)
	if s.process == nil || !slices.Contains(s.prepared.Plan.Process.Signals, name) {
		s.log.Info("signal ignored: the plan does not allow it, or no process runs", "signal", name)
		return
	}
	if err := s.process.Signal(sig); err != nil {
		s.log.Error("cannot forward a signal", "error", err.Error())
	}
}
