// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// Methods as they are recorded.
const (
	methodStart   = "Start"
	methodStop    = "Stop"
	methodRestart = "Restart"
	methodReload  = "Reload"
	methodSignal  = "Signal"
)

// Errors of Call, beside those of package callrecord.
var (
	// ErrInvalid says that a call makes no sense whenever it is made.
	ErrInvalid = errors.New("invalid call")
	// ErrBusy says that the call must be made again later.
	ErrBusy = errors.New("another reload is under way")
	// ErrSecretsPending says that the pod does not have the passwords of a plan yet: the call must be made again later.
	ErrSecretsPending = errors.New("the pod does not have the changed password yet; the kubelet brings it within a " +
		"minute or two")
)

// Call is a request to change something. Make one with the function of its method.
type Call struct {
	key    string
	term   uint64
	method string
	plan   *plan.Plan
	signal string
}

// Start starts a stopped process.
func Start(key string, term uint64) Call { return Call{key: key, term: term, method: methodStart} }

// Stop stops the process until Start or Restart.
func Stop(key string, term uint64) Call { return Call{key: key, term: term, method: methodStop} }

// Restart stops the process and starts it, with the plan when there is one.
func Restart(key string, term uint64, p *plan.Plan) Call {
	return Call{key: key, term: term, method: methodRestart, plan: p}
}

// Reload has the process take over configuration, from the plan when there is one.
func Reload(key string, term uint64, p *plan.Plan) Call {
	return Call{key: key, term: term, method: methodReload, plan: p}
}

// Signal sends a signal that the plan allows.
func Signal(key string, term uint64, name string) Call {
	return Call{key: key, term: term, method: methodSignal, signal: name}
}

// request is a call on its way to the goroutine of Run.
type request struct {
	call  Call
	reply chan answer
}

type answer struct {
	record callrecord.Record
	err    error
}

