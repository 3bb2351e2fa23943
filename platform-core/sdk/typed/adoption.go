// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Adopter is a capability of a kind whose objects can take over the instance of an object of another kind, so that a
// server becomes a cluster with its data, passwords and addresses (docs/adr/0057). The Application keeps its name, and
// the other object is deleted once it has nothing left. The operator needs the right to delete objects of that kind.
type Adopter[T Object] interface {
	// Adopted returns the object whose instance this one takes over; the zero value for none. It never changes in the
	// life of an object.
	Adopted(T) Adopted
	// Adoptable returns why the Application cannot become that of the object as it is, in a sentence that says what to
	// do; empty when it can.
	Adoptable(T, *platformv1.Application) string
}

// Adopted names an object whose instance another one takes over: both are of one group, version and namespace.
type Adopted struct {
	// Kind and Name of the object.
	Kind, Name string
	// Field of the spec that names it, for messages.
	Field string
}

// nothing is what there is to take over from an object that is not there.
const nothing = "there is nothing to take over; name another one in a new object, or leave it out there"

// String names the object for a person.
func (a Adopted) String() string { return fmt.Sprintf("%s %q", a.Kind, a.Name) }

// adopters say of objects, by their kind, which other object's instance they take over.
type adopters map[schema.GroupVersionKind]func(client.Object) Adopted

// adoptedBy is what an object takes over; the zero value for nothing.
func adoptedBy[T Object](kind Kind[T], obj T) Adopted {
	if adopter, ok := kind.(Adopter[T]); ok {
		return adopter.Adopted(obj)
	}
	return Adopted{}
}

// applicationName is that of the Application which an object declares.
func applicationName[T Object](kind Kind[T], obj T) string {
	if from := adoptedBy(kind, obj); from.Name != "" {
		return platformv1.ApplicationNameFor(from.Kind, from.Name)
	}
	return platformv1.ApplicationNameFor(kind.Name(), obj.GetName())
}

// adopt is done once the Application that an object takes over is its own. Before, it asks the object that has it, by
// an annotation, to hand it over; nothing is asked that could not be undone, and nothing before the API server would
// take what this object declares.
func (r *reconciler[T]) adopt(ctx context.Context, obj T, wanted *platformv1.Application) outcome.Outcome {
	from := adoptedBy(r.kind, obj)
	if from.Name == "" || wanted == nil || conditions.IsTrue(obj, platformv1.AdoptedCondition) {
		return outcome.Done()
	}
	app := &platformv1.Application{}
	if err := client.IgnoreNotFound(r.live.Get(ctx, client.ObjectKeyFromObject(wanted), app)); err != nil {
		return outcome.Failed(fmt.Errorf("cannot read Application %q: %w", wanted.Name, err))
	}
	former, err := r.sibling(from.Kind)
	if err == nil {
		err = r.live.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: from.Name}, former)
	}
	switch {
	case client.IgnoreNotFound(err) != nil:
		return outcome.Failed(fmt.Errorf("cannot read %s: %w", from, err))
	case metav1.IsControlledBy(app, obj):
		return r.took(ctx, obj, from, former, wanted)
	case err != nil:
		return outcome.Stalled(platformv1.ReasonReferenceNotFound, fmt.Sprintf(
			"%s names %s, which does not exist: "+nothing, from.Field, from))
	case former.GetDeletionTimestamp() != nil:
		return outcome.Stalled(platformv1.ReasonReferenceDeleting, fmt.Sprintf(
			"%s names %s, which is being deleted: "+nothing, from.Field, from))
	}
	if o := r.adoptable(ctx, obj, from, former, app, wanted); o.Kind() != outcome.KindDone {
		return o
	}
	return r.askFor(ctx, obj, from, former)
}

// took is done once the object that has given its Application has given all, and the cache shows it.
func (r *reconciler[T]) took(ctx context.Context, obj T, from Adopted, former client.Object,
	wanted *platformv1.Application) outcome.Outcome {
	app := &platformv1.Application{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(wanted), app)
	hands := former.GetAnnotations()[platformv1.AdoptedByAnnotation] == r.markOf(obj)
	if hands || err != nil || !metav1.IsControlledBy(app, obj) {
		return outcome.WaitingFor(frame.Recheck, platformv1.ReasonProgressing, from.String()+" hands its instance over")
	}
	conditions.Set(obj, metav1.Condition{
		Type: platformv1.AdoptedCondition, Status: metav1.ConditionTrue, Reason: platformv1.AdoptedCondition,
		Message: fmt.Sprintf("it has the instance of %s: Application %q", from, app.Name),
	})
	return outcome.Done()
}

