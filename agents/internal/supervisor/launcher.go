// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/reaper"
)

const (
	defaultReloadSeconds = 10
	// maxMessage bounds what a command's output adds to a message.
	maxMessage = 256
)

// System launches real processes through the reaper. The process inherits this
// program's standard output and error, so nothing stands between it and the container's log.
type System struct {
	Reaper *reaper.Reaper
}

// Start starts the process.
func (l System) Start(p *planfile.Prepared) (Process, error) {
	process, err := l.Reaper.Start(reaper.Spec{Command: p.Plan.Process.Command, Env: p.Environ, Dir: p.Plan.Process.Dir,
		Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		return nil, err
	}
	return process, nil
}

// Reload runs the reload command; its exit code must be 0.
func (l System) Reload(ctx context.Context, p *planfile.Prepared) error {
	how := p.Plan.Process.Reload
	result, err := command.Run(ctx, l.Reaper, command.Spec{Command: how.Command, Env: p.ReloadEnviron, Dir: p.Plan.Process.Dir,
		Timeout: planfile.Seconds(how.TimeoutSeconds, defaultReloadSeconds)})
	if err != nil {
		return err
	}
	if result.Exit == (reaper.Exit{}) {
		return nil
	}
	said := strings.TrimSpace(result.Stderr)
	if said == "" {
		said = strings.TrimSpace(result.Stdout)
	}
	if said == "" {
		return errors.New(result.Exit.String())
	}
	if len(said) > maxMessage {
		said = strings.ToValidUTF8(said[:maxMessage], "") + "…"
	}
	return fmt.Errorf("%s: %s", result.Exit, strings.ToValidUTF8(said, "?"))
}
