// SPDX-License-Identifier: Apache-2.0

// Package frame is the outline that every controller shares: get the object, let
// the controller observe, plan and act, report the outcome in the conditions,
// count it, publish an event when the object newly stalls, and write the status
// once if it changed. The deadline of a turn is that of its context, which the
// options of package queue set.
package frame

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
)

// Recheck is how soon an owner looks again at a child that it wrote: the watch says
// nothing when the write turned out to change nothing.
const Recheck = time.Second

// Object is an object whose status the frame writes.
type Object interface {
	client.Object
	platformv1.Conditioned
}

// Work observes, plans and acts for one object. It may fill in the object's
// status but for the conditions, which the frame derives from the outcome.
type Work[T Object] func(ctx context.Context, obj T) outcome.Outcome

// Finish fills in the parts of the status that depend on the conditions, such as the phase.
type Finish[T Object] func(obj T, o outcome.Outcome)

// Urgent says whether a status holds, beside its conditions, what somebody acts on: it is then written at once.
type Urgent[T Object] func(before, after T) bool

// Gone does what is left to do once an object is there no more.
type Gone func(ctx context.Context, object types.NamespacedName) outcome.Outcome

// Frame is the outline with what it remembers between turns.
type Frame[T Object] struct {
	client client.Client
	work   Work[T]
	finish Finish[T]
	urgent Urgent[T]
	gone   Gone
	pace   *Pace
	// reports says that the work reports its outcome in the conditions itself.
	reports bool
	// holdsFirst says that the first status of many objects together is held back where they report it themselves.
	holdsFirst bool
	// owner has outcomes counted under this name, unless it is empty.
	owner  string
	events *event.Recorder
}

// New returns the frame of one controller.
func New[T Object](c client.Client, work Work[T], finish Finish[T]) *Frame[T] {
	nothing := func(T, T) bool { return false }
	gone := func(context.Context, types.NamespacedName) outcome.Outcome { return outcome.Done() }
	return &Frame[T]{client: c, work: work, finish: finish, urgent: nothing, gone: gone, pace: NewPace(time.Now)}
}

// NewReporting returns the frame of a controller whose work fills in the whole status, conditions included. Such a
// status is never held back, but for HoldingFirst.
func NewReporting[T Object](c client.Client, work Work[T]) *Frame[T] {
	f := New(c, work, func(T, outcome.Outcome) {})
	f.reports = true
	return f
}

// WhenGone has the frame call this once an object is there no more. What has no finalizer goes without a turn before.
func (f *Frame[T]) WhenGone(gone Gone) *Frame[T] {
	f.gone = gone
	return f
}

// Counting has the frame count the outcomes of turns under the name of the controller.
func (f *Frame[T]) Counting(owner string) *Frame[T] {
	f.owner = owner
	return f
}

// Warning has the frame publish an event when an object stalls for a reason or with a message that its status did not
// have before, so that it is no news after a restart.
func (f *Frame[T]) Warning(events *event.Recorder) *Frame[T] {
	f.events = events
	return f
}

// HoldingFirst has a frame that reports hold back the first status of an object that is at work, as Pace.WaitFirst
// says. The definition of its type has a default, so that an object without a status is not taken for one that is
// ready.
func (f *Frame[T]) HoldingFirst() *Frame[T] {
	f.holdsFirst = true
	return f
}

// AtOnce has the frame write what is urgent without delay.
func (f *Frame[T]) AtOnce(urgent Urgent[T]) *Frame[T] {
	f.urgent = urgent
	return f
}

