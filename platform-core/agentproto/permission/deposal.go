// SPDX-License-Identifier: Apache-2.0

package permission

import "time"

// Deposal is what one process of the engine knows of a change of the primary. It is kept in memory: a process that
// takes it up anew from the record waits longer, and no less safely. Times are those of this process.
type Deposal struct {
	// Record that names nobody, as it was last written or consistently read.
	Record Record
	// RecordedAt is when the answer came that the record is so.
	RecordedAt time.Duration
	// Candidate to be named; eligible.
	Candidate Member
	// PromisedAt is when its first promise of the record's term came; zero before.
	PromisedAt time.Duration
	// CheckedAt is when it was last found alive, with the promise kept, and safe to be named; zero before.
	CheckedAt time.Duration
	// Stopped says that the process of the former primary is known to have ended for good: its agent promised the term, or
	// its container, its pod or its node is proven gone.
	Stopped bool
}

// Step is what a Deposal needs next.
type Step string

// Steps, in their order.
const (
	// StepChoose: there is no eligible candidate.
	StepChoose Step = "Choose"
	// StepPromise: have the candidate promise the term.
	StepPromise Step = "Promise"
	// StepWait: permissions that were given before have to run out, until the time that comes with it.
	StepWait Step = "Wait"
	// StepCheck: look at the candidate again.
	StepCheck Step = "Check"
	// StepName: write the candidate into the record, on condition that the record is still this one.
	StepName Step = "Name"
)

// Next returns the next step and, for StepWait, the time until which to wait.
func (d Deposal) Next(now time.Duration) (Step, time.Duration) {
	switch end := d.end(); {
	case !d.Record.Eligible(d.Candidate):
		return StepChoose, 0
	case d.PromisedAt == 0:
		return StepPromise, 0
	case now < end:
		return StepWait, end
	case d.CheckedAt < end:
		return StepCheck, 0
	}
	return StepName, 0
}

// end of all permissions that the former primary may have.
func (d Deposal) end() time.Duration {
	since := max(d.RecordedAt, d.PromisedAt)
	if d.Stopped || d.Record.Term <= 1 {
		// Nobody wrote before the first term.
		return since
	}
	return since + Validity + Margin
}
