// SPDX-License-Identifier: Apache-2.0

// Package probe runs the command that says how the middleware is, and maps its
// output to health, role, version and attributes by the plan's CEL expressions.
package probe

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/expression"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// DefaultSeconds is both the interval and the timeout of a plan that gives none.
const DefaultSeconds = 2

// Cause is why a probe failed. While it stays the same, so does the reported message. Beside those below there are
// "exit code N" and "signal NAME" of a command, and "status N" and "no answer" of a request.
type Cause string

// Causes that are not the end of a command or a request.
const (
	// CausePlan: the plan or its expressions cannot be used.
	CausePlan Cause = "plan"
	// CauseExpression: an expression failed.
	CauseExpression Cause = "expression"
	// CauseUnhealthy: the expression healthy gave false although the command succeeded.
	CauseUnhealthy Cause = "unhealthy"
	// CauseOutOfConnections: the middleware answers, and has no connection left for the probe.
	CauseOutOfConnections Cause = "out of connections"
	// CauseTimeout: the command was killed at its deadline.
	CauseTimeout Cause = "timeout"
	// CauseStart: the command could not be run.
	CauseStart Cause = "start"
)

// Outcome of one probe.
type Outcome struct {
	// Cause of the failure; "" when the middleware is healthy.
	Cause Cause
	// Message says what is wrong.
	Message string
	// OutOfConnections is what the middleware said when it had no connection left for the probe, also where the probe
	// was let in by the reserved way.
	OutOfConnections string
	// Role, Version and MemberID are there when it is healthy.
	Role, Version, MemberID string
	// Attributes are there when it is healthy, and otherwise where the plan says so.
	Attributes map[string]string
}

// Probe is a plan's probe, ready to be run.
type Probe struct {
	plan        plan.Probe
	expressions *Expressions
	secret      configfile.Lookup
	starter     command.Starter
	// process is the one that is probed, and first what the command said of it; nil until it has succeeded.
	process int64
	first   *Outcome
}

// New compiles the probe of a plan. Its secrets are looked up each time that it is run.
func New(p plan.Probe, secret configfile.Lookup, starter command.Starter) (*Probe, error) {
	if len(p.Command) == 0 && p.HTTP == nil {
		return nil, errors.New("the plan has no probe: neither a command nor http")
	}
	expressions, err := Compile(p)
	if err != nil {
		return nil, err
	}
	return &Probe{plan: p, expressions: expressions, secret: secret, starter: starter}, nil
}

// Of has the next run be about a process, by its PID. A probe with a command and a request begins with the command for
// each process. It is not called during a run.
func (p *Probe) Of(process int64) {
	if process != p.process {
		p.process, p.first = process, nil
	}
}

// Interval between runs while all is well.
func (p *Probe) Interval() time.Duration {
	if h := p.plan.HTTP; h != nil && h.IntervalSeconds > 0 && (p.first != nil || len(p.plan.Command) == 0) {
		return planfile.Seconds(h.IntervalSeconds, DefaultSeconds)
	}
	return planfile.Seconds(p.plan.IntervalSeconds, DefaultSeconds)
}

// Run makes the request, or runs the command. With both it runs the command until that has succeeded for the process.
func (p *Probe) Run(ctx context.Context) Outcome {
	switch {
	case p.plan.HTTP == nil:
		return p.command(ctx)
	case len(p.plan.Command) == 0:
		return p.request(ctx, p.plan.HTTP, p.expressions.describe)
	case p.first != nil:
		return p.request(ctx, p.plan.HTTP, func(map[string]any) Outcome { return *p.first })
	}
	outcome := p.command(ctx)
	if outcome.Cause == "" {
		p.first = &outcome
	}
	return outcome
}

// command runs the command, and again by the reserved way where the middleware has no connection left.
func (p *Probe) command(ctx context.Context) Outcome {
	env, err := planfile.Environ(os.Environ(), p.plan.Env, p.secret)
	if err != nil {
		return Outcome{Cause: CauseStart, Message: "cannot run the probe: " + err.Error()}
	}
	outcome := p.once(ctx, p.plan.Command, env)
	if outcome.Cause != CauseOutOfConnections || len(p.plan.Reserved) == 0 {
		return outcome
	}
	reserved := p.once(ctx, slices.Concat(p.plan.Command, p.plan.Reserved), env)
	switch reserved.Cause {
	case "", CauseUnhealthy, CauseExpression, CauseTimeout:
		reserved.OutOfConnections = outcome.OutOfConnections
		return reserved
	}
	// Nobody was let in there either, which says no more.
	return outcome
}

