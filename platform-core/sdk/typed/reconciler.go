// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
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
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
)

// recheck is how soon to look again after a write of which the watch may say
// nothing, since it turned out to change nothing.
const recheck = time.Second

// mirrored are the conditions that a typed object has from its Application.
var mirrored = []string{
	platformv1.AcceptedCondition, platformv1.ReadyCondition,
	platformv1.ReconcilingCondition, platformv1.StalledCondition, platformv1.RestoredCondition, platformv1.ArchiveFoundCondition, platformv1.BackupsVerifiedCondition,
}

// reconciler is the controller of one typed kind.
type reconciler[T Object] struct {
	kind   Kind[T]
	owner  string
	domain string
	client client.Client
	apply  *apply.Applier
	events *event.Recorder
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler[T]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := r.kind.New()
	if err := r.client.Get(ctx, request.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := obj.DeepCopyObject().(T)
	o := r.settle(ctx, obj)
	telemetry.Outcome(r.owner, o)
	if err := patch.Status(ctx, r.client, before, obj); err != nil {
		return reconcile.Result{}, err
	}
	if o.Kind() == outcome.KindStalled && !saysSo(before, o) {
		r.events.Warning(obj, o.Reason(), "%s", o.Message())
	}
	return o.Result()
}

// saysSo says whether the status had this very outcome before, so that it is no news, not even after a restart.
func saysSo(obj platformv1.Conditioned, o outcome.Outcome) bool {
	stalled := conditions.Get(obj, platformv1.StalledCondition)
	return stalled != nil && stalled.Reason == o.Reason() && stalled.Message == o.Message()
}

// settle brings the Application to what the object asks and writes the status of the object.
func (r *reconciler[T]) settle(ctx context.Context, obj T) outcome.Outcome {
	if !obj.GetDeletionTimestamp().IsZero() {
		return report(obj, platformv1.PhaseDeleting, outcome.Waiting(platformv1.ReasonDeleting, "what it owns is being removed"))
	}
	if r.suspended(obj) {
		conditions.Set(obj, metav1.Condition{Type: SuspendedCondition, Status: metav1.ConditionTrue, Reason: SuspendedCondition,
			Message: "the spec has the engine do nothing for this object"})
		return outcome.Failed(r.keepVolumes(ctx, obj))
	}
	conditions.Remove(obj, SuspendedCondition)
	referents, err := r.referents(ctx, obj)
	if err != nil {
		return report(obj, unchanged, outcome.Failed(err))
	}
	out, err := compile(r.kind, obj, r.domain, referents)
	if err != nil {
		return r.refused(ctx, obj, platformv1.PhaseStalled, outcome.Stalled(reasonOf(err), err.Error()))
	}
	if err := controllerutil.SetControllerReference(obj, out.Application, r.client.Scheme()); err != nil {
		return report(obj, unchanged, outcome.Failed(err))
	}
	change, err := r.apply.Apply(ctx, out.Application)
	if err != nil {
		o := apply.Outcome(err)
		return r.refused(ctx, obj, phaseOf(o), o)
	}
	entities, err := r.keepEntities(ctx, obj, out.Entities)
	if err != nil {
		o := apply.Outcome(err)
		return report(obj, phaseOf(o), o)
	}
	return r.mirror(ctx, obj, out.Application.Name, change, entities)
}

// refused reports why the Application does not become what the object asks.
func (r *reconciler[T]) refused(ctx context.Context, obj T, phase platformv1.Phase, why outcome.Outcome) outcome.Outcome {
	report(obj, phase, why)
	return outcome.Worst(why, outcome.Failed(r.keepVolumes(ctx, obj)))
}

// mirror copies what the Application says of itself, once it speaks of what was asked; when it is ready, the object is so only with its Entities.
func (r *reconciler[T]) mirror(ctx context.Context, obj T, name string, change apply.Change, entities outcome.Outcome) outcome.Outcome {
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
		return outcome.WaitingFor(recheck, pending.Reason(), pending.Message())
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
	if conditions.IsTrue(app, platformv1.ReadyCondition) && entities.Kind() != outcome.KindDone {
		conditions.Mirror(obj, app, platformv1.AcceptedCondition)
		return report(obj, phaseWith(entities), entities)
	}
	conditions.Mirror(obj, app, slices.Concat(mirrored, conditions.Declared(app), conditions.Declared(obj))...)
	return outcome.Done()
}

// deployers are the prefixes of labels by which tools find, and prune, what they have deployed.
var deployers = []string{"applyset.kubernetes.io", "addonmanager.kubernetes.io", "kapp.k14s.io", "objectset.rio.cattle.io"}

// carried are the labels of an object that its Application has, too, so that whoever selects instances can go by them. Those of the suite have their own
// meaning on each, and by those of the tools that deploy the object these would take the Application for theirs.
func carried(labels map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range labels {
		prefix, _, _ := strings.Cut(key, "/")
		switch {
		case strings.HasSuffix(prefix, "zeroinfra.github.com"), strings.HasPrefix(prefix, "argocd."), strings.HasSuffix(prefix, "fluxcd.io"),
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
