// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/expression"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/protocol"
	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

const (
	// maxRunning is how many actions run at once.
	maxRunning = 4
	// maxOutputs bounds all outputs of an action together, in bytes: they are kept with the call.
	maxOutputs = 16 << 10
)

// Call asks for an action.
type Call struct {
	// Key is the idempotency key.
	Key string
	// Term of the caller.
	Term uint64
	// Action by name.
	Action string
	// Parameters by name.
	Parameters map[string]string
	// Timeout; 0, or more than the action declares, is what that declares.
	Timeout time.Duration
}

// method names the intent: a key cannot be used for another one. Values may be nobody else's business, so they are not
// in it.
func (c Call) method() string {
	// A map of texts.
	data, err := json.Marshal(c.Parameters)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(data)
	return "Run " + c.Action + " with parameters " + hex.EncodeToString(sum[:6])
}

// Runner runs actions. It is safe for concurrent use.
type Runner struct {
	dirs    planfile.Dirs
	secret  configfile.Lookup
	drivers *protocol.Drivers
	starter command.Starter
	log     *slog.Logger

	mu      sync.Mutex
	store   *callrecord.Store
	running map[string]*Run
	// ending is closed by Close, which waits for the runs.
	ending context.Context
	end    context.CancelFunc
	runs   sync.WaitGroup
}

// New returns a Runner that keeps its calls in the store.
func New(dirs planfile.Dirs, secret configfile.Lookup, starter command.Starter, store *callrecord.Store,
	log *slog.Logger) *Runner {
	r := &Runner{dirs: dirs, secret: secret, drivers: protocol.New(dirs.Certificates, secret), starter: starter,
		store: store, log: log, running: map[string]*Run{}}
	r.ending, r.end = context.WithCancel(context.Background())
	return r
}

// Close ends the actions that run, which count as interrupted, and waits for them.
func (r *Runner) Close() {
	r.mu.Lock()
	r.end()
	r.mu.Unlock()
	r.runs.Wait()
}

// Drivers of the pod.
func (r *Runner) Drivers() *protocol.Drivers { return r.drivers }

// Plan is the present one as it is for this pod.
func (r *Runner) Plan() (*plan.Plan, error) {
	p, err := r.dirs.Current()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	here, err := r.dirs.Expand(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	return here, nil
}

// Run begins an action. A call that was made before does nothing again: what is returned is that run, or its record.
func (r *Runner) Run(call Call) (*Run, error) {
	return r.Once(Intent{Key: call.Key, Method: call.method(), Term: call.Term}, func() (Work, error) {
		job, err := r.prepare(call)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, run *Run) callrecord.Outcome {
			job.spec.Follow = func(stream command.Stream, data []byte) { run.tell(stream, []byte(job.redacted(string(data)))) }
			job.progress = func(text string) { run.progress(job.redacted(text)) }
			outcome, _ := job.run(ctx, r.starter)
			return outcome
		}, nil
	})
}

// Intent names what is to be done once.
type Intent struct {
	// Key is the idempotency key.
	Key string
	// Method is what the key stands for; it cannot be used for anything else. It is written down.
	Method string
	// Term of the caller.
	Term uint64
}

// Work is what is done once. It ends when the context does.
type Work func(ctx context.Context, run *Run) callrecord.Outcome

// Once begins what prepare returns, unless it was begun before under the same key: what is returned is that run, or its
// record.
func (r *Runner) Once(intent Intent, prepare func() (Work, error)) (*Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, known, err := r.store.Find(intent.Key, intent.Method)
	if err != nil {
		return nil, err
	}
	if known {
		if run := r.running[intent.Key]; run != nil {
			return run, nil
		}
		return ended(record), nil
	}
	if err := r.ending.Err(); err != nil {
		return nil, err
	}
	if err := r.store.CheckTerm(intent.Term); err != nil {
		return nil, err
	}
	work, err := prepare()
	if err != nil {
		return nil, err
	}
	if len(r.running) >= maxRunning {
		return nil, ErrBusy
	}
	if err := r.store.Begin(intent.Key, intent.Method, intent.Term, ""); err != nil {
		return nil, err
	}
	run := &Run{done: make(chan struct{}),
		record: callrecord.Record{Key: intent.Key, Method: intent.Method,
			Outcome: callrecord.Outcome{Phase: callrecord.Running}}}
	r.running[intent.Key] = run
	r.log.Info("begins", "method", intent.Method, "key", intent.Key)
	r.runs.Go(func() { r.carryOut(run, work) })
	return run, nil
}

// job is what a call comes to.
type job struct {
	*compiled
	// filled has the parameters in their places.
	filled   *plan.Action
	drivers  *protocol.Drivers
	driver   *plan.Driver
	spec     command.Spec
	redacted func(string) string
	// progress records how far it is; nil where nobody asks.
	progress func(text string)
}

