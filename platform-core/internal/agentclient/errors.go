// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// ErrorKind says what a failed call means for the caller.
type ErrorKind string

// Kinds of Error.
const (
	// Unreachable: the agent did not answer, so it is not known what became of the call. Repeat it with the same key.
	Unreachable ErrorKind = "Unreachable"
	// Refused: the agent understood the call and will not do it. Repeating it is of no use.
	Refused ErrorKind = "Refused"
	// Unknown: the agent understood the call, and does not know what it names. That passes where the plan which has that
	// is on its way to the pod, as after another version of the plugin.
	Unknown ErrorKind = "Unknown"
	// Outdated: the agent is too old to do what the call asks for, and was not asked. Only a pod that is made anew has
	// another one.
	Outdated ErrorKind = "Outdated"
)

// Error is a call that failed.
type Error struct {
	// Pod that was called.
	Pod types.NamespacedName
	// Address that was called, host and port.
	Address string
	// Method, for example Restart.
	Method string
	// Kind says whether to repeat the call.
	Kind ErrorKind
	// Problem is a sentence that says what is wrong and what to check. It is the same as long as the cause is.
	Problem string
	// Cause as gRPC gives it; nil when there is none.
	Cause error
}

// Error returns the pod, the method, the problem and the cause.
func (e *Error) Error() string {
	text := fmt.Sprintf("cannot call %s of pod %q: %s", e.Method, e.Pod, e.Problem)
	if e.Cause != nil {
		text += " (" + e.Cause.Error() + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// IsRefused says whether the agent understood the call and will not do it, does not know what it names, or is too old
// for it.
func IsRefused(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Kind == Refused || e.Kind == Unknown || e.Kind == Outdated)
}

// IsOutdated says whether the agent is too old for what a call asks for.
func IsOutdated(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Outdated
}

// IsLater says whether the agent could not do it yet, and is to be called again.
func IsLater(err error) bool {
	var e *Error
	return errors.As(err, &e) && status.Code(e.Cause) == codes.Aborted
}

// IsUnknown says whether the agent does not know what the call names. Who knows that the plugin has it repeats the
// call.
func IsUnknown(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Unknown
}

// IsAlive says whether an agent answered a call that failed: it is there, and has something against us or the call. One
// that proves to be another than was called, or that proves nothing, does not count.
func IsAlive(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	if e.Kind != Unreachable {
		return true
	}
	switch s := status.Convert(e.Cause); s.Code() {
	case codes.PermissionDenied, codes.Unauthenticated, codes.Aborted, codes.ResourceExhausted, codes.Internal:
		return true
	case codes.Unavailable:
		// It took the connection, proved who it is, and does not know our authority.
		return strings.Contains(s.Message(), "remote error: tls:")
	}
	return false
}

// ProblemOf returns the sentence of an *Error, which is stable while the cause is, or the text of any other error.
func ProblemOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Problem
	}
	return err.Error()
}

// failure turns an error of gRPC into an *Error.
func (a agent) failure(method string, err error) error {
	e := &Error{Pod: a.pod, Address: a.address, Method: method, Kind: Unreachable, Cause: err}
	s := status.Convert(err)
	switch s.Code() {
	case codes.NotFound:
		e.Kind, e.Cause = Unknown, nil
		e.Problem = "the agent does not know it, or not yet: " + s.Message()
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.AlreadyExists:
		e.Kind, e.Cause = Refused, nil
		e.Problem = "the agent refuses it: " + s.Message()
	case codes.Aborted:
		e.Problem = "the agent is to be called again later: " + s.Message()
	case codes.Unimplemented:
		e.Kind = Refused
		e.Problem = "the agent in the pod is too old to know it: delete the pod, so that it comes back with the present agent"
	case codes.PermissionDenied, codes.Unauthenticated:
		e.Problem = "the agent does not accept the operator's certificate: check that Secret " +
			platformv1.AgentCertificateNameFor(a.pod.Name) + " holds the authority of this operator"
	case codes.DeadlineExceeded:
		e.Problem = a.silent()
	case codes.Canceled:
		e.Problem = "the call was cancelled by the operator"
	case codes.Unavailable:
		e.Problem = a.unavailable(s.Message())
	default:
		e.Problem = fmt.Sprintf("the agent fails with %s: %s", s.Code(), s.Message())
	}
	return e
}

// unavailable tells a connection that cannot be made from one whose certificates do not match.
func (a agent) unavailable(message string) string {
	// It took the connection and did not come to prove anything in time.
	if strings.Contains(message, context.DeadlineExceeded.Error()) {
		return a.silent()
	}
	if strings.Contains(message, "tls:") || strings.Contains(message, "authentication handshake failed") {
		return fmt.Sprintf("the certificates of operator and agent do not match: check Secret %s of the pod",
			platformv1.AgentCertificateNameFor(a.pod.Name))
	}
	return fmt.Sprintf("no connection to %s: check that the agent runs and that no NetworkPolicy is in between", a.address)
}

func (a agent) silent() string {
	return fmt.Sprintf("no answer from %s within %s: check the pod's network and its NetworkPolicies", a.address,
		CallTimeout)
}
