// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// syncRecheck is how soon to look again while objects are being read.
const syncRecheck = 200 * time.Millisecond

// mirrored are the conditions that a typed object has from its Application.
var mirrored = []string{
	platformv1.AcceptedCondition, platformv1.ReadyCondition,
	platformv1.ReconcilingCondition, platformv1.StalledCondition, platformv1.RestoredCondition,
	platformv1.ArchiveFoundCondition, platformv1.BackupsVerifiedCondition, platformv1.AutoscaledCondition,
}

// reconciler is the controller of one typed kind.
type reconciler[T Object] struct {
	kind   Kind[T]
	owner  string
	domain string
	client client.Client
	// live reads what the cache may not show.
	live  client.Reader
	apply *apply.Applier
	frame *frame.Frame[T]
	// objects has the Objects that objects of the kind declare, and applyObjects writes them; nil for a kind that
	// declares none.
	objects      *watcher
	applyObjects *apply.Applier
	// referred reads what objects of the kind name.
	referred referred
	// adopters say of objects of all kinds which other object's instance they take over.
	adopters adopters
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler[T]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return r.frame.Reconcile(ctx, request, r.kind.New())
}

// settle brings what the object declares to what it asks and fills in the status of the object.
func (r *reconciler[T]) settle(ctx context.Context, obj T) outcome.Outcome {
	users, err := r.keepUsed(ctx, obj)
	switch {
	case err != nil:
		return report(obj, unchanged, outcome.Failed(err))
	case !obj.GetDeletionTimestamp().IsZero():
		return r.deleting(obj, users)
	}
	if o, hands := r.handOver(ctx, obj); hands {
		return o
	}
	if r.suspended(obj) {
		conditions.Set(obj, metav1.Condition{Type: SuspendedCondition, Status: metav1.ConditionTrue,
			Reason:  SuspendedCondition,
			Message: "suspend is true, so that nothing is changed or repaired: set spec.suspend to false to resume"})
		return outcome.Failed(r.keepVolumes(ctx, obj))
	}
	conditions.Remove(obj, SuspendedCondition)
	referents, refusal, err := r.referents(ctx, obj)
	switch {
	case errors.Is(err, errNotSynced):
		return notSynced()
	case err != nil:
		return report(obj, unchanged, outcome.Failed(err))
	case refusal.Kind() != outcome.KindDone:
		return r.refused(ctx, obj, platformv1.PhaseStalled, refusal)
	}
	out, err := compile(r.kind, obj, r.domain, referents)
	if err != nil {
		return r.refused(ctx, obj, platformv1.PhaseStalled, outcome.Stalled(reasonOf(err), err.Error()))
	}
	if o := r.adopt(ctx, obj, out.Application); o.Kind() != outcome.KindDone {
		return r.refused(ctx, obj, phaseOf(o), o)
	}
	change, err := r.keepApplication(ctx, obj, out.Application)
	if err != nil {
		o := apply.Outcome(err)
		return r.refused(ctx, obj, phaseOf(o), o)
	}
	objects, err := r.keepObjects(ctx, obj, out.Objects)
	beside := outcome.Worst(refusedPart(out), r.leftApplication(ctx, obj, out.Application),
		r.keepEntities(ctx, obj, out.Entities), objects, r.keepOperations(ctx, obj, out.Operations))
	switch {
	case errors.Is(err, errNotSynced):
		return notSynced()
	case err != nil:
		beside = outcome.Worst(beside, compileError(err))
	}
	switch {
	case beside.Kind() == outcome.KindFailed:
		return report(obj, unchanged, beside)
	case out.Application == nil:
		return report(obj, phaseAlone(beside), beside)
	}
	return r.mirror(ctx, obj, out.Application.Name, change, beside)
}

// notSynced has an object be looked at again as soon as what it depends on may have been read. Its status stays as it
// is: nothing is known yet that would change it.
func notSynced() outcome.Outcome {
	return outcome.WaitingFor(syncRecheck, platformv1.ReasonProgressing,
		"the objects that it declares or names are being read")
}

// compileError is the outcome of an error of Compile or about what it returned.
func compileError(err error) outcome.Outcome {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return outcome.Stalled(refusal.Reason, refusal.Message)
	}
	return outcome.Failed(err)
}

// refusedPart is the outcome of what a kind refuses of the spec, while it compiles the rest.
func refusedPart(out *Output) outcome.Outcome {
	if out.Refused == nil {
		return outcome.Done()
	}
	return outcome.Stalled(reasonOf(out.Refused), out.Refused.Error())
}

// keepApplication applies the Application that an object declares, if any.
func (r *reconciler[T]) keepApplication(ctx context.Context, obj T,
	wanted *platformv1.Application) (apply.Change, error) {
	if wanted == nil {
		return apply.Unchanged, nil
	}
	if err := controllerutil.SetControllerReference(obj, wanted, r.client.Scheme()); err != nil {
		return apply.Unchanged, err
	}
	return r.apply.Apply(ctx, wanted)
}