func (r *Runner) prepare(call Call) (*job, error) {
	p, err := r.Plan()
	if err != nil {
		return nil, err
	}
	declared, ok := p.Action(call.Action)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, call.Action)
	}
	if err := check(declared, call.Parameters); err != nil {
		return nil, err
	}
	c, err := compile(declared)
	if err != nil {
		return nil, fmt.Errorf("%w: action %q: %w", ErrPlan, call.Action, err)
	}
	filled := declared.Fill(call.Parameters)
	environ, redacted, err := planfile.PrepareAction(filled.Env, r.secret)
	if err != nil {
		return nil, fmt.Errorf("%w: action %q: %w", ErrPlan, call.Action, err)
	}
	timeout := planfile.Seconds(declared.TimeoutSeconds, plan.DefaultActionSeconds)
	if call.Timeout > 0 {
		timeout = min(timeout, call.Timeout)
	}
	return &job{compiled: c, filled: filled, drivers: r.drivers, driver: p.Driver, redacted: redacted,
		spec: command.Spec{Command: filled.Command, Env: environ, Timeout: timeout}}, nil
}

// carryOut does the work to its end and records what came of it.
func (r *Runner) carryOut(run *Run, work Work) {
	outcome := work(r.ending, run)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.store.Finish(run.record.Key, outcome); err != nil {
		// The outcome stands while this agent runs; the next one takes the call for an interrupted one.
		r.log.Error("cannot record how a call ended", "method", run.record.Method, "error", err.Error())
	}
	r.log.Info("ended", "method", run.record.Method, "key", run.record.Key, "phase", string(outcome.Phase), "message",
		outcome.Message)
	delete(r.running, run.record.Key)
	run.finish(outcome)
}

// Execute runs an action as a part of something else, which keeps the record. What it wrote to standard output is as it
// is; secrets, which are values of parameters, are taken out of the outcome.
func (r *Runner) Execute(ctx context.Context, name string, parameters map[string]string, secrets ...string) (
	callrecord.Outcome, string) {
	job, err := r.prepare(Call{Action: name, Parameters: parameters})
	if err != nil {
		return callrecord.Outcome{Phase: callrecord.Failed, Message: err.Error()}, ""
	}
	outcome, result := job.run(ctx, r.starter)
	for _, secret := range secrets {
		if secret != "" {
			outcome.Message = strings.ReplaceAll(outcome.Message, secret, "***")
		}
	}
	return outcome, result.Stdout
}

// run runs the command, or the query, and judges it.
func (j *job) run(ctx context.Context, starter command.Starter) (outcome callrecord.Outcome, result command.Result) {
	var err error
	if j.filled.Query != nil {
		result, err = j.query(ctx)
	} else {
		result, err = command.Run(ctx, starter, j.spec)
	}
	outcome = j.judge(result, err)
	outcome.Message = j.redacted(outcome.Message)
	return outcome, result
}

func (j *job) judge(result command.Result, err error) callrecord.Outcome {
	failed := func(reason string) callrecord.Outcome {
		return callrecord.Outcome{Phase: callrecord.Failed, Message: fmt.Sprintf("action %q %s", j.Name, reason)}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return callrecord.Outcome{Phase: callrecord.Interrupted,
			Message: "the ops agent was stopped while it ran: how far it came is not known"}
	case errors.Is(err, command.ErrTimeout):
		return failed("was " + err.Error())
	case err != nil:
		return failed("cannot be judged: " + err.Error())
	}
	vars := expression.WithJSON(expression.Variables(result))
	success, err := j.success.Evaluate(vars)
	switch {
	case err != nil && result.Exit.ShellCode() == 0:
		return failed("cannot be judged: " + err.Error())
	case err != nil || !success && result.Exit.ShellCode() != 0:
		outcome := failed(expression.WithOutput("failed with "+result.Exit.String(), result))
		if result.Exit.Code == plan.ExitDataBad {
			outcome.Reason = report.ReasonDataBad
		}
		return outcome
	case !success:
		return failed(expression.WithOutput("says that it did not succeed", result))
	}
	return j.describe(vars)
}

// describe evaluates the outputs of an action that succeeded.
func (j *job) describe(vars map[string]any) callrecord.Outcome {
	outcome, size := callrecord.Outcome{Phase: callrecord.Succeeded}, 0
	for name, output := range j.outputs {
		value, err := output.Evaluate(vars)
		if size += len(value); err == nil && size > maxOutputs {
			err = fmt.Errorf("all together have more than %d KiB", maxOutputs>>10)
		}
		if err != nil {
			return callrecord.Outcome{Phase: callrecord.Failed,
				Message: fmt.Sprintf("action %q was carried out, but its outputs cannot be read: %v", j.Name, err)}
		}
		if outcome.Outputs == nil {
			outcome.Outputs = make(map[string]string, len(j.outputs))
		}
		outcome.Outputs[name] = j.redacted(value)
	}
	return outcome
}
