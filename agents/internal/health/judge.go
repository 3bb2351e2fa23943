// SPDX-License-Identifier: Apache-2.0

// Package health decides what is reported about a pod, from what the process
// manager says and what the probe finds. It is pure: no clock but the times that
// it is given, nothing read or written.
package health

import (
	"time"

	"github.com/zeroinfra/agents/internal/probe"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

const (
	// DefaultThreshold is the FailureThreshold of a plan that gives none.
	DefaultThreshold = 3
	// relief is how long the probe has to be let in again until the middleware is no longer reported as out of
	// connections: where clients come and go, each change would be a write.
	relief = time.Minute
	// crashMemory is how long a process must have been up until a crash before it no longer explains why the probe fails.
	crashMemory = 10 * time.Second
)

// Causes of a health that does not come from a probe.
const (
	causeWaiting  probe.Cause = "waiting for the process manager"
	causeAway     probe.Cause = "process manager away"
	causeStopping probe.Cause = "stopping"
	causeCrash    probe.Cause = "crash"
	causeStarting probe.Cause = "starting"
	causeHeld     probe.Cause = "data folder held"
)

// Judge holds what is known. Make it with New.
type Judge struct {
	process *agentv1.ProcessStatus
	// away is true while the process manager does not answer.
	away bool
	// health, cause and message are what is reported now.
	health  report.Health
	cause   probe.Cause
	message string
	// good is the last successful outcome; goodPID the process that it was about.
	good    probe.Outcome
	goodPID int64
	// attributes of a process that is not healthy, where its probe gives some.
	attributes map[string]string
	// failures in a row, since when, and how long that was when health became what it is.
	failures     int
	failingSince time.Time
	failedFor    time.Duration
	// refusals of the probe for want of connections in a row, when the last one was, and what is reported of them.
	refusals         int
	refusedAt        time.Time
	outOfConnections string
	// crashedAt is when the process was last seen down by itself; zero when a probe has succeeded since.
	crashedAt time.Time
}

// New makes a judge that knows nothing yet.
func New() *Judge {
	return &Judge{health: report.Starting, cause: causeWaiting, message: "waiting for the process manager"}
}

// Process takes in a status of the process manager. It returns true when there is
// another process, or none any more, or one with another role, so that a probe should run at once.
func (j *Judge) Process(now time.Time, status *agentv1.ProcessStatus) bool {
	changed := j.process == nil || j.process.GetPid() != status.GetPid() || j.process.GetStarts() != status.GetStarts() ||
		j.away || j.health == report.Stopped && status.GetState() != agentv1.ProcessState_PROCESS_STATE_STOPPED
	// It is as well as it was.
	otherRole := j.process.GetRoleChanges() != status.GetRoleChanges()
	j.process, j.away = status, false
	switch status.GetState() {
	case agentv1.ProcessState_PROCESS_STATE_STOPPED:
		j.crashedAt = time.Time{}
		j.set(report.Stopped, "", "")
	case agentv1.ProcessState_PROCESS_STATE_STOPPING:
		// Whatever comes next follows a stop that someone asked for, no crash.
		j.crashedAt = time.Time{}
		j.set(report.Unhealthy, causeStopping, "the process is being stopped")
	case agentv1.ProcessState_PROCESS_STATE_BACKOFF:
		j.crashedAt = now
		j.set(report.Unhealthy, causeCrash+probe.Cause(status.GetMessage()), status.GetMessage())
	default:
		switch {
		case status.GetPid() == 0 && status.GetMessage() != "":
			j.set(report.Starting, causeHeld, status.GetMessage())
		case changed:
			j.newProcess(now)
		}
	}
	if changed {
		j.failures, j.refusals, j.outOfConnections = 0, 0, ""
	}
	if j.PID() == 0 || changed {
		j.attributes = nil
	}
	return changed || otherRole
}

// newProcess: nothing is known of it yet, but perhaps that it follows a crash, which then goes on being told.
func (j *Judge) newProcess(now time.Time) {
	if j.crashed(now) && j.cause != causeAway {
		return
	}
	j.set(report.Starting, causeStarting, "the probe has not succeeded yet")
}

// crashed says whether the process was down a moment ago.
func (j *Judge) crashed(now time.Time) bool {
	return !j.crashedAt.IsZero() && now.Sub(j.crashedAt) < crashMemory
}

// Away takes in that the process manager does not answer.
func (j *Judge) Away() {
	if j.process == nil {
		return
	}
	j.away, j.attributes = true, nil
	j.set(report.Unhealthy, causeAway, "the process manager does not answer")
}

// PID of the process to probe; 0 when there is none or it is being stopped.
func (j *Judge) PID() int64 {
	if j.process == nil || j.away || j.process.GetState() == agentv1.ProcessState_PROCESS_STATE_STOPPING {
		return 0
	}
	return j.process.GetPid()
}

// Probe takes in an outcome about the process with the number; one about another process is stale and ignored.
func (j *Judge) Probe(now time.Time, pid int64, outcome probe.Outcome, threshold int) {
	if pid == 0 || pid != j.PID() {
		return
	}
	if threshold <= 0 {
		threshold = DefaultThreshold
	}
	j.connections(now, outcome, threshold)
	j.attributes = outcome.Attributes
	switch outcome.Cause {
	case "":
		j.failures, j.crashedAt = 0, time.Time{}
		j.good, j.goodPID = outcome, pid
		j.set(report.Healthy, "", "")
		return
	case probe.CauseOutOfConnections:
		j.turnedAway(pid, outcome)
		return
	}
	if j.failures++; j.failures == 1 {
		j.failingSince = now
	}
	hopeless := outcome.Cause == probe.CausePlan
	switch {
	case j.health == report.Healthy && j.failures < threshold && !hopeless:
		// Not yet: one failure may be an accident.
	case j.goodPID == pid, hopeless, outcome.Cause == probe.CauseExpression && j.failures >= threshold:
		failed := j.failedFor
		if j.health == report.Healthy {
			failed = now.Sub(j.failingSince)
		}
		j.set(report.Unhealthy, outcome.Cause, outcome.Message)
		j.failedFor = failed
	case j.crashed(now):
		// The crash explains it.
	default:
		j.set(report.Starting, outcome.Cause, outcome.Message)
	}
}

// connections takes in whether the middleware had a connection left for the probe.
func (j *Judge) connections(now time.Time, outcome probe.Outcome, threshold int) {
	switch {
	case outcome.OutOfConnections != "":
		j.refusedAt = now
		if j.refusals++; j.refusals >= threshold && j.outOfConnections == "" {
			j.outOfConnections = outcome.OutOfConnections
		}
	case outcome.Cause == "":
		if j.refusals = 0; now.Sub(j.refusedAt) >= relief {
			j.outOfConnections = ""
		}
	}
}

// turnedAway takes in that a middleware answered and had no connection left: it is alive, and as well as it was when
// it last let the probe in. Of a process that never has, no more is known than that it is up.
func (j *Judge) turnedAway(pid int64, outcome probe.Outcome) {
	j.failures, j.crashedAt = 0, time.Time{}
	if j.goodPID == pid {
		j.set(report.Healthy, "", "")
		return
	}
	j.outOfConnections = outcome.OutOfConnections
	j.set(report.Starting, outcome.Cause, outcome.Message)
}

// Failing says whether the last probe failed, so that the next should come soon.
func (j *Judge) Failing() bool {
	return j.failures > 0 || j.health != report.Healthy
}

// set keeps the message while health and cause are the same: a message with, say,
// a number in it must not make a new report at every probe.
func (j *Judge) set(health report.Health, cause probe.Cause, message string) {
	if j.health == health && j.cause == cause {
		return
	}
	j.health, j.cause, j.message, j.failedFor = health, cause, message, 0
}

// Report is what is to be said now. The role is that of a healthy middleware only,
// and so are attributes unless its probe gives them; the version and the member's identifier stay known.
func (j *Judge) Report() report.Report {
	r := report.Report{
		Health:        j.health,
		Message:       j.message,
		Version:       j.good.Version,
		MemberID:      j.good.MemberID,
		Attributes:    j.attributes,
		ConfigDigest:  j.process.GetConfigDigest(),
		RestartDigest: j.process.GetRestartDigest(),
		Starts:        j.process.GetStarts(),

		CertificateDigest: j.process.GetCertificateDigest(),
		FailedForMs:       j.failedFor.Milliseconds(),
	}
	if j.health == report.Healthy {
		r.Role, r.Attributes = j.good.Role, j.good.Attributes
	}
	if j.health == report.Healthy || j.health == report.Starting {
		r.OutOfConnections = j.outOfConnections
	}
	if m := j.process.GetMember(); m != nil {
		r.Member = &report.Member{Identity: m.GetIdentity(), Promised: m.GetPromised(), Term: m.GetTerm(),
			ListVersion: m.GetListVersion(),
			Primary:     m.GetPrimary(), Writing: m.GetWriting()}
		r.PrimaryUnreachable = m.GetWriterUnreachable()
	}
	if j.health == report.Healthy {
		// A process may be well in itself and not become what it is to be.
		r.Message = j.process.GetMessage()
	}
	if call := j.process.GetLastCall(); call != nil {
		r.LastCall = &report.Call{Key: call.GetIdempotencyKey(), Phase: phases[call.GetPhase()], Reason: call.GetReason(),
			Message: call.GetMessage()}
	}
	return r
}

var phases = map[agentv1.CallPhase]string{
	agentv1.CallPhase_CALL_PHASE_RUNNING:   report.CallRunning,
	agentv1.CallPhase_CALL_PHASE_SUCCEEDED: report.CallSucceeded,
	agentv1.CallPhase_CALL_PHASE_FAILED:    report.CallFailed,
}