// adoptable says why an Application cannot be taken over now; Done when it can.
func (r *reconciler[T]) adoptable(ctx context.Context, obj T, from Adopted, former client.Object,
	app, wanted *platformv1.Application) outcome.Outcome {
	switch {
	case app.UID == "":
		return outcome.WaitingFor(lookAgain, platformv1.ReasonProgressing, fmt.Sprintf("%s has no Application yet", from))
	case !metav1.IsControlledBy(app, former):
		return outcome.StalledFor(lookAgain, platformv1.ReasonNameTaken, fmt.Sprintf(
			"Application %q is not that of %s: delete this object, or the Application", app.Name, from))
	case app.Spec.DeletionProtection:
		return outcome.StalledFor(lookAgain, platformv1.ReasonInvalidSpec, fmt.Sprintf(
			"%s has deletionProtection, and is deleted once its instance is taken over: "+
				"set its spec.deletionProtection to false first", from))
	case app.Spec.Suspend:
		return outcome.StalledFor(lookAgain, platformv1.ReasonSuspended, fmt.Sprintf(
			"%s is suspended, so that nothing of it is changed: set its spec.suspend to false", from))
	case app.Status.ActiveOperation != "":
		return outcome.WaitingFor(lookAgain, platformv1.ReasonProgressing, fmt.Sprintf(
			"Operation %q of %s has to end before the instance is taken over", app.Status.ActiveOperation, from))
	case !conditions.IsTrue(app, platformv1.ReadyCondition) || app.Status.ObservedGeneration != app.Generation:
		return outcome.WaitingFor(lookAgain, platformv1.ReasonProgressing, fmt.Sprintf(
			"%s has to be Ready before its instance is taken over", from))
	}
	if why := r.kind.(Adopter[T]).Adoptable(obj, app); why != "" {
		return outcome.StalledFor(lookAgain, platformv1.ReasonInvalidSpec, why)
	}
	return apply.Outcome(r.apply.DryRun(ctx, app, wanted))
}

// askFor asks an object for its instance. Another one that was asked before keeps it: it cannot go to two.
func (r *reconciler[T]) askFor(ctx context.Context, obj T, from Adopted, former client.Object) outcome.Outcome {
	mark := r.markOf(obj)
	switch other := former.GetAnnotations()[platformv1.AdoptedByAnnotation]; other {
	case mark:
	case "":
		if err := r.mark(ctx, former, mark); err != nil {
			return retried(err)
		}
	default:
		return outcome.StalledFor(lookAgain, platformv1.ReasonNameTaken, fmt.Sprintf(
			"%s hands its instance over to %s: delete one of the two objects that ask for it", from, nameIn(other)))
	}
	return outcome.WaitingFor(lookAgain, platformv1.ReasonProgressing, from.String()+" hands its instance over")
}

// markOf is what an object is called by the one that hands its instance over to it.
func (r *reconciler[T]) markOf(obj T) string {
	return r.kind.Name() + "/" + obj.GetName() + "/" + string(obj.GetUID())
}

// nameIn is the object that a mark is of, without its UID.
func nameIn(mark string) string { return mark[:max(0, strings.LastIndex(mark, "/"))] }

// mark notes on an object who takes its instance over; an empty mark takes that back.
func (r *reconciler[T]) mark(ctx context.Context, former client.Object, mark string) error {
	changed := former.DeepCopyObject().(client.Object)
	annotations := changed.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if annotations[platformv1.AdoptedByAnnotation] = mark; mark == "" {
		delete(annotations, platformv1.AdoptedByAnnotation)
	}
	changed.SetAnnotations(annotations)
	patch := client.MergeFromWithOptions(former, client.MergeFromWithOptimisticLock{})
	return r.client.Patch(ctx, changed, patch, client.FieldOwner(r.owner))
}

// retried is the outcome of a write on an object as it was read: a conflict says to read it again.
func retried(err error) outcome.Outcome {
	if apierrors.IsConflict(err) {
		return outcome.WaitingFor(frame.Recheck, platformv1.ReasonProgressing, "an object changed while it was handed over")
	}
	return outcome.Failed(err)
}

// sibling returns an empty object of another kind of the group and version.
func (r *reconciler[T]) sibling(kind string) (client.Object, error) {
	gvk, err := apiutil.GVKForObject(r.kind.New(), r.client.Scheme())
	if err != nil {
		return nil, err
	}
	return servedObject(r.client.Scheme(), gvk.GroupVersion().WithKind(kind))
}
