// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/instance"
	"github.com/zeroinfra/platform-core/internal/livereader"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/outermost"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// unclaimedRetry is when an Operation looks again whose Application no operator has claimed yet.
const unclaimedRetry = time.Second

// errUnclaimed says that no operator has claimed the Application yet.
var errUnclaimed = errors.New("the Application has no domain yet")

// observation is all that was read for one Operation.
type observation struct {
	// application is the name of the Application that the target is part of.
	application string
	// facts to decide on.
	facts opsflow.Facts
	// bundle of the Application.
	bundle *plugin.Bundle
	// pods by name, to call.
	pods map[string]*corev1.Pod
	// generations of the volumes that the pods of each set have, by its name.
	generations map[string]string
	// members are the names of the pods, by component, that are members of one cluster, beyond those of the target.
	members map[string][]string
}

// observe reads what an Operation acts on. A refusal says why it can never run.
func (c *Controller) observe(ctx context.Context, op *platformv1.Operation) (*observation, *opsflow.Refusal, error) {
	if opsflow.IsInline(op) {
		return c.observeInline(ctx, op)
	}
	target, refusal := opsflow.ParseTarget(op.Spec.TargetRef)
	if refusal != nil {
		return nil, refusal, nil
	}
	if opsflow.MakesOrRemoves(op.Spec.TemplateRef) {
		return c.observeLife(ctx, op, target)
	}
	if seen, refusal, err := c.observeNew(ctx, op, target); seen != nil || refusal != nil || err != nil {
		return seen, refusal, err
	}
	application, component, err := c.resolve(ctx, op.Namespace, target)
	if apierrors.IsNotFound(err) {
		return nil, target.Absent(op.Namespace), nil
	}
	if err != nil {
		return nil, nil, err
	}
	app := &platformv1.Application{}
	err = c.get(ctx, types.NamespacedName{Namespace: op.Namespace, Name: application}, app)
	if apierrors.IsNotFound(err) || err == nil && !target.Owns(app) {
		return nil, target.Absent(op.Namespace), nil
	}
	if err != nil {
		return nil, nil, err
	}
	if app.DeletionTimestamp.IsZero() && app.Labels[platformv1.DomainLabel] == "" {
		return nil, nil, errUnclaimed
	}
	if refusal := c.available(app, target); refusal != nil &&
		!(opsflow.Running(op) && refusal.Reason == platformv1.ReasonDeleting) {
		return nil, refusal, nil
	}
	seen := &observation{application: application, facts: opsflow.Facts{
		Now: c.Now(), Target: target.String(), Reference: op.Spec.TargetRef, Component: component, Application: app,
		Answers: map[string]*opsflow.Answer{},
	}}
	if target.Kind == opsflow.TargetWorkloadSet {
		seen.facts.Set = strings.TrimPrefix(target.Name, platformv1.ComponentNameFor(application, component)+"-")
	}
	if refusal := c.findTemplate(op, target, component, seen); refusal != nil {
		return nil, refusal, nil
	}
	if err := c.observePasswords(ctx, seen); err != nil {
		return nil, nil, err
	}
	if opsflow.Running(op) {
		if seen.facts.Preempted, err = c.preempted(ctx, op, seen); err != nil {
			return nil, nil, err
		}
	}
	if seen.facts.ParentEnded, err = c.parentEnded(ctx, op); err != nil {
		return nil, nil, err
	}
	if refusal, err := c.observeDeclared(ctx, seen); refusal != nil || err != nil {
		return nil, refusal, err
	}
	if opsflow.RecordsSpec(op) {
		// It goes by what the Application says of itself.
		return seen, nil, nil
	}
	if err := c.observePods(ctx, app, target, component, seen); err != nil {
		return nil, nil, err
	}
	return seen, nil, c.observeWindow(ctx, op, seen)
}

// parentEnded says whether the Operation whose step this one is has ended, or is about to.
func (c *Controller) parentEnded(ctx context.Context, op *platformv1.Operation) (bool, error) {
	if opsflow.ParentOf(op) == "" {
		return false, nil
	}
	parent, err := parentIn(ctx, livereader.Reader{Cached: c.client, Live: c.live}, op)
	if parent == nil || err != nil {
		return err == nil, err
	}
	return opsflow.Finished(parent) || parent.Status.Ending != "" || parent.Spec.Cancel, nil
}