// Call records a call and begins to carry it out. A key that was used before is
// answered from the record. An error means that nothing was recorded or done.
func (s *Supervisor) Call(ctx context.Context, call Call) (*agentv1.CallRecord, error) {
	r := request{call: call, reply: make(chan answer, 1)}
	select {
	case s.calls <- r:
	case <-s.ended:
		return nil, ErrShuttingDown
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// Once taken, a call is answered without waiting for anything outside.
	a := <-r.reply
	if a.err != nil {
		return nil, a.err
	}
	return wireRecord(a.record), nil
}

// onCall: somebody wants something.
func (s *Supervisor) onCall(call Call) answer {
	record, known, err := s.store.Find(call.key, call.method)
	if known || err != nil {
		return answer{record: record, err: err}
	}
	if err := s.admit(call); err != nil {
		return answer{err: err}
	}
	intents := map[string]callrecord.Intent{methodStart: callrecord.Run, methodRestart: callrecord.Run,
		methodStop: callrecord.Stop}
	next, refusal := s.check(call)
	if call.plan != nil && next != nil && next.Outdated != "" {
		// With the old password it would be no process of this plan. Nothing is touched or recorded.
		return answer{err: fmt.Errorf("credential %q: %w", next.Outdated, ErrSecretsPending)}
	}
	if refusal != nil {
		// A call that cannot be carried out is on record, and changes nothing else.
		intents = nil
	}
	if refusal == nil && call.method == methodRestart && call.plan != nil {
		// Before it is on record: a call on record without its plan would end well with the one of before, if this process
		// ended in between.
		if err := s.dirs.Push(call.plan); err != nil {
			return answer{err: err}
		}
	}
	if err := s.store.Begin(call.key, call.method, call.term, intents[call.method]); err != nil {
		return answer{err: err}
	}
	s.log.Info("call", "call", call.String())
	if refusal != nil {
		s.finish(call.key, refusal)
	} else {
		s.carryOut(call, next)
	}
	record, _, err = s.store.Find(call.key, call.method)
	return answer{record: record, err: err}
}

// admit refuses calls that leave no record.
func (s *Supervisor) admit(call Call) error {
	if s.after == leave {
		return ErrShuttingDown
	}
	if err := errors.Join(s.store.CheckTerm(call.term), s.staleTerm(call.term)); err != nil {
		return err
	}
	if call.method == methodReload && s.reload != nil {
		return fmt.Errorf("%w: %q", ErrBusy, s.reload.key)
	}
	if call.method != methodSignal {
		return nil
	}
	if _, err := planfile.Signal(call.signal); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if s.prepared != nil && !slices.Contains(s.prepared.Plan.Process.Signals, call.signal) {
		return fmt.Errorf("%w: the plan does not allow %s; it allows %v", ErrInvalid, call.signal,
			s.prepared.Plan.Process.Signals)
	}
	return nil
}

// check finds out whether a call can be carried out, before anything running is
// touched, and prepares the plan that it needs.
func (s *Supervisor) check(call Call) (*planfile.Prepared, error) {
	switch call.method {
	case methodSignal:
		return nil, s.mustRun()
	case methodStart:
		if !s.mustStart() {
			return nil, nil
		}
		return s.prepareCall(call)
	case methodRestart:
		return s.prepareCall(call)
	case methodReload:
		prepared, err := s.prepareCall(call)
		if err != nil {
			return nil, err
		}
		return prepared, s.checkReload(prepared)
	}
	return nil, nil
}

// prepareCall prepares the plan of the call, or the current one when it has none.
func (s *Supervisor) prepareCall(call Call) (*planfile.Prepared, error) {
	p := call.plan
	if p == nil {
		var err error
		if p, err = s.dirs.Current(); err != nil {
			return nil, err
		}
	}
	prepared, err := s.dirs.Prepare(p)
	if err != nil {
		return nil, fmt.Errorf("cannot apply the plan: %w", err)
	}
	return prepared, nil
}

// mustStart says whether the process is stopped, or will be.
func (s *Supervisor) mustStart() bool {
	return s.state == stopped || s.state == stopping && s.after == stayStopped
}

func (s *Supervisor) mustRun() error {
	if s.process == nil || s.state == stopping {
		return fmt.Errorf("the process is not running: %s", wireStates[s.state])
	}
	return nil
}

// carryOut does what a checked and recorded call asks for.
func (s *Supervisor) carryOut(call Call, next *planfile.Prepared) {
	switch call.method {
	case methodStart:
		s.onStartCall(call, next)
	case methodStop:
		s.onStopCall(call)
	case methodRestart:
		s.onRestartCall(call, next)
	case methodReload:
		s.onReloadCall(call, next)
	case methodSignal:
		s.onSignalCall(call)
	}
}

// onStartCall does nothing where the process is up or on its way. What it comes to while a hook runs before the start,
// the end of that start says.
func (s *Supervisor) onStartCall(call Call, next *planfile.Prepared) {
	switch {
	case s.state == backoff || s.state == waiting:
		s.supersede(call.key)
		s.start()
	case s.state == stopped:
		s.supersede(call.key)
		s.next = next
		s.start()
	case s.state == starting && s.process == nil:
		s.supersede(call.key)
	case s.mustStart():
		s.supersede(call.key)
		s.next = next
		s.after = startAgain
	default:
		s.finish(call.key, nil)
	}
}

func (s *Supervisor) onStopCall(call Call) {
	s.supersede(call.key)
	s.cancelReload(errors.New("superseded by Stop"))
	if s.process == nil {
		s.enterStopped()
		return
	}
	s.beginStop(stayStopped)
}

func (s *Supervisor) onRestartCall(call Call, next *planfile.Prepared) {
	s.supersede(call.key)
	s.cancelReload(errors.New("superseded by Restart"))
	s.next = next
	s.failures = 0
	if s.process == nil {
		s.start()
		return
	}
	s.beginStop(startAgain)
}

func (s *Supervisor) onSignalCall(call Call) {
	// The name was checked when the call was admitted.
	sig, _ := planfile.Signal(call.signal)
	s.finish(call.key, s.process.Signal(sig))
}

// supersede makes the call the pending one.
func (s *Supervisor) supersede(key string) {
	s.settlePending(errors.New("superseded by a later call"))
	s.pending = key
}

// settlePending records the outcome of the pending call.
func (s *Supervisor) settlePending(err error) {
	if s.pending == "" {
		return
	}
	key := s.pending
	s.pending = ""
	s.finish(key, err)
}

// finish records the outcome of a call; nil is success.
func (s *Supervisor) finish(key string, err error) {
	outcome := callrecord.Outcome{Phase: callrecord.Succeeded}
	if err != nil {
		outcome = callrecord.Outcome{Phase: callrecord.Failed, Message: strings.ToValidUTF8(err.Error(), "?")}
		if errors.Is(err, ErrRestartRequired) {
			outcome.Reason = report.ReasonRestartRequired
		}
		s.log.Warn("call failed", "key", key, "reason", outcome.Reason, "error", outcome.Message)
	}
	if err := s.store.Finish(key, outcome); err != nil {
		s.log.Error("cannot record the outcome of a call", "key", key, "error", err.Error())
	}
}

var wirePhases = map[callrecord.Phase]agentv1.CallPhase{
	callrecord.Running:   agentv1.CallPhase_CALL_PHASE_RUNNING,
	callrecord.Succeeded: agentv1.CallPhase_CALL_PHASE_SUCCEEDED,
	callrecord.Failed:    agentv1.CallPhase_CALL_PHASE_FAILED,
}

func wireRecord(r callrecord.Record) *agentv1.CallRecord {
	return &agentv1.CallRecord{IdempotencyKey: r.Key, Method: r.Method, Phase: wirePhases[r.Phase], Reason: r.Reason,
		Message: r.Message}
}

// String names the call in logs.
func (c Call) String() string {
	text := fmt.Sprintf("%s %q, term %d", c.method, c.key, c.term)
	if c.plan != nil {
		text += ", plan " + c.plan.Digest
	}
	if c.signal != "" {
		text += ", " + c.signal
	}
	return text
}
