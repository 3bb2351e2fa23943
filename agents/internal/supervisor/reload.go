// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// ErrRestartRequired says that a reload cannot take over what a plan changes. The call is recorded with this as its
// reason.
var ErrRestartRequired = errors.New("use Restart")

// reload is a reload that is under way.
type reload struct {
	key      string
	prepared *planfile.Prepared
	// pushed is the plan of the call, to be kept when the reload succeeds.
	pushed *plan.Plan
	// changed are the settings that a command is run for, where the plan has one for each.
	changed []change
	done    chan reloaded
	cancel  context.CancelFunc
}

// reloaded is how far a reload came.
type reloaded struct {
	// taken is how many of the changed settings the process has taken over.
	taken int
	// err is why the next one, or the whole, failed.
	err error
}

// checkReload refuses what a reload cannot take over, before anything is touched.
func (s *Supervisor) checkReload(next *planfile.Prepared) error {
	if s.state == backoff {
		return fmt.Errorf("the process does not stay up; %w", ErrRestartRequired)
	}
	if err := s.mustRun(); err != nil {
		return fmt.Errorf("%w; use Start or Restart", err)
	}
	if next.Plan.Process.Reload == nil {
		return fmt.Errorf("the plan declares no reload; %w", ErrRestartRequired)
	}
	if now := s.prepared.Plan.RestartDigest; now == "" || now != next.Plan.RestartDigest {
		return fmt.Errorf("the plan changes more than dynamic settings; %w", ErrRestartRequired)
	}
	if len(next.Plan.Process.Reload.Each) == 0 {
		return nil
	}
	_, err := s.effects.changes(next.Dynamic, next.Plan.Process.Reload.ResetValues)
	return err
}

func (s *Supervisor) onReloadCall(call Call, next *planfile.Prepared) {
	r := &reload{key: call.key, prepared: next, pushed: call.plan}
	if how := next.Plan.Process.Reload; len(how.Each) > 0 {
		// The error was looked for when the call was checked.
		r.changed, _ = s.effects.changes(next.Dynamic, how.ResetValues)
	}
	if err := next.Write(s.prepared); err != nil {
		s.restoreFiles(next)
		s.finish(call.key, err)
		return
	}
	s.runReload(r)
}

// runReload sends the signal, or runs the command or commands in the background.
func (s *Supervisor) runReload(r *reload) {
	ctx, cancel := context.WithCancel(context.Background())
	r.done, r.cancel = make(chan reloaded, 1), cancel
	s.reload = r
	how := r.prepared.Plan.Process.Reload
	if how.Signal != "" {
		// The name was checked when the plan was read.
		sig, _ := planfile.Signal(how.Signal)
		r.done <- reloaded{err: s.process.Signal(sig)}
		return
	}
	launcher := s.launcher
	go func() { r.done <- r.run(ctx, launcher) }()
}

// run runs the command, or the command for each changed setting up to the first that fails.
func (r *reload) run(ctx context.Context, launcher Launcher) reloaded {
	if len(r.prepared.Plan.Process.Reload.Each) == 0 {
		if err := launcher.Reload(ctx, r.prepared); err != nil {
			return reloaded{err: fmt.Errorf("reload command: %w", err)}
		}
		return reloaded{}
	}
	for i, setting := range r.changed {
		if err := launcher.Reload(ctx, r.prepared, setting.Key, setting.Value); err != nil {
			return reloaded{taken: i, err: fmt.Errorf("reload command for setting %q: %w", setting.Key, err)}
		}
	}
	return reloaded{taken: len(r.changed)}
}

// onReloaded: the reload command, or the signal, is done.
func (s *Supervisor) onReloaded(how reloaded) {
	done := s.reload
	s.reload = nil
	done.cancel()
	s.effects.record(done.changed, how)
	err := how.err
	if err == nil && done.pushed != nil {
		err = s.dirs.Push(done.pushed)
	}
	if err != nil {
		s.restoreFiles(done.prepared)
		s.finish(done.key, err)
		return
	}
	s.prepared, s.effects = done.prepared, effectsOf(done.prepared.Dynamic)
	s.log.Info("reloaded", "configDigest", s.prepared.Plan.Digest, "settings", len(done.changed))
	s.finish(done.key, nil)
}

// digests are those of the plan that the process runs with, all of it.
func (s *Supervisor) digests() (config, restart string) {
	now := s.prepared.Plan
	switch {
	case s.prepared.Outdated != "":
		// It was started with another password than the plan asks for: only a restart can change that.
		return report.DigestMixed, report.DigestMixed
	case !s.effects.equal(effectsOf(s.prepared.Dynamic)):
		return report.DigestMixed, now.RestartDigest
	}
	return now.Digest, now.RestartDigest
}

// cancelReload ends a reload that is under way, with the reason as its outcome. The process ends, too, so that what it
// has taken over does not matter.
func (s *Supervisor) cancelReload(reason error) {
	if s.reload == nil {
		return
	}
	canceled := s.reload
	s.reload = nil
	canceled.cancel()
	s.restoreFiles(canceled.prepared)
	s.finish(canceled.key, reason)
}

// restoreFiles brings back the files that the process was started with, so that
// a restart after a crash does not take configuration that was refused.
func (s *Supervisor) restoreFiles(written *planfile.Prepared) {
	if err := s.prepared.Write(written); err != nil {
		s.log.Error("cannot restore the configuration files", "error", err.Error())
	}
}