// observeDeclared reads what the outermost object says of itself, where a step of the engine asks for that. It refuses
// one of a kind that nobody here could change.
func (c *Controller) observeDeclared(ctx context.Context, seen *observation) (*opsflow.Refusal, error) {
	app := seen.facts.Application
	d := &seen.facts.Declared
	d.Object = outermost.NameOf(app)
	above := metav1.GetControllerOf(app)
	if !seen.facts.Runs(func(t optemplate.Template) bool {
		return slices.ContainsFunc(t.Steps, func(s optemplate.Step) bool {
			return s.Engine != nil && !s.Engine.Do.OnPods() && !s.Engine.Do.OnCopies()
		})
	}) {
		return nil, nil
	}
	d.ObservedGeneration = app.Status.ObservedGeneration
	d.Ready, d.Stalled = conditionOf(app.Status.Conditions, platformv1.ReadyCondition),
		conditionOf(app.Status.Conditions, platformv1.StalledCondition)
	if above == nil || !seen.facts.Runs(opsflow.Edits) {
		return nil, nil
	}
	object, kind, err := c.editor.Read(ctx, app)
	if refusal := (*opsflow.Refusal)(nil); errors.As(err, &refusal) {
		return refusal, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", d.Object, err)
	}
	source := kind.Object()
	if err := outermost.Decode(object, source); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", d.Object, err)
	}
	d.ObservedGeneration, _, _ = unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if reported, ok := source.(platformv1.Conditioned); ok {
		d.Ready, d.Stalled = conditionOf(reported.GetConditions(), platformv1.ReadyCondition),
			conditionOf(reported.GetConditions(), platformv1.StalledCondition)
	}
	return nil, nil
}

func conditionOf(list []metav1.Condition, of string) opsflow.Condition {
	if found := meta.FindStatusCondition(list, of); found != nil {
		return opsflow.Condition{Status: found.Status, Reason: found.Reason, Message: found.Message}
	}
	return opsflow.Condition{Message: "it has not been observed yet"}
}

// resolve returns the names of the Application and, where the target is part of just one, of the component.
func (c *Controller) resolve(ctx context.Context, namespace string, target opsflow.Target) (application,
	component string, err error) {
	key := types.NamespacedName{Namespace: namespace, Name: target.Name}
	switch target.Kind {
	case opsflow.TargetComponent:
		found := &platformv1.Component{}
		err = c.get(ctx, key, found)
		return found.Spec.Application, found.Spec.Component, err
	case opsflow.TargetWorkloadSet:
		found := &platformv1.WorkloadSet{}
		err = c.get(ctx, key, found)
		return found.Spec.Application, found.Spec.Component, err
	}
	application, err = instance.NameOf(ctx, c.client, namespace, target)
	return application, "", err
}

// get reads an object that has to be there, or the Operation ends.
func (c *Controller) get(ctx context.Context, key types.NamespacedName, obj client.Object) error {
	err := livereader.Reader{Cached: c.client, Live: c.live}.Get(ctx, key, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot read the target of an Operation, %T %q: %w", obj, key, err)
	}
	return err
}

// available refuses an Application that is going or that another operator serves.
func (c *Controller) available(app *platformv1.Application, target opsflow.Target) *opsflow.Refusal {
	if !app.DeletionTimestamp.IsZero() {
		return &opsflow.Refusal{Reason: platformv1.ReasonDeleting, Message: fmt.Sprintf("%s is being deleted", target)}
	}
	if domain := app.Labels[platformv1.DomainLabel]; domain != c.Domain {
		return &opsflow.Refusal{Reason: platformv1.ReasonTargetNotFound, Message: fmt.Sprintf(
			"%s is not of domain %q: create the Operation without the label %s, so that the operator that serves the target "+
				"takes it",
			target, c.Domain, platformv1.DomainLabel)}
	}
	return nil
}

