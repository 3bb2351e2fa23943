// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// observeLife reads what there is for an Operation that makes or deletes its target.
func (c *Controller) observeLife(ctx context.Context, op *platformv1.Operation, target opsflow.Target) (*observation,
	*opsflow.Refusal, error) {
	if target.Application == "" {
		return nil, opsflow.CheckLife(op, target, nil), nil
	}
	// Whether others pre-empt it, or it them, is for the templates of the engine to say.
	application, _, err := c.resolve(ctx, op.Namespace, target)
	if err != nil {
		return nil, nil, err
	}
	seen := &observation{application: application, bundle: &plugin.Bundle{}, facts: opsflow.Facts{
		Now: c.Now(), Target: target.String(), Reference: op.Spec.TargetRef,
		Template: opsflow.Defaults()[op.Spec.TemplateRef], Answers: map[string]*opsflow.Answer{},
	}}
	object, _, err := c.outermost(ctx, op, seen)
	if refusal, is := err.(*opsflow.Refusal); is {
		return nil, refusal, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if seen.facts.Self != nil {
		if seen.facts.Declared, err = standing(object, seen.facts.Target); err != nil {
			return nil, nil, err
		}
	}
	if seen.facts.ParentEnded, err = c.parentEnded(ctx, op); err != nil {
		return nil, nil, err
	}
	if !opsflow.Running(op) {
		if refusal := opsflow.CheckLife(op, target, seen.facts.Self); refusal != nil {
			return nil, refusal, nil
		}
		if refusal := opsflow.Check(op, target, "", seen.facts.Template); refusal != nil {
			return nil, refusal, nil
		}
	}
	return seen, nil, c.observeRemains(ctx, op, seen)
}

// standing is what an object says of itself.
func standing(object *unstructured.Unstructured, name string) (opsflow.Declared, error) {
	var status struct {
		ObservedGeneration int64              `json:"observedGeneration,omitempty"`
		Conditions         []metav1.Condition `json:"conditions,omitempty"`
	}
	said, _, err := unstructured.NestedMap(object.Object, "status")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(said, &status)
	}
	if err != nil {
		return opsflow.Declared{}, fmt.Errorf("cannot read the status of %s: %w", name, err)
	}
	return opsflow.Declared{Object: name, ObservedGeneration: status.ObservedGeneration,
		Ready:   conditionOf(status.Conditions, platformv1.ReadyCondition),
		Stalled: conditionOf(status.Conditions, platformv1.StalledCondition)}, nil
}

// outermost reads the object that declares the target, which is another one for an Application that has an owner; nil
// when there is none. The error is a Refusal for a kind that this operator does not serve.
func (c *Controller) outermost(ctx context.Context, op *platformv1.Operation,
	seen *observation) (*unstructured.Unstructured, typed.Registration, error) {
	app := &platformv1.Application{}
	err := c.live.Get(ctx, types.NamespacedName{Namespace: op.Namespace, Name: seen.application}, app)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("cannot read Application %q: %w", seen.application, err)
	}
	reference := op.Spec.TargetRef
	gvk := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind)
	there := err == nil
	if above := metav1.GetControllerOf(app); there && gvk.Group == platformv1.GroupVersion.Group && above != nil {
		gvk, reference.Name = schema.FromAPIVersionAndKind(above.APIVersion, above.Kind), above.Name
		seen.facts.Target = fmt.Sprintf("%s %q", above.Kind, above.Name)
	}
	var kind typed.Registration
	if gvk.Group != platformv1.GroupVersion.Group {
		if kind = c.Kinds[gvk.GroupKind()]; kind == nil {
			return nil, nil, &opsflow.Refusal{Reason: opsflow.ReasonNotSupported,
				Message: fmt.Sprintf("%s is of a kind that this operator does not serve", seen.facts.Target)}
		}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	err = c.live.Get(ctx, types.NamespacedName{Namespace: op.Namespace, Name: reference.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil, kind, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read %s: %w", seen.facts.Target, err)
	}
	self := &opsflow.Self{UID: object.GetUID(), Generation: object.GetGeneration(),
		Maker: types.UID(object.GetAnnotations()[platformv1.MadeByAnnotation])}
	if object.GetDeletionTimestamp() != nil {
		self.Going = opsflow.PodGoing
	}
	if there && (app.UID == object.GetUID() || metav1.IsControlledBy(app, object)) {
		self.Application, self.Keeps = app.UID, app.Spec.DeletionPolicy
	}
	seen.facts.Self = self
	return object, kind, nil
}

// observeRemains says what is left of an instance that is being deleted.
func (c *Controller) observeRemains(ctx context.Context, op *platformv1.Operation, seen *observation) error {
	if op.Spec.TemplateRef != opsflow.TemplateDelete || len(op.Status.Steps) == 0 {
		return nil
	}
	uid := types.UID(op.Status.Steps[0].Outputs[opsflow.OutputApplication])
	app := &platformv1.Application{}
	err := c.live.Get(ctx, types.NamespacedName{Namespace: op.Namespace, Name: seen.application}, app)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("cannot read Application %q: %w", seen.application, err)
	case err == nil && app.UID == uid:
		seen.facts.Remains = append(seen.facts.Remains, fmt.Sprintf("Application %q", app.Name))
		return nil
	case err == nil:
		// Somebody has made another one: what is there is its own.
		return nil
	}
	var sets platformv1.WorkloadSetList
	var pods corev1.PodList
	of := []client.ListOption{client.InNamespace(op.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: seen.application}}
	for _, list := range []client.ObjectList{&sets, &pods} {
		if err := c.live.List(ctx, list, of...); err != nil {
			return fmt.Errorf("cannot list what is left of Application %q: %w", seen.application, err)
		}
	}
	for i := range sets.Items {
		seen.facts.Remains = append(seen.facts.Remains, fmt.Sprintf("WorkloadSet %q", sets.Items[i].Name))
	}
	for i := range pods.Items {
		if by := metav1.GetControllerOf(&pods.Items[i]); by != nil && by.Kind == "WorkloadSet" {
			seen.facts.Remains = append(seen.facts.Remains, fmt.Sprintf("pod %q", pods.Items[i].Name))
		}
	}
	return nil
}

