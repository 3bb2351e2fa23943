// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Runner is a capability of a kind whose Output has Operations. The status of an object remembers what became of each,
// so that an Operation whose record is gone is not run again.
type Runner[T Object] interface {
	// Runs returns the field of the status that the frame keeps, in the order of the names.
	Runs(T) *[]platformv1.RunStatus
}

// keepOperations creates the Operations that an object declares, each once and never changed, and cancels those that it
// declares no more. It keeps what became of them in the status, and returns how it stands with those that are declared.
func (r *reconciler[T]) keepOperations(ctx context.Context, obj T, compiled []*platformv1.Operation) outcome.Outcome {
	runner, ok := r.kind.(Runner[T])
	switch {
	case !ok && len(compiled) > 0:
		return outcome.Failed(fmt.Errorf("kind %s compiles to Operations and keeps no record of them: "+
			"it has to be a typed.Runner", r.kind.Name()))
	case !ok:
		return outcome.Done()
	}
	var list platformv1.OperationList
	err := r.client.List(ctx, &list, client.InNamespace(obj.GetNamespace()),
		client.MatchingFields{ownerField: string(obj.GetUID())})
	if err != nil {
		return outcome.Failed(fmt.Errorf("cannot list the Operations of %q: %w", obj.GetName(), err))
	}
	have := map[string]*platformv1.Operation{}
	for i := range list.Items {
		have[list.Items[i].Name] = &list.Items[i]
	}
	known, runs := map[string]platformv1.RunStatus{}, map[string]platformv1.RunStatus{}
	for _, run := range *runner.Runs(obj) {
		known[run.Name] = run
	}
	var outcomes []outcome.Outcome
	for _, op := range compiled {
		if len(validation.IsDNS1123Label(op.Name)) > 0 || runs[op.Name].Name != "" {
			outcomes = append(outcomes, outcome.Stalled(platformv1.ReasonInvalidSpec, fmt.Sprintf(
				"Operation %q is declared twice or has a name that is no label: give it another name", op.Name)))
			continue
		}
		run, o := r.keepOperation(ctx, obj, op, have, known[op.Name])
		runs[op.Name], outcomes = run, append(outcomes, o)
	}
	for name, run := range known {
		// What is no longer declared is told of as long as its record exists.
		if live := have[run.Operation]; runs[name].Name == "" && live != nil {
			runs[name] = runOf(name, live)
			outcomes = append(outcomes, r.cancel(ctx, live))
		}
	}
	*runner.Runs(obj) = slices.SortedFunc(maps.Values(runs), func(a,
		b platformv1.RunStatus) int {
		return strings.Compare(a.Name, b.Name)
	})
	return outcome.Worst(outcomes...)
}

// keepOperation creates one Operation unless it was created before, and returns what is known of it.
func (r *reconciler[T]) keepOperation(ctx context.Context, obj T, op *platformv1.Operation,
	have map[string]*platformv1.Operation, known platformv1.RunStatus) (platformv1.RunStatus, outcome.Outcome) {
	wanted, err := r.wantedOperation(obj, op)
	if err != nil {
		return known, outcome.Failed(err)
	}
	live := have[wanted.Name]
	switch {
	case live != nil &&
		live.Annotations[platformv1.CompiledAnnotation] != wanted.Annotations[platformv1.CompiledAnnotation]:
		return runOf(op.Name, live), outcome.Stalled(platformv1.ReasonInvalidSpec, fmt.Sprintf(
			"Operation %q was created with another spec, and is never changed: declare the new one under another name",
			wanted.Name))
	case live != nil:
		run := runOf(op.Name, live)
		return run, ofRun(run)
	case known.Phase.Ended():
		return known, ofRun(known)
	case known.UID != "":
		return r.lostOperation(ctx, wanted, known)
	}
	run := platformv1.RunStatus{Name: op.Name, Operation: wanted.Name, Phase: platformv1.OperationPending}
	if _, err := r.apply.Create(ctx, wanted); err != nil {
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) && apply.Outcome(err).Reason() == outcome.ReasonFailed {
			return known, outcome.StalledFor(lookAgain, platformv1.ReasonInvalidSpec,
				fmt.Sprintf("Operation %q: rejected by the API server: %v", wanted.Name, err))
		}
		return known, apply.Outcome(err)
	}
	return run, ofRun(run)
}