// bundle returns the plugin with this version and digest.
func (c *Controller) bundle(pinned platformv1.PluginReference) (*plugin.Bundle, *opsflow.Refusal) {
	known := opsflow.Unknown
	state, found := c.Index.Get(pinned.Name, pinned.Version)
	if found {
		known = opsflow.Known
	}
	return opsflow.BundleOf(pinned, state, known)
}

func (c *Controller) findTemplate(op *platformv1.Operation, target opsflow.Target, component string,
	seen *observation) *opsflow.Refusal {
	app, facts := seen.facts.Application, &seen.facts
	if opsflow.RecordsFailover(op) {
		// What the engine did depends on no plugin, and takes turns with nobody.
		facts.Template = opsflow.Defaults()[opsflow.TemplateFailover]
		facts.Parameters = opsflow.ParametersInForce(op.Spec, facts.Template)
		return nil
	}
	pinned := opsflow.PinnedTo(app)
	bundle, refusal := c.bundle(pinned)
	if refusal != nil {
		return seen.goUnaided(op, refusal)
	}
	bundle = bundle.In(app.Spec.Topology)
	seen.bundle = bundle
	from := bundle
	if facts.Plugin = &pinned; opsflow.Running(op) && op.Status.Plugin != nil {
		// The plugin may be another one by now, since the run changed it.
		if from, refusal = c.bundle(*op.Status.Plugin); refusal != nil {
			return seen.goUnaided(op, refusal)
		}
		from = from.In(app.Spec.Topology)
	}
	facts.Template, refusal = opsflow.FindTemplate(op.Spec, from)
	if refusal != nil {
		return refusal
	}
	facts.Credentials = credentialsOf(app, bundle)
	facts.Actions, facts.Resources, facts.Unreloadable = map[string][]plan.Action{},
		map[string]corev1.ResourceRequirements{}, map[string]bool{}
	for _, declared := range bundle.Components.Components {
		facts.Actions[declared.Name], facts.Resources[declared.Name] = declared.Actions, declared.Resources
		facts.Unreloadable[declared.Name] = declared.Process.Reload == nil
	}
	if topology, ok := bundle.Topology(app.Spec.Topology); ok {
		facts.UpdateOrder = topology.UpdateOrder
		for _, part := range topology.Wanted(app.Spec.Names) {
			facts.Components = append(facts.Components, part.Name)
		}
	}
	facts.BackupMethods = backupMethods(bundle, facts.Components)
	if opsflow.Running(op) {
		// What it runs with was checked when it began, and does not change.
		facts.Parameters = opsflow.ParametersInForce(op.Spec, facts.Template)
		return nil
	}
	if refusal := opsflow.Check(op, target, component, facts.Template); refusal != nil {
		return refusal
	}
	facts.Parameters = opsflow.ParametersInForce(op.Spec, facts.Template)
	if op.Spec.DryRun {
		facts.Others = func(name string) (optemplate.Template, *opsflow.Refusal) {
			return opsflow.FindTemplate(platformv1.OperationSpec{TemplateRef: name}, bundle)
		}
		facts.Admit = func(nested *platformv1.Operation, template optemplate.Template) *opsflow.Refusal {
			return admit(nested, target, component, template, bundle, facts.Components)
		}
	}
	return opsflow.Supported(facts.Template, bundle, facts.Components, component)
}

// admit refuses an Operation that a step would run.
func admit(op *platformv1.Operation, target opsflow.Target, component string, template optemplate.Template,
	bundle *plugin.Bundle, components []string) *opsflow.Refusal {
	if opsflow.MakesOrRemoves(op.Spec.TemplateRef) {
		if refusal := opsflow.CheckLife(op, target, &opsflow.Self{}); refusal != nil {
			return refusal
		}
	}
	if refusal := opsflow.Check(op, target, component, template); refusal != nil {
		return refusal
	}
	return opsflow.Supported(template, bundle, components, component)
}

// goUnaided has a run that is in the midst of giving pods other volumes wait for the plugin of its target, or go back
// without it. Every other one is refused.
func (seen *observation) goUnaided(op *platformv1.Operation, refusal *opsflow.Refusal) *opsflow.Refusal {
	template := opsflow.Unaided(op)
	if template == nil {
		return refusal
	}
	// Whether others pre-empt it is for the templates of the engine to say.
	seen.bundle = &plugin.Bundle{}
	seen.facts.Template, seen.facts.NoPlugin = *template, refusal
	seen.facts.Parameters = opsflow.ParametersInForce(op.Spec, *template)
	return nil
}