// once runs one command.
func (p *Probe) once(ctx context.Context, argv, env []string) Outcome {
	result, err := command.Run(ctx, p.starter, command.Spec{Command: argv, Env: env,
		Timeout: planfile.Seconds(p.plan.TimeoutSeconds, DefaultSeconds)})
	switch {
	case errors.Is(err, command.ErrTimeout):
		return Outcome{Cause: CauseTimeout, Message: "the probe was " + err.Error()}
	case err != nil:
		return Outcome{Cause: CauseStart, Message: "cannot run the probe: " + err.Error()}
	}
	return p.expressions.Judge(result)
}

// Judge maps the result of the command.
func (x *Expressions) Judge(result command.Result) Outcome {
	return x.judge(result, result.Exit.String(), x.describe)
}

// judge maps a result. end is how it ended, for a result that is a failure by itself, and describe says more of a
// middleware that is healthy.
func (x *Expressions) judge(result command.Result, end string, describe func(map[string]any) Outcome) Outcome {
	vars := expression.Variables(result)
	healthy, err := x.healthy.Evaluate(vars)
	if err == nil && healthy {
		return describe(vars)
	}
	outcome := x.failure(result, end, vars, err)
	if is(x.attributesWhen, vars) {
		// Attributes that cannot be computed are none: why it is not healthy has been said.
		outcome.Attributes, _ = x.describeAttributes(vars)
	}
	return outcome
}

// failure says why a middleware is not healthy. err is what became of the expression healthy.
func (x *Expressions) failure(result command.Result, end string, vars map[string]any, err error) Outcome {
	if is(x.outOfConnections, vars) {
		said := expression.FirstLine(result.Stderr + "\n" + result.Stdout)
		message := "there is no connection left for the probe: " + said
		return Outcome{Cause: CauseOutOfConnections, Message: message, OutOfConnections: said}
	}
	// The command's own failure explains most; an expression that it made fail does not.
	if result.Exit != (reaper.Exit{}) {
		return Outcome{Cause: Cause(end), Message: expression.WithOutput("the probe failed with "+end, result)}
	}
	if err != nil {
		return Outcome{Cause: CauseExpression, Message: err.Error()}
	}
	return Outcome{Cause: CauseUnhealthy, Message: expression.WithOutput("the probe says that it is not healthy", result)}
}

// is says whether an expression is there and true. One that fails is not.
func is(x *expression.Expression[bool], vars map[string]any) bool {
	if x == nil {
		return false
	}
	holds, err := x.Evaluate(vars)
	return err == nil && holds
}

// describe evaluates the other expressions of a healthy middleware.
func (x *Expressions) describe(vars map[string]any) Outcome {
	var o Outcome
	var err error
	fail := func(err error) Outcome { return Outcome{Cause: CauseExpression, Message: err.Error()} }
	for _, text := range []struct {
		into *string
		from *expression.Expression[string]
	}{{&o.Role, x.role}, {&o.Version, x.version}, {&o.MemberID, x.memberID}} {
		if text.from == nil {
			continue
		}
		if *text.into, err = text.from.Evaluate(vars); err != nil {
			return fail(err)
		}
	}
	if o.Attributes, err = x.describeAttributes(vars); err != nil {
		return fail(err)
	}
	return o
}

// describeAttributes evaluates the attributes; nil for none.
func (x *Expressions) describeAttributes(vars map[string]any) (map[string]string, error) {
	if len(x.attributes) == 0 {
		return nil, nil
	}
	values := make(map[string]string, len(x.attributes))
	for name, attribute := range x.attributes {
		value, err := attribute.Evaluate(vars)
		if err != nil {
			return nil, err
		}
		values[name] = value
	}
	return values, nil
}