// Reconcile runs one turn for the object that the request names. obj is an empty object of its type.
func (f *Frame[T]) Reconcile(ctx context.Context, request reconcile.Request, obj T) (reconcile.Result, error) {
	if err := f.client.Get(ctx, request.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			f.pace.Forget(request.NamespacedName)
			return f.gone(ctx, request.NamespacedName).Result()
		}
		return reconcile.Result{}, err
	}
	before := obj.DeepCopyObject().(T)
	o := f.work(ctx, obj)
	if f.owner != "" {
		telemetry.Outcome(f.owner, o)
	}
	if o.Kind() == outcome.KindFailed && apierrors.IsConflict(o.Err()) {
		// The cache was behind: the watch brings what changed, nothing is wrong.
		return reconcile.Result{Requeue: true}, nil
	}
	if o.Kind() == outcome.KindFailed && apierrors.HasStatusCause(o.Err(), corev1.NamespaceTerminatingCause) {
		// Nothing can be made there any more, and all that is there goes without us.
		return reconcile.Result{}, nil
	}
	if !f.reports {
		conditions.Report(obj, o, readyMessage(obj))
		f.finish(obj, o)
	}
	if wait := f.hold(request, before, obj, o); wait > 0 {
		return outcome.Worst(o, outcome.WaitingFor(wait, o.Reason(), o.Message())).Result()
	}
	if err := patch.Status(ctx, f.client, before, obj); err != nil {
		return reconcile.Result{}, err
	}
	if f.events != nil && o.Kind() == outcome.KindStalled && !isStalledBy(before, o) {
		f.events.Warning(obj, o.Reason(), "%s", o.Message())
	}
	return o.Result()
}

// isStalledBy says whether the status of an object has this very outcome.
func isStalledBy(obj Object, o outcome.Outcome) bool {
	stalled := conditions.Get(obj, platformv1.StalledCondition)
	return stalled != nil && stalled.Reason == o.Reason() && stalled.Message == o.Message()
}

// hold returns how long the new status is held back, since it only tells how far the work is; 0 when it is to be
// written.
func (f *Frame[T]) hold(request reconcile.Request, before, after T, o outcome.Outcome) time.Duration {
	switch {
	case f.reports && f.holdsFirst && o.Kind() == outcome.KindWaiting && len(before.GetConditions()) == 0:
		return f.pace.WaitFirst(request.NamespacedName)
	case f.reports || !onlyProgress(before, after, o) || f.urgent(before, after):
		f.pace.Forget(request.NamespacedName)
		return 0
	case !patch.Differs(before, after):
		f.pace.Rest(request.NamespacedName)
		return 0
	}
	if ready := conditions.Get(before, platformv1.ReadyCondition); ready == nil || ready.Reason != o.Reason() {
		f.pace.Hasten(request.NamespacedName)
	}
	return f.pace.Wait(request.NamespacedName)
}

// onlyProgress says whether nothing that others act on has come about: the object was at work and still is, or
// has a new spec that it is not through with.
func onlyProgress(before, after Object, o outcome.Outcome) bool {
	if o.Kind() != outcome.KindWaiting || conditions.IsTrue(before, platformv1.StalledCondition) {
		return false
	}
	ready := conditions.Get(before, platformv1.ReadyCondition)
	return ready == nil || ready.ObservedGeneration != after.GetGeneration() || conditions.IsTrue(before,
		platformv1.ReconcilingCondition)
}

func readyMessage(obj Object) string {
	if !obj.GetDeletionTimestamp().IsZero() {
		return "everything that depends on it is gone"
	}
	return "the state matches the spec"
}

// Phase returns the word for printing that follows from the conditions, the word
// that stood there before, and the version that was read back from the middleware, if any.
func Phase(obj Object, before platformv1.Phase, version string) platformv1.Phase {
	switch {
	case !obj.GetDeletionTimestamp().IsZero():
		return platformv1.PhaseDeleting
	case isReadyFor(obj, platformv1.ReasonSuspended):
		return platformv1.PhaseSuspended
	case isReadyFor(obj, platformv1.ReasonStopped) && conditions.IsTrue(obj, platformv1.ReadyCondition):
		return platformv1.PhaseStopped
	case conditions.IsTrue(obj, platformv1.ReadyCondition):
		return platformv1.PhaseReady
	case conditions.IsTrue(obj, platformv1.StalledCondition):
		return platformv1.PhaseStalled
	case before == "" || before == platformv1.PhaseCreating || version == "":
		return platformv1.PhaseCreating
	}
	return platformv1.PhaseUpdating
}

// isReadyFor says whether Ready, whatever its status, has this reason.
func isReadyFor(obj Object, reason string) bool {
	ready := conditions.Get(obj, platformv1.ReadyCondition)
	return ready != nil && ready.Reason == reason
}
