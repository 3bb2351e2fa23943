// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/render"
)

// observeNew looks whether an Operation asks what would come of a target that is not there yet; nil when it does not.
// What such an object would come to depends on nothing that only somebody with rights may read.
func (c *Controller) observeNew(ctx context.Context, op *platformv1.Operation, target opsflow.Target) (*observation,
	*opsflow.Refusal, error) {
	if !opsflow.PlansNew(op, target) {
		return nil, nil, nil
	}
	application, _, err := c.resolve(ctx, op.Namespace, target)
	if err != nil {
		return nil, nil, err
	}
	app := &platformv1.Application{}
	err = c.get(ctx, types.NamespacedName{Namespace: op.Namespace, Name: application}, app)
	switch {
	case err == nil && target.Owns(app):
		return nil, nil, nil
	case err == nil:
		return nil, &opsflow.Refusal{Reason: platformv1.ReasonNameTaken, Message: fmt.Sprintf(
				"%s would be made as Application %q, and that is there and is not of it: give it another name", target, app.Name)},
			nil
	case !apierrors.IsNotFound(err):
		return nil, nil, err
	}
	// Only the engine has templates for what is not there.
	seen := &observation{application: target.Application, bundle: &plugin.Bundle{}, facts: opsflow.Facts{
		Now: c.Now(), Target: target.String(), Reference: op.Spec.TargetRef,
		Template: opsflow.Defaults()[opsflow.TemplatePlan],
		Declared: opsflow.Declared{Object: target.String()}, Answers: map[string]*opsflow.Answer{},
	}}
	return seen, opsflow.Check(op, target, "", seen.facts.Template), nil
}

// forecastTarget works out what would come of a target that is not there, as it would be stored.
func (c *Controller) forecastTarget(ctx context.Context, object *unstructured.Unstructured) (
	changes []platformv1.PlannedChange, refusal string, err error) {
	kind := c.Kinds[object.GroupVersionKind().GroupKind()]
	app, err := c.editor.Compile(object, kind, &platformv1.Application{})
	if err != nil {
		return nil, err.Error(), nil
	}
	of, refusal, err := c.rollOut(ctx, app)
	if refusal != "" || err != nil {
		return nil, refusal, err
	}
	create := func(kind, name string) {
		changes = append(changes, platformv1.PlannedChange{Kind: kind, Name: name, Action: platformv1.PlannedCreate})
	}
	if kind != nil {
		create("Application", app.Name)
	}
	if app.Spec.Suspend {
		return changes, "", nil
	}
	state, _ := c.Index.Get(app.Spec.Plugin, app.Spec.PluginVersion)
	bundle := state.Bundle.In(app.Spec.Topology)
	facts, err := c.editor.Facts(ctx, app)
	if err != nil {
		return nil, "", err
	}
	supplied := accept.Supplied(app, facts)
	for _, credential := range bundle.Components.Credentials {
		if !credential.Supplied || slices.ContainsFunc(supplied,
			func(s platformv1.Credential) bool { return s.Name == credential.Name }) {
			create("Secret", platformv1.CredentialNameFor(app.Name, credential.Name))
		}
	}
	for _, issuer := range render.Authority(app) {
		create(issuer.GetKind(), issuer.GetName())
	}
	component := ""
	for _, change := range of {
		if change.Component != component {
			component = change.Component
			changes = append(changes, platformv1.PlannedChange{Component: component, Kind: "Component",
				Name: platformv1.ComponentNameFor(app.Name, component), Action: platformv1.PlannedCreate})
		}
		changes = append(changes, change)
	}
	if bundle.Components.Binding != nil {
		create("Secret", platformv1.BindingNameFor(app.Name))
	}
	return changes, "", nil
}

// introduce says what would come of a target that is not there yet, for a plan.
func (c *Controller) introduce(ctx context.Context, op *platformv1.Operation, seen *observation) (
	map[string]opsflow.Forecast, *opsflow.Refusal, error) {
	spec, err := opsflow.ParseSpec(op.Spec.TargetSpec)
	if err != nil {
		return nil, &opsflow.Refusal{Reason: platformv1.ReasonInvalidSpec, Message: err.Error()}, nil
	}
	changes, refusal, err := c.forecastTarget(ctx, asked(op, spec))
	if refusal != "" {
		return nil, &opsflow.Refusal{Reason: opsflow.ReasonStepFailed, Message: refusal}, nil
	}
	forecasts := map[string]opsflow.Forecast{}
	for step := range opsflow.EditsOf(op, seen.facts) {
		forecasts[step] = opsflow.Forecast{Fields: []string{"makes " + seen.facts.Target}, Changes: changes}
	}
	return forecasts, nil, err
}

// asked is the object that an Operation speaks of, with a spec.
func asked(op *platformv1.Operation, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(op.Spec.TargetRef.APIVersion)
	object.SetKind(op.Spec.TargetRef.Kind)
	object.SetNamespace(op.Namespace)
	object.SetName(op.Spec.TargetRef.Name)
	return object
}

// isNew says whether an Operation is about an Application that is not there yet.
func (seen *observation) isNew() bool { return seen.facts.Application == nil }