// observePods reads the pods that the sets of the target are to have.
func (c *Controller) observePods(ctx context.Context, app *platformv1.Application, target opsflow.Target,
	component string, seen *observation) error {
	ofApplication := []client.ListOption{client.InNamespace(app.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: app.Name}}
	var sets platformv1.WorkloadSetList
	if err := c.client.List(ctx, &sets, ofApplication...); err != nil {
		return fmt.Errorf("cannot list the WorkloadSets of Application %q: %w", app.Name, err)
	}
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, ofApplication...); err != nil {
		return fmt.Errorf("cannot list the pods of Application %q: %w", app.Name, err)
	}
	seen.pods = map[string]*corev1.Pod{}
	for i := range pods.Items {
		seen.pods[pods.Items[i].Name] = &pods.Items[i]
	}
	seen.facts.HandingOver, seen.facts.Electing = map[string]bool{}, map[string]bool{}
	seen.generations, seen.members = map[string]string{}, map[string][]string{}
	for i := range sets.Items {
		set := &sets.Items[i]
		seen.observeMembers(set)
		if !target.Selects(set, component) || !set.DeletionTimestamp.IsZero() {
			continue
		}
		seen.facts.Sets = append(seen.facts.Sets, set.Name)
		seen.observeWriting(set)
		seen.observeData(set, pods.Items)
		seen.generations[set.Name] = set.Spec.Generation()
		if set.Spec.Switchover != nil {
			seen.facts.HandingOver[set.Name] = true
		}
		for ordinal := range set.Spec.Replicas {
			name := platformv1.PodNameFor(set.Name, ordinal)
			seen.facts.Pods = append(seen.facts.Pods, factsOf(set, ordinal, name, seen.pods[name]))
		}
	}
	return c.observeClaims(ctx, app, seen)
}

// observeMembers notes the pods of a set that are members of one cluster with those of others.
func (seen *observation) observeMembers(set *platformv1.WorkloadSet) {
	if set.Spec.Members == "" || !set.Spec.IsRunning() || !set.DeletionTimestamp.IsZero() {
		return
	}
	for _, ordinal := range set.Spec.Ordinals() {
		seen.members[set.Spec.Component] = append(seen.members[set.Spec.Component], platformv1.PodNameFor(set.Name, ordinal))
	}
}

// factsOf describes one pod of a set; pod is nil while there is none.
func factsOf(set *platformv1.WorkloadSet, ordinal int32, name string, pod *corev1.Pod) opsflow.Pod {
	facts := opsflow.Pod{Name: name, Component: set.Spec.Component, Set: set.Spec.Set, Ordinal: ordinal,
		Presence: presenceOf(pod)}
	if pod == nil {
		return facts
	}
	facts.UID, facts.Ready = pod.UID, readyOf(pod)
	facts.Report = report.Latest(pod.Annotations[platformv1.ReportAnnotation])
	facts.Access, facts.Reported = accessOf(set, pod.Labels[platformv1.RoleLabel]), accessOf(set, facts.Report.Role)
	return facts
}

// accessOf is what clients may do with a pod in a role; empty for a role that is not known.
func accessOf(set *platformv1.WorkloadSet, name string) platformv1.RoleAccess {
	for _, role := range set.Spec.Roles {
		if role.Name == name {
			return role.Access
		}
	}
	return ""
}

// readyOf is the condition Ready of a pod; Unknown while it has none.
func readyOf(pod *corev1.Pod) metav1.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return metav1.ConditionStatus(condition.Status)
		}
	}
	return metav1.ConditionUnknown
}

func presenceOf(pod *corev1.Pod) opsflow.Presence {
	switch {
	case pod == nil:
		return opsflow.PodAbsent
	case !pod.DeletionTimestamp.IsZero(), pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return opsflow.PodGoing
	case pod.Status.PodIP == "":
		return opsflow.PodComing
	}
	return opsflow.PodRunning
}
