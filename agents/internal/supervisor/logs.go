// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"os"
	"time"

	"github.com/zeroinfra/agents/internal/logfiles"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// logsInterval is the time between looks at the access logs. The part of the volume that they must not take is for what
// a process writes in it.
const logsInterval = 2 * time.Second

// logs are the access logs of the process.
type logs struct {
	// ticker of the looks; nil where the process logs to no volume.
	ticker *time.Ticker
	// bounds of the files.
	bounds *plan.Logs
	// mounted tells the mounted plan of the last look from the next: a larger volume comes with that, and with no call.
	mounted time.Time
	// failing keeps an error that stays from being logged at every look.
	failing bool
}

func (s *Supervisor) logsTick() <-chan time.Time {
	if s.logs.ticker == nil {
		return nil
	}
	return s.logs.ticker.C
}

// logsStart follows the access logs of a process that is started.
func (s *Supervisor) logsStart(next *planfile.Prepared) {
	if s.logs.ticker != nil {
		s.logs.ticker.Stop()
	}
	s.logs = logs{bounds: next.Plan.Logs}
	if s.logs.bounds != nil {
		s.logs.ticker = time.NewTicker(logsInterval)
	}
}

// onLogsTick keeps the access logs within their bounds. A process that is not up writes nothing, and one that comes up
// may not yet know the signal.
func (s *Supervisor) onLogsTick() {
	if s.state != running {
		return
	}
	s.lookAtBounds()
	renamed, err := logfiles.Bound(s.logs.bounds)
	if err != nil && !s.logs.failing {
		s.log.Error("the access logs may fill their volume", "error", err.Error())
	}
	s.logs.failing = err != nil
	if !renamed {
		return
	}
	// The name was checked when the plan was read.
	sig, _ := planfile.Signal(s.logs.bounds.Signal)
	if err := s.process.Signal(sig); err != nil {
		s.log.Error("cannot have the process open its access logs anew", "error", err.Error())
		return
	}
	s.log.Info("access logs renamed")
}

// lookAtBounds takes up how large the volume is now.
func (s *Supervisor) lookAtBounds() {
	info, err := os.Stat(s.dirs.MountedPath())
	if err != nil || info.ModTime().Equal(s.logs.mounted) {
		return
	}
	s.logs.mounted = info.ModTime()
	// One that cannot be read is reported by who needs it.
	mounted, err := s.dirs.Mounted()
	if err == nil && mounted.Logs != nil && mounted.Logs.Dir == s.logs.bounds.Dir {
		s.logs.bounds = mounted.Logs
	}
}
