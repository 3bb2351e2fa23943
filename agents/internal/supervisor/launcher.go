// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/processlog"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

const (
	defaultReloadSeconds = 10
	// maxMessage bounds what a command's output adds to a message.
	maxMessage = 256
)

// System launches real processes through the reaper.
type System struct {
	Reaper *reaper.Reaper
	// Output is what the process writes to.
	Output *processlog.Log
}

// spoken is a process with what it wrote.
type spoken struct {
	*reaper.Process
	output *processlog.Log
	// from is the place of its first byte.
	from int64
}

// LastWords implements Process.
func (s spoken) LastWords() string { return s.output.LastWords(s.from) }

// Start starts the process. All that it leaves behind is ended with it.
func (l System) Start(p *planfile.Prepared, inherited *os.File) (Process, error) {
	// What the process before wrote is none of its words.
	l.Output.Drain()
	from := l.Output.Tail.End()
	process, err := l.Reaper.Start(reaper.Spec{Command: slices.Concat(p.Plan.Process.Command, p.Args), Env: p.Environ,
		Dir:    p.Plan.Process.Dir,
		Stdout: l.Output.Stdout, Stderr: l.Output.Stderr, Inherited: inherited, Family: reaper.Everyone})
	if err != nil {
		return nil, err
	}
	return spoken{process, l.Output, from}, nil
}

// Reload runs the reload command with the arguments appended; its exit code must be 0. The error has no secrets in it.
func (l System) Reload(ctx context.Context, p *planfile.Prepared, args ...string) error {
	how := p.Plan.Process.Reload
	argv := how.Command
	if len(how.Each) > 0 {
		argv = slices.Concat(how.Each, args)
	}
	return l.run(ctx, p, job{argv, p.ReloadEnviron, how.TimeoutSeconds, p.Redact})
}

// Renew runs the command of the plan's TLS; its exit code must be 0. The error has no secrets in it.
func (l System) Renew(ctx context.Context, p *planfile.Prepared) error {
	how := p.Plan.TLS.Reload
	return l.run(ctx, p, job{how.Command, p.RenewEnviron, how.TimeoutSeconds, p.Redact})
}

// Hook runs a hook of the process; its exit code must be 0. The error has no secrets in it.
func (l System) Hook(ctx context.Context, p *planfile.Prepared, point plan.HookPoint) error {
	how := p.Plan.Process.Hook(point)
	seconds := how.TimeoutSeconds
	if seconds == 0 {
		seconds = plan.DefaultHookSeconds
	}
	return l.run(ctx, p, job{how.Command, p.HookEnvirons[point], seconds, p.Redact})
}

// Act runs an action; its exit code must be 0. The error has no secrets in it.
func (l System) Act(ctx context.Context, p *planfile.Prepared, a Act) error {
	filled := a.Action.Fill(a.Parameters)
	environ, redact, err := planfile.PrepareAction(filled.Env, a.Secret)
	if err != nil {
		return err
	}
	seconds := a.Action.TimeoutSeconds
	if seconds == 0 {
		seconds = plan.DefaultActionSeconds
	}
	return l.run(ctx, p, job{filled.Command, environ, seconds, redact})
}

// job is a command to be run beside the process.
type job struct {
	argv, environ []string
	seconds       int
	redact        func(string) string
}

func (l System) run(ctx context.Context, p *planfile.Prepared, j job) error {
	result, err := command.Run(ctx, l.Reaper, command.Spec{Command: j.argv, Env: j.environ, Dir: p.Plan.Process.Dir,
		Timeout: planfile.Seconds(j.seconds, defaultReloadSeconds)})
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
	// Redacted before it is cut, so that no half of a secret is left.
	said = strings.ToValidUTF8(j.redact(said), "?")
	if len(said) > maxMessage {
		said = strings.ToValidUTF8(said[:maxMessage], "") + "…"
	}
	return commandError{exit: result.Exit, said: said}
}

// commandError is a reload command that ended with something else than exit code 0.
type commandError struct {
	exit reaper.Exit
	// said is what it wrote.
	said string
}

func (e commandError) Error() string {
	if e.said == "" {
		return e.exit.String()
	}
	return e.exit.String() + ": " + e.said
}

// inDoubt says whether a command may have done its work although it failed: it was ended before it could tell.
func inDoubt(err error) bool {
	var ended commandError
	if errors.As(err, &ended) {
		return ended.exit.Signal != 0
	}
	return errors.Is(err, command.ErrTimeout) || errors.Is(err, command.ErrTooMuchOutput)
}
