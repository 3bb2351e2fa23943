// SPDX-License-Identifier: Apache-2.0

// Package typed is the frame of every typed kind: a domain API such as Redis that
// compiles to objects of the core API, see Output.
//
// A kind says how to compile; what else it can is said by capabilities, small interfaces such as Reporter, Writer
// and Referrer. The one reconciler here does the rest: it reads the object and what that names, compiles it, applies
// what it compiled to under the field owner "typed/<kind>", deletes what is no longer compiled, and patches the status
// once, only when it changed. It never changes or deletes an object that the typed object does not control.
//
// Conditions of a typed object: Ready, Reconciling, Stalled and Accepted as the Application has them, with reasons of
// the Application. What is declared beside the Application, or in its place, has the object wait or stall with a
// reason of its own: that of an Entity, of an object by the rules of kstatus, or of an Operation; the first that a
// person has to mend, else the first that is not ready. Where nothing can be compiled, or applied, the object stalls
// with InvalidSpec (it does not compile, or the API server rejects what it compiled to), NameTaken (a name is that of
// an object that is not ours), Forbidden, KindNotInstalled, or a reason of Referrer; what is not concerned is applied
// all the same. Reconciling with reason Progressing says that something has not been looked at yet. Suspended is True
// while the spec asks for that; nothing else is touched then.
package typed

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// SuspendedCondition is True while the spec has the engine do nothing at all; absent otherwise.
const SuspendedCondition = platformv1.SuspendedCondition

// Object is what every typed object offers: the status fields of the suite's shape.
type Object interface {
	client.Object
	platformv1.Conditioned
	// SetPhase records the one word for printing in the status.
	SetPhase(platformv1.Phase)
}

// Kind teaches the frame one typed kind. All methods are pure: no client, no
// clock, no random; the same object gives the same result.
type Kind[T Object] interface {
	// Name is the kind in CamelCase, for example Redis.
	Name() string
	// New returns an empty object.
	New() T
	// Compile turns the object into what it declares. An error stalls the object with
	// the text as its message: name the field and say what is allowed. See Refuse for
	// a reason of one's own.
	Compile(T) (*Output, error)
}

// Reporter is a capability of a kind whose status tells of its Application.
type Reporter[T Object] interface {
	// Report fills in the kind's own status fields from the Application's status.
	// The frame sees to the conditions, the phase and observedGeneration.
	Report(T, *platformv1.Application)
}

// Suspender is a capability of a kind whose spec can have the engine do nothing
// for an object. Without it, objects of the kind are never suspended.
type Suspender[T Object] interface {
	// Suspended says whether the spec asks for that.
	Suspended(T) bool
}

// Writer is a capability of a kind whose objects Operations can change: what an Operation changes of the Application
// has to be said in the object that declares it. Without it, an Operation that would change anything is refused.
type Writer interface {
	// WriteThrough says, for fields of the Application's spec, which field of the object's spec they come from: for
	// example "components[redis].storage.size" from "storage.size". A field stands for all that is below it, too.
	WriteThrough() map[string]string
}

// Converter is a capability of a Writer, for fields whose value is another one in its objects than in the Application.
type Converter interface {
	// Convert returns the value that a field of the object has for this one of the Application, as it is in JSON; value
	// itself for all others. field is the Application's, as in WriteThrough. An error says why no object can have it.
	Convert(field string, value any) (any, error)
}

// Refusal is an error of Compile with a reason of its own.
type Refusal struct {
	// Reason is a CamelCase word, one of platformv1.Reason….
	Reason string
	// Message is one sentence that says what to do.
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// Refuse returns an error for Compile that stalls the object with this reason and message.
func Refuse(reason, message string) error { return &Refusal{Reason: reason, Message: message} }

// reasonOf returns the reason of an error of Compile.
func reasonOf(err error) string {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Reason
	}
	return platformv1.ReasonInvalidSpec
}
