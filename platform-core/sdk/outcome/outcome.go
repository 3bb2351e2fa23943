// SPDX-License-Identifier: Apache-2.0

// Package outcome is the result algebra of every reconcile and of its steps.
//
// A step says what became of it with one of six kinds and never touches a
// requeue, a condition or a back-off itself: Result turns an Outcome into what
// controller-runtime wants, and package conditions turns it into status.
package outcome

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Kind tells the six outcomes apart. A higher kind is worse.
type Kind int

// The kinds, from best to worst.
const (
	// KindDone: the object does what its spec asks.
	KindDone Kind = iota
	// KindHeld: nothing is done, since someone asked for that.
	KindHeld
	// KindDeferred: what runs does its work, and a change of it waits for its time.
	KindDeferred
	// KindWaiting: something is under way; a watch or a clock wakes us.
	KindWaiting
	// KindStalled: nothing changes until someone mends what the message names.
	KindStalled
	// KindFailed: a surprise; try again with back-off.
	KindFailed
)

// String returns the kind in lower case, as metrics and logs use it.
func (k Kind) String() string {
	switch k {
	case KindDone:
		return "done"
	case KindHeld:
		return "held"
	case KindDeferred:
		return "deferred"
	case KindWaiting:
		return "waiting"
	case KindStalled:
		return "stalled"
	case KindFailed:
		return "failed"
	default:
		return fmt.Sprintf("kind(%d)", int(k))
	}
}

// Reasons of every object. All kinds of the suite have them.
const (
	// ReasonFailed: a reconcile failed with an error that has no reason of its own. The operator tries again with
	// increasing pauses. Read the message, and the log of the operator when it stays the same for long.
	ReasonFailed = "ReconcileFailed"
)

// Reasoned is an error that knows its reason, a CamelCase word for conditions.
type Reasoned interface {
	error
	// ConditionReason returns the reason.
	ConditionReason() string
}

// Outcome is what became of a reconcile or of a step of it. The zero value is Done.
type Outcome struct {
	kind    Kind
	reason  string
	message string
	after   time.Duration
	err     error
}

// Done says that all is as asked.
func Done() Outcome { return Outcome{} }

// DoneAs is Done with a reason of its own for Ready and a sentence that explains it,
// for example when all is as asked since nothing is to run.
func DoneAs(reason, message string) Outcome { return Outcome{reason: reason, message: message} }

// Held says that nothing is done since someone asked for that. What was so before still
// counts: Ready keeps its status and takes this reason and sentence.
func Held(reason, message string) Outcome {
	return Outcome{kind: KindHeld, reason: reason, message: message}
}

// Deferred says that what runs does its work and that a change of it waits for its time. In
// conditions it is as Waiting: not all is as asked.
func Deferred(reason, message string) Outcome {
	return Outcome{kind: KindDeferred, reason: reason, message: message}
}

// Waiting says that something is under way and that a watch will wake us. The
// reason is a CamelCase word, the message one sentence.
func Waiting(reason, message string) Outcome {
	return Outcome{kind: KindWaiting, reason: reason, message: message}
}

// WaitingFor is Waiting with a clock too: the object is looked at again after
// the given time, which counts as none when it is not positive.
func WaitingFor(after time.Duration, reason, message string) Outcome {
	return Outcome{kind: KindWaiting, reason: reason, message: message, after: max(after, 0)}
}

// Stalled says that nothing changes until someone mends what the message names.
func Stalled(reason, message string) Outcome {
	return Outcome{kind: KindStalled, reason: reason, message: message}
}

// StalledFor is Stalled with a clock too, for what no watch tells of: the object is
// looked at again after the given time.
func StalledFor(after time.Duration, reason, message string) Outcome {
	return Outcome{kind: KindStalled, reason: reason, message: message, after: max(after, 0)}
}

// Within returns the same outcome with a clock: the object is looked at again after the given time at the latest. A
// time that is not positive adds none.
func (o Outcome) Within(after time.Duration) Outcome {
	if after > 0 && (o.after == 0 || after < o.after) {
		o.after = after
	}
	return o
}

// Failed says that err came as a surprise and that the work is to be tried again
// with back-off. The reason is that of the error, when it is Reasoned, else
// ReasonFailed. A nil error gives Done.
func Failed(err error) Outcome {
	if err == nil {
		return Done()
	}
	reason := ReasonFailed
	var reasoned Reasoned
	if errors.As(err, &reasoned) {
		reason = reasoned.ConditionReason()
	}
	return Outcome{kind: KindFailed, reason: reason, message: err.Error(), err: err}
}

// Kind returns which of the six it is.
func (o Outcome) Kind() Kind { return o.kind }

// Reason returns the CamelCase word for conditions; empty when Done.
func (o Outcome) Reason() string { return o.reason }

// Message returns the sentence for people; empty when Done.
func (o Outcome) Message() string { return o.message }

// Saying returns the outcome with another message, but that of a failure, whose message is its error.
func (o Outcome) Saying(message string) Outcome {
	if o.kind != KindFailed {
		o.message = message
	}
	return o
}

// Because returns the outcome with a cause ahead of its message. What waits takes the reason of the cause too; what is
// Deferred waits then, since not all that runs does its work. A stall and a failure keep their reason, and a failure
// its error. What is Done or Held has no cause.
func (o Outcome) Because(reason, cause string) Outcome {
	switch o.kind {
	case KindDone, KindHeld:
		return o
	case KindDeferred, KindWaiting:
		o.kind, o.reason = KindWaiting, reason
	}
	o.message = cause + "; " + o.message
	return o
}

// Err returns the error of a failure; nil for every other kind.
func (o Outcome) Err() error { return o.err }

// After returns the time until the object is to be looked at again; 0 for none.
func (o Outcome) After() time.Duration { return o.after }

// Result returns what controller-runtime wants: an error for a failure, so that
// it backs off, and a requeue for a clock. A failure has no clock there: whoever
// needs one all the same sets it in the queue.
func (o Outcome) Result() (reconcile.Result, error) {
	if o.kind == KindFailed {
		return reconcile.Result{}, o.err
	}
	return reconcile.Result{RequeueAfter: o.after}, nil
}

// Worst sums up outcomes: failed before stalled before waiting before deferred before held before done, the
// first of the worst kind that has something to say speaking for all. The clock is the shortest of any, so
// that a step that waits for a clock is not forgotten beside a stalled one. The
// errors of all failures are joined.
func Worst(outcomes ...Outcome) Outcome {
	var worst Outcome
	var after time.Duration
	var failures []error
	for _, o := range outcomes {
		// Done with a reason of its own says more than Done.
		if o.kind > worst.kind || o.kind == worst.kind && worst.reason == "" {
			worst = o
		}
		if o.after > 0 && (after == 0 || o.after < after) {
			after = o.after
		}
		if o.kind == KindFailed {
			failures = append(failures, o.err)
		}
	}
	worst.after = after
	if len(failures) > 1 {
		worst.err = errors.Join(failures...)
	}
	return worst
}