// life makes or deletes the outermost object as the account that the Operation names, and as nobody else.
func (c *Controller) life(ctx context.Context, op *platformv1.Operation, seen *observation, life *opsflow.Life) (
	answer *opsflow.Answer, err error) {
	verb := "deleted"
	if life.UID != "" {
		answer, err = c.deleteTarget(ctx, op, seen, life.UID)
	} else {
		verb = "made"
		answer, err = c.makeTarget(ctx, op, made(op, life.Spec))
	}
	if refused(err) {
		return refuse("%s cannot be %s: %v", seen.facts.Target, verb, err), nil
	}
	return answer, err
}

// deleteTarget deletes the outermost object if it is still the one that is meant. It stays until all that is made from
// it is gone.
func (c *Controller) deleteTarget(ctx context.Context, op *platformv1.Operation, seen *observation,
	uid types.UID) (*opsflow.Answer, error) {
	object, _, err := c.outermost(ctx, op, seen)
	if err != nil || object == nil || object.GetUID() != uid {
		return &opsflow.Answer{}, err
	}
	as, err := c.actingAs(op)
	if err != nil {
		return nil, err
	}
	options := &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid},
		PropagationPolicy: new(metav1.DeletePropagationForeground)}
	if op.Spec.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return &opsflow.Answer{}, client.IgnoreNotFound(as.Delete(ctx, object, options))
}

// makeTarget makes an object, unless this Operation has done so before. It comes back as the API server completes it.
func (c *Controller) makeTarget(ctx context.Context, op *platformv1.Operation,
	object *unstructured.Unstructured) (*opsflow.Answer, error) {
	as, err := c.actingAs(op)
	if err != nil {
		return nil, err
	}
	options := &client.CreateOptions{FieldManager: owner, FieldValidation: metav1.FieldValidationStrict}
	if op.Spec.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	err = as.Create(ctx, object, options)
	switch {
	case apierrors.IsAlreadyExists(err):
		if err := c.live.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return nil, err
		}
		if object.GetAnnotations()[platformv1.MadeByAnnotation] != string(op.UID) {
			return refuse("there is a %s %q already that this Operation did not make", object.GetKind(), object.GetName()), nil
		}
	case err != nil:
		return nil, err
	}
	return &opsflow.Answer{Outputs: map[string]string{
			opsflow.OutputUID:        string(object.GetUID()),
			opsflow.OutputGeneration: strconv.FormatInt(object.GetGeneration(), 10)}},
		nil
}

// made is the object that an Operation asks for. That it is of this Operation is on it from the first moment, so that
// nobody takes it for another's.
func made(op *platformv1.Operation, spec map[string]any) *unstructured.Unstructured {
	object := asked(op, spec)
	object.SetAnnotations(map[string]string{platformv1.MadeByAnnotation: string(op.UID)})
	return object
}

// rehearse has the API server say whether the target could be made or deleted, and works out what would come of it.
func (c *Controller) rehearse(ctx context.Context, op *platformv1.Operation, seen *observation) (
	map[string]opsflow.Forecast, *opsflow.Refusal, error) {
	failed := func(format string, args ...any) (map[string]opsflow.Forecast, *opsflow.Refusal, error) {
		return nil, &opsflow.Refusal{Reason: opsflow.ReasonStepFailed, Message: fmt.Sprintf(format, args...)}, nil
	}
	if op.Spec.TemplateRef == opsflow.TemplateDelete {
		answer, err := c.life(ctx, op, seen, &opsflow.Life{UID: seen.facts.Self.UID})
		if err == nil && answer.Failure == opsflow.FailureRefused {
			return failed("%s", answer.Problem)
		}
		return nil, nil, err
	}
	spec, err := opsflow.ParseSpec(op.Spec.TargetSpec)
	if err != nil {
		return failed("%v", err)
	}
	object := made(op, spec)
	answer, err := c.makeTarget(ctx, op, object)
	switch {
	case refused(err):
		return failed("%s cannot be made: %v", seen.facts.Target, err)
	case err != nil:
		return nil, nil, err
	case answer.Failure == opsflow.FailureRefused:
		return failed("%s", answer.Problem)
	}
	changes, refusal, err := c.forecastTarget(ctx, object)
	if refusal != "" {
		return failed("%s", refusal)
	}
	return map[string]opsflow.Forecast{"create": {Changes: changes}}, nil, err
}
