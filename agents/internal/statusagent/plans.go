// SPDX-License-Identifier: Apache-2.0

package statusagent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/probe"
	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/podtext"
)

// planWatch has the probe of the mounted plan. Before each probe it looks whether
// the file changed; a plan that cannot be used leaves the last usable one in place.
type planWatch struct {
	dirs    planfile.Dirs
	secret  configfile.Lookup
	starter command.Starter
	log     *slog.Logger

	seen     os.FileInfo
	err      error
	probe    *probe.Probe
	failures int
}

// current returns the probe to run. The error says why there is none.
func (w *planWatch) current() (*probe.Probe, error) {
	info, err := os.Stat(w.dirs.MountedPath())
	switch {
	case err != nil:
		w.seen, err = nil, fmt.Errorf("cannot read the mounted plan: %w", err)
	case w.hasSeen(info) && !errors.Is(w.err, podtext.ErrZoneUnknown):
		err = w.err
	default:
		w.seen = info
		err = w.load()
	}
	if err != nil && (w.err == nil || w.err.Error() != err.Error()) {
		w.log.Warn("the plan cannot be used", "error", err.Error())
	}
	w.err = err
	if w.probe != nil {
		return w.probe, nil
	}
	return nil, err
}

// hasSeen says whether the file is the one of the last look.
func (w *planWatch) hasSeen(info os.FileInfo) bool {
	return w.seen != nil && os.SameFile(w.seen, info) && w.seen.ModTime().Equal(info.ModTime()) &&
		w.seen.Size() == info.Size()
}

func (w *planWatch) load() error {
	p, err := w.dirs.Mounted()
	if err != nil {
		return err
	}
	here, err := w.dirs.Expand(p)
	if err != nil {
		return fmt.Errorf("cannot use plan: %w", err)
	}
	next, err := probe.New(here.Probe, w.secret, w.starter)
	if err != nil {
		return fmt.Errorf("cannot use the plan's probe: %w", err)
	}
	w.probe, w.failures = next, p.Probe.FailureThreshold
	return nil
}

// interval between probes of a well middleware.
func (w *planWatch) interval() time.Duration {
	if w.probe == nil {
		return probe.DefaultSeconds * time.Second
	}
	return w.probe.Interval()
}

// threshold is the FailureThreshold of the plan; 0 is the default.
func (w *planWatch) threshold() int { return w.failures }