// lostOperation is what is known of an Operation that was seen before it ended and is not in the cache. One that was
// deleted is not run again.
func (r *reconciler[T]) lostOperation(ctx context.Context, wanted *platformv1.Operation,
	known platformv1.RunStatus) (platformv1.RunStatus, outcome.Outcome) {
	live := &platformv1.Operation{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(wanted), live)
	switch {
	case err == nil:
		run := runOf(known.Name, live)
		return run, ofRun(run)
	case !apierrors.IsNotFound(err):
		return known, outcome.Failed(fmt.Errorf("cannot read Operation %q: %w", wanted.Name, err))
	}
	known.Phase = platformv1.OperationCancelled
	return known, ofRun(known)
}

// wantedOperation is an Operation as it is created. Its name follows from the object and its own name, so that it is
// created once whatever crashes.
func (r *reconciler[T]) wantedOperation(obj T, op *platformv1.Operation) (*platformv1.Operation, error) {
	wanted := op.DeepCopy()
	wanted.Namespace = obj.GetNamespace()
	wanted.Name = operationNameFor(r.kind.Name(), obj, op.Name)
	spec, err := json.Marshal(op.Spec)
	if err != nil {
		return nil, err
	}
	if wanted.Labels == nil {
		wanted.Labels = map[string]string{}
	}
	if wanted.Annotations == nil {
		wanted.Annotations = map[string]string{}
	}
	wanted.Labels[platformv1.DomainLabel], wanted.Labels[platformv1.ManagedByLabel] = r.domain, platformv1.ManagedBy
	wanted.Labels[platformv1.OutputLabel] = strings.ToLower(r.kind.Name())
	wanted.Annotations[platformv1.CompiledAnnotation] = fmt.Sprintf("%x", sha256.Sum256(spec))[:operationDigest]
	return wanted, controllerutil.SetControllerReference(obj, wanted, r.client.Scheme())
}

// operationDigest is how many digits of a digest a name has.
const operationDigest = 16

// operationNameFor is the name of an Operation of an object: it differs for each object that ever has the same name.
func operationNameFor(kind string, obj client.Object, name string) string {
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(string(obj.GetUID())+"/"+name)))
	return strings.ToLower(kind) + "-" + obj.GetName() + "." + name + "." + digest[:operationDigest]
}

// cancel ends an Operation that is not declared any more, at its next safe point.
func (r *reconciler[T]) cancel(ctx context.Context, live *platformv1.Operation) outcome.Outcome {
	if live.Status.Phase.Ended() || live.Spec.Cancel {
		return outcome.Done()
	}
	before := live.DeepCopy()
	live.Spec.Cancel = true
	if err := r.client.Patch(ctx, live, client.MergeFrom(before),
		client.FieldOwner(r.owner)); client.IgnoreNotFound(err) != nil {
		return outcome.Failed(fmt.Errorf("cannot cancel Operation %q: %w", live.Name, err))
	}
	return outcome.Done()
}

// runOf is what is known of an Operation that exists.
func runOf(name string, op *platformv1.Operation) platformv1.RunStatus {
	phase := op.Status.Phase
	if phase == "" {
		phase = platformv1.OperationPending
	}
	return platformv1.RunStatus{Name: name, Operation: op.Name, UID: op.UID, Phase: phase, StartTime: op.Status.StartTime,
		CompletionTime: op.Status.CompletionTime}
}

// ofRun is how it stands with an object whose Operation is in this state.
func ofRun(run platformv1.RunStatus) outcome.Outcome {
	switch run.Phase {
	case platformv1.OperationSucceeded:
		return outcome.Done()
	case platformv1.OperationFailed:
		return outcome.Stalled(platformv1.ReasonOperationFailed,
			fmt.Sprintf("Operation %q failed: see its status, and declare it under another name to run it again", run.Operation))
	case platformv1.OperationCancelled:
		return outcome.Stalled(platformv1.ReasonCancelled,
			fmt.Sprintf("Operation %q was cancelled or deleted: declare it under another name to run it again", run.Operation))
	default:
		return outcome.Waiting(platformv1.ReasonProgressing, fmt.Sprintf("Operation %q is %s", run.Operation,
			strings.ToLower(string(run.Phase))))
	}
}
