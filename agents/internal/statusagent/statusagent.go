// SPDX-License-Identifier: Apache-2.0

// Package statusagent is the status agent: it follows the process manager, runs
// the probe, and reports what it finds to the pod's annotation and to the kubelet.
package statusagent

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/follow"
	"github.com/zeroinfra/agents/internal/health"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/probe"
	"github.com/zeroinfra/agents/internal/publish"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

const (
	// soon is the time between probes while something is not well.
	soon = 200 * time.Millisecond
	// soonFor is how long that goes on after a change; then the plan's interval is soon enough.
	soonFor = time.Minute
)

// Agent is the status agent. All fields are required.
type Agent struct {
	// Dirs of the pod.
	Dirs planfile.Dirs
	// Socket of the process manager.
	Socket string
	// Starter runs the probe command.
	Starter command.Starter
	// Publisher writes the reports.
	Publisher *publish.Publisher
	// Read reads who may write in the pod's set.
	Read follow.Reader
	// Ready is told each report.
	Ready *Readiness
	// Log of the agent.
	Log *slog.Logger
}

// Run follows, probes and reports until the context ends.
func (a Agent) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	statuses := make(chan *agentv1.ProcessStatus)
	go follow.Process(ctx, a.Socket, statuses, a.Log)
	go follow.Reads(ctx, a.Socket, a.Read, a.Log)
	published := make(chan struct{})
	go func() {
		defer close(published)
		a.Publisher.Run(ctx)
	}()
	l := &loop{
		Agent:    a,
		judge:    health.New(),
		hold:     health.NewHold(a.Publisher.Written()),
		secrets:  &secrets{mounted: a.Dirs.Secret},
		outcomes: make(chan outcome, 1),
		probing:  time.NewTimer(time.Hour),
		holding:  time.NewTimer(time.Hour),
	}
	l.plans = planWatch{dirs: a.Dirs, secret: l.secrets.lookup, starter: a.Starter, log: a.Log}
	l.probing.Stop()
	l.holding.Stop()
	l.run(ctx, statuses)
	<-published
}

// outcome of a probe, and which process it was about.
type outcome struct {
	pid int64
	probe.Outcome
}

// loop is the state of a running agent; one goroutine owns it.
type loop struct {
	Agent
	judge *health.Judge
	hold  *health.Hold
	plans planWatch
	// secrets belong to the probe while one runs.
	secrets *secrets

	outcomes chan outcome
	// cancel ends the probe that runs; nil when none does.
	cancel context.CancelFunc
	// again says that another probe is wanted as soon as the running one has ended.
	again bool
	// changed is when the process last changed, or its probe began to fail.
	changed time.Time

	probing, holding *time.Timer
}

func (l *loop) run(ctx context.Context, statuses <-chan *agentv1.ProcessStatus) {
	for {
		l.report()
		select {
		case status := <-statuses:
			l.onStatus(status)
		case o := <-l.outcomes:
			l.onOutcome(o)
		case <-l.probing.C:
			l.onProbeTime(ctx)
		case <-l.holding.C:
			// report looks again.
		case <-ctx.Done():
			return
		}
	}
}

// onStatus: the process manager said something, or (nil) went away.
func (l *loop) onStatus(status *agentv1.ProcessStatus) {
	now := time.Now()
	if status == nil {
		l.judge.Away()
		return
	}
	if !l.judge.Process(now, status) {
		return
	}
	l.changed = now
	if l.cancel != nil {
		// What runs is about a process that is gone.
		l.cancel()
		l.again = true
		return
	}
	l.probing.Reset(0)
}

// onProbeTime begins a probe in the background, if there is a process.
func (l *loop) onProbeTime(ctx context.Context) {
	pid := l.judge.PID()
	if pid == 0 || l.cancel != nil {
		return
	}
	p, err := l.plans.current()
	if err != nil {
		l.judge.Probe(time.Now(), pid, probe.Outcome{Cause: probe.CausePlan, Message: err.Error()}, 0)
		l.probing.Reset(probe.DefaultSeconds * time.Second)
		return
	}
	l.secrets.begin(pid)
	p.Of(pid)
	ctx, l.cancel = context.WithCancel(ctx)
	go func() { l.outcomes <- outcome{pid: pid, Outcome: p.Run(ctx)} }()
}

// onOutcome: the probe has ended.
func (l *loop) onOutcome(o outcome) {
	l.cancel()
	l.cancel = nil
	if l.again {
		l.again = false
		l.probing.Reset(0)
		return
	}
	switch o.Cause {
	case "":
		l.secrets.succeeded()
	case probe.CauseOutOfConnections:
		// Who is turned away before the password is looked at knows no more of it.
	default:
		l.secrets.failed()
	}
	now, failed := time.Now(), l.judge.Failing()
	l.judge.Probe(now, o.pid, o.Outcome, l.plans.threshold())
	if l.judge.Failing() && !failed {
		l.changed = now
	}
	next := l.plans.interval()
	if l.judge.Failing() && now.Sub(l.changed) < soonFor {
		next = min(next, soon)
	}
	l.probing.Reset(next)
}

// report tells whoever is to know.
func (l *loop) report() {
	r := l.judge.Report()
	l.Ready.set(r)
	text, wait := l.hold.Due(time.Now(), r)
	if text != "" {
		l.Publisher.Set(text)
	}
	if wait > 0 {
		l.holding.Reset(wait)
	}
}

// Readiness is the latest report for the kubelet's questions.
type Readiness struct {
	latest atomic.Pointer[report.Report]
}

func (r *Readiness) set(now report.Report) { r.latest.Store(&now) }