// leftApplication is the outcome of an Application that an object declares no more. No operator deletes an instance for
// that: it may have data.
func (r *reconciler[T]) leftApplication(ctx context.Context, obj T, wanted *platformv1.Application) outcome.Outcome {
	if wanted != nil {
		return outcome.Done()
	}
	app := &platformv1.Application{}
	name := applicationName(r.kind, obj)
	err := r.client.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}, app)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return outcome.Failed(fmt.Errorf("cannot read Application %q: %w", name, err))
	case err == nil && metav1.IsControlledBy(app, obj):
		return outcome.Stalled(platformv1.ReasonInvalidSpec, fmt.Sprintf(
			"Application %q is no longer declared, and no operator deletes an instance for that: "+
				"delete it, or declare it again", name))
	}
	return outcome.Done()
}

// refused reports why the Application does not become what the object asks.
func (r *reconciler[T]) refused(ctx context.Context, obj T, phase platformv1.Phase,
	why outcome.Outcome) outcome.Outcome {
	report(obj, phase, why)
	return outcome.Worst(why, outcome.Failed(r.keepVolumes(ctx, obj)))
}

// mirror copies what the Application says of itself, once it speaks of what was asked. The object is ready only with
// what it declares beside that, and what a person has to mend there is said first, unless the Application stalls as
// well.
func (r *reconciler[T]) mirror(ctx context.Context, obj T, name string, change apply.Change,
	beside outcome.Outcome) outcome.Outcome {
	app := &platformv1.Application{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}, app)
	if client.IgnoreNotFound(err) != nil {
		return report(obj, unchanged, outcome.Failed(fmt.Errorf("cannot read Application %q: %w", name, err)))
	}
	pending := outcome.Waiting(platformv1.ReasonProgressing, fmt.Sprintf("Application %q takes up the change", name))
	switch {
	case change == apply.Updated:
		// What was read may be older than the write. The status still speaks of the
		// generation before, which is true; the watch brings the rest.
		return outcome.WaitingFor(frame.Recheck, pending.Reason(), pending.Message())
	case beside.Kind() == outcome.KindStalled && (err != nil || app.Status.ObservedGeneration != app.Generation):
		return report(obj, platformv1.PhaseStalled, beside)
	case err != nil, change == apply.Created, app.Status.ObservedGeneration <= 0:
		return report(obj, platformv1.PhaseCreating, pending)
	case app.Status.ObservedGeneration != app.Generation:
		return report(obj, platformv1.PhaseUpdating, pending)
	}
	obj.SetObservedGeneration(obj.GetGeneration())
	obj.SetPhase(app.Status.Phase)
	if reporter, ok := r.kind.(Reporter[T]); ok {
		reporter.Report(obj, app)
	}
	if conditions.IsTrue(app, platformv1.ReadyCondition) && beside.Kind() != outcome.KindDone ||
		beside.Kind() == outcome.KindStalled && !conditions.IsTrue(app, platformv1.StalledCondition) {
		conditions.Mirror(obj, app, platformv1.AcceptedCondition)
		return report(obj, phaseWith(beside), beside)
	}
	conditions.Mirror(obj, app, slices.Concat(mirrored, conditions.Declared(app), conditions.Declared(obj))...)
	return outcome.Done().Within(beside.After())
}

// deployers are the prefixes of labels by which tools find, and prune, what they have deployed.
var deployers = []string{"applyset.kubernetes.io", "addonmanager.kubernetes.io", "kapp.k14s.io",
	"objectset.rio.cattle.io"}

// carried are the labels of an object that its Application has, too, so that whoever selects instances can go by them.
// Those of the suite have their own meaning on each, and by those of the tools that deploy the object these would take
// the Application for theirs.
func carried(labels map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range labels {
		prefix, _, _ := strings.Cut(key, "/")
		switch {
		case strings.HasSuffix(prefix, "zeroinfra.github.com"), strings.HasPrefix(prefix, "argocd."),
			strings.HasSuffix(prefix, "fluxcd.io"),
			slices.Contains(deployers, prefix), key == "app.kubernetes.io/instance", key == platformv1.ManagedByLabel:
		default:
			kept[key] = value
		}
	}
	return kept
}

// declaresPluginVersion says whether the objects of a kind have a field for the version of the plugin.
func declaresPluginVersion(kind any) bool {
	writer, ok := kind.(Writer)
	if !ok {
		return false
	}
	_, declares := writer.WriteThrough()["pluginVersion"]
	return declares
}

func (r *reconciler[T]) suspended(obj T) bool {
	suspender, ok := r.kind.(Suspender[T])
	return ok && suspender.Suspended(obj)
}

// unchanged leaves the phase as it is: a failure of ours says nothing of the instance.
const unchanged platformv1.Phase = ""

// report writes an outcome of the frame itself into the status.
func report[T Object](obj T, phase platformv1.Phase, o outcome.Outcome) outcome.Outcome {
	conditions.Report(obj, o, "")
	if phase != unchanged {
		obj.SetPhase(phase)
	}
	return o
}

// phaseAlone is the phase of an object that declares no Application.
func phaseAlone(o outcome.Outcome) platformv1.Phase {
	if o.Kind() == outcome.KindDone {
		return platformv1.PhaseReady
	}
	return phaseWith(o)
}

func phaseOf(o outcome.Outcome) platformv1.Phase {
	switch o.Kind() {
	case outcome.KindStalled:
		return platformv1.PhaseStalled
	case outcome.KindWaiting:
		return platformv1.PhasePending
	default:
		return unchanged
	}
}
