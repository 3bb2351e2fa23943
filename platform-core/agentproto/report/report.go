// SPDX-License-Identifier: Apache-2.0

// Package report is what the status agent of a pod says about it, as the JSON in
// the pod's annotation platform.zeroinfra.github.com/report. It is written only when
// something in it changes, so nothing in it may change by itself (no times, no counters of work).
//
// The package imports the standard library only, so that both sides can use it.
package report

import (
	"encoding/json"
	"fmt"
)

// Annotation is the key of the pod annotation.
const Annotation = "platform.zeroinfra.github.com/report"

// Health of the middleware in a pod.
type Health string

// Values of Health.
const (
	// Healthy: the probe succeeds.
	Healthy Health = "Healthy"
	// Unhealthy: the probe failed FailureThreshold times in a row, or the process does not stay up.
	Unhealthy Health = "Unhealthy"
	// Starting: the process is up and the probe has not yet succeeded.
	Starting Health = "Starting"
	// Stopped: the process was stopped on request.
	Stopped Health = "Stopped"
)

// Report is one pod's state.
type Report struct {
	// Health of the middleware.
	Health Health `json:"health"`
	// Role as the probe reports it.
	Role string `json:"role,omitempty"`
	// Version of the middleware as the probe reads it back.
	Version string `json:"version,omitempty"`
	// MemberID by which the other members of the middleware know this one, as the probe reads it back.
	MemberID string `json:"memberID,omitempty"`
	// Message says what is wrong, when something is; stable while the cause is the same.
	Message string `json:"message,omitempty"`
	// FailedForMs is how long the middleware had been unhealthy when this was said, in milliseconds, or how long its probe
	// had failed when it was first called that; 0 for any other health.
	FailedForMs int64 `json:"failedForMs,omitempty"`
	// OutOfConnections is what the middleware says while it has no connection left for the probe: it is alive, and
	// Health, Role and Attributes are those of before. It is stable, and stays for a minute after the probe was last
	// turned away. Empty for any other middleware.
	OutOfConnections string `json:"outOfConnections,omitempty"`
	// ConfigDigest is the digest of the plan that the process runs with, or DigestMixed.
	ConfigDigest string `json:"configDigest,omitempty"`
	// RestartDigest is the part of that plan that only a restart can change.
	RestartDigest string `json:"restartDigest,omitempty"`
	// CertificateDigest is that of the certificate that the process serves, where it speaks TLS.
	CertificateDigest string `json:"certificateDigest,omitempty"`
	// Starts counts the starts of the process since the pod was made.
	Starts int64 `json:"starts,omitempty"`
	// LastCall is the latest recorded call to the process manager.
	LastCall *Call `json:"lastCall,omitempty"`
	// Attributes as the plan's probe defines them: those of a healthy middleware, and of one that is not where the probe
	// says so (AttributesWhen).
	Attributes map[string]string `json:"attributes,omitempty"`
	// Member is the pod's part in who may write; nil where the plan has no Writing, and until its data folder was read.
	Member *Member `json:"member,omitempty"`
	// PrimaryUnreachable says that a primary that is named in a list with this pod, or has asked it before, has not asked
	// it for its acknowledgement for 3 s. It stays until the primary has asked for a while again.
	PrimaryUnreachable bool `json:"writerUnreachable,omitempty"`
}

// Member is what a pod's agent knows about who may write (package permission).
type Member struct {
	// Identity of what its promises are kept on: 32 hexadecimal digits.
	Identity string `json:"identity"`
	// Promised is the lowest term that it acknowledges.
	Promised int64 `json:"promised,omitempty"`
	// Term in which it is named; 0 when it is not.
	Term int64 `json:"term,omitempty"`
	// ListVersion of the list that it goes by in that term.
	ListVersion int64 `json:"listVersion,omitempty"`
	// Primary is the pod that is named in the promised term; empty while the member knows of none.
	Primary string `json:"primary,omitempty"`
	// Writing says that the process runs as the primary, under a valid permission.
	Writing bool `json:"writing,omitempty"`
}

// Call is one call to the process manager and its outcome.
type Call struct {
	// Key is the idempotency key.
	Key string `json:"key"`
	// Phase: Running, Succeeded or Failed.
	Phase string `json:"phase"`
	// Reason of a failure, for machines: one of Reason…, or empty.
	Reason string `json:"reason,omitempty"`
	// Message says why it failed, or how far it is.
	Message string `json:"message,omitempty"`
}

// Reasons of calls to agents. The report of a pod has them, in its annotation.
const (
	// ReasonRestartRequired: a reload cannot apply the change of the configuration. The operator restarts the
	// process in its turn. Nothing to do.
	ReasonRestartRequired = "RestartRequired"
	// ReasonDataBad: an action found the data itself to be bad: it ended with plan.ExitDataBad. The Operation
	// fails. Restore another Backup.
	ReasonDataBad = "DataBad"
)

// Phases of a Call.
const (
	CallRunning   = "Running"
	CallSucceeded = "Succeeded"
	CallFailed    = "Failed"
	// CallInterrupted is for actions: it is not known how far it came.
	CallInterrupted = "Interrupted"
)

// DigestMixed stands for the digest after a reload that failed half-way: the process runs with settings of two plans. A
// further reload, also one back to the plan before, makes it one again. Where it is the RestartDigest too, the process
// runs with another password than its plan asks for.
const DigestMixed = "mixed"

// Parse reads the annotation's value. An empty value gives a zero Report and no error.
func Parse(value string) (Report, error) {
	var r Report
	if value == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(value), &r); err != nil {
		return Report{}, fmt.Errorf("cannot read annotation %q: %w", Annotation, err)
	}
	return r, nil
}

// Latest is Parse for those who wait for the next report anyway: one that cannot be read counts as none, since the
// agent writes the next one whole.
func Latest(value string) Report {
	r, _ := Parse(value)
	return r
}

// String returns the annotation's value. The order of fields and keys is fixed.
func (r Report) String() string {
	data, err := json.Marshal(r)
	if err != nil {
		// A Report holds only strings, numbers and a map of strings.
		panic(err)
	}
	return string(data)
}
