// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// objectOwner is the field owner of what steps apply: another than that of the fields that Operations edit.
const objectOwner = owner + "-step"

// child makes the Operation of a step, or looks how it stands when it is there.
func (c *Controller) child(ctx context.Context, parent *platformv1.Operation, wanted *opsflow.Child) (*opsflow.Answer, error) {
	child := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{
		Namespace: parent.Namespace, Name: wanted.Name, Labels: map[string]string{
			platformv1.DomainLabel: c.Domain, platformv1.ApplicationLabel: parent.Status.Application},
	}, Spec: wanted.Spec}
	if trigger := parent.Labels[platformv1.TriggerLabel]; trigger != "" {
		child.Labels[platformv1.TriggerLabel] = trigger
	}
	if err := controllerutil.SetControllerReference(parent, child, c.client.Scheme()); err != nil {
		return nil, err
	}
	err := c.client.Create(ctx, child)
	if apierrors.IsAlreadyExists(err) {
		err = c.live.Get(ctx, client.ObjectKeyFromObject(child), child)
		if err == nil && !metav1.IsControlledBy(child, parent) {
			return refuse("there is an Operation %q that is not of this one: delete it", child.Name), nil
		}
		if err == nil && !asMade(child.Spec, wanted.Spec) {
			return refuse("there is an Operation %q that asks for something else than this step: delete it", child.Name), nil
		}
	}
	switch {
	case refused(err):
		return refuse("Operation %q cannot be made: %v", wanted.Name, err), nil
	case err != nil:
		return nil, fmt.Errorf("cannot make Operation %q: %w", wanted.Name, err)
	}
	return &opsflow.Answer{Child: child.Status}, nil
}

// asMade says whether a step could have made an Operation with this spec. What people add later does not count, and neither do parameters,
// which follow from how the target was at that moment.
func asMade(present, wanted platformv1.OperationSpec) bool {
	present.Cancel, present.Approval, present.Parameters = false, nil, nil
	wanted.Parameters = nil
	if wanted.Timeout == nil {
		// The API server fills it in.
		wanted.Timeout = present.Timeout
	}
	return equality.Semantic.DeepEqual(present, wanted)
}

// object reads, applies, patches or deletes an object in the namespace of the Operation.
func (c *Controller) object(ctx context.Context, op *platformv1.Operation, wanted *opsflow.Object) (*opsflow.Answer, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if wanted.Content != nil {
		object.Object = maps.Clone(wanted.Content)
	}
	gv, err := schema.ParseGroupVersion(wanted.APIVersion)
	if err != nil {
		return refuse("%q is no apiVersion: %v", wanted.APIVersion, err), nil
	}
	object.SetGroupVersionKind(gv.WithKind(wanted.Kind))
	mapping, err := c.client.RESTMapper().RESTMapping(object.GroupVersionKind().GroupKind(), gv.Version)
	switch {
	case meta.IsNoMatchError(err):
		return refuse("the cluster has no kind %s of %s", wanted.Kind, wanted.APIVersion), nil
	case err != nil:
		return nil, fmt.Errorf("cannot find kind %s of %s: %w", wanted.Kind, wanted.APIVersion, err)
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return refuse("%s of %s belongs to no namespace: a step acts within that of its target only", wanted.Kind, wanted.APIVersion), nil
	}
	object.SetNamespace(op.Namespace)
	object.SetName(wanted.Name)
	as, err := c.actingAs(op)
	if err != nil {
		return nil, err
	}
	answer, err := write(ctx, as, wanted.Verb, object)
	if refused(err) {
		return refuse("cannot %s %s %q: %v", wanted.Verb, wanted.Kind, wanted.Name, err), nil
	}
	return answer, err
}

// actingAs is the client for the objects of steps: with the operator's own rights, or with those of the account that the Operation names.
func (c *Controller) actingAs(op *platformv1.Operation) (client.Client, error) {
	if op.Spec.ServiceAccountName == "" {
		return c.client, nil
	}
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:%s", op.Namespace, op.Spec.ServiceAccountName)}
	as, err := client.New(config, client.Options{Scheme: c.client.Scheme(), Mapper: c.client.RESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("cannot act as ServiceAccount %q: %w", op.Spec.ServiceAccountName, err)
	}
	return as, nil
}

func write(ctx context.Context, as client.Client, verb opsflow.ObjectVerb, object *unstructured.Unstructured) (*opsflow.Answer, error) {
	switch verb {
	case opsflow.ObjectGet:
		err := as.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return &opsflow.Answer{}, nil
		}
		return &opsflow.Answer{Object: object.Object}, err
	case opsflow.ObjectDelete:
		return &opsflow.Answer{}, client.IgnoreNotFound(as.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	case opsflow.ObjectPatch:
		data, err := json.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		err = as.Patch(ctx, object, client.RawPatch(types.MergePatchType, data), client.FieldOwner(objectOwner))
		if apierrors.IsNotFound(err) {
			return refuse("there is no %s %q to patch", object.GetKind(), object.GetName()), nil
		}
		return &opsflow.Answer{}, err
	}
	return &opsflow.Answer{}, as.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(objectOwner), client.ForceOwnership)
}

// handOver asks a WorkloadSet to have its writer hand over, or takes that back.
func (c *Controller) handOver(ctx context.Context, op *platformv1.Operation, effect *opsflow.Effect) (*opsflow.Answer, error) {
	wanted := effect.Handover
	set := &platformv1.WorkloadSet{}
	err := c.live.Get(ctx, types.NamespacedName{Namespace: op.Namespace, Name: wanted.Set}, set)
	if apierrors.IsNotFound(err) {
		return refuse("WorkloadSet %s is gone", wanted.Set), nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read WorkloadSet %q: %w", wanted.Set, err)
	}
	var value any
	request := platformv1.HandoverRequest{From: wanted.From, To: wanted.To, Request: string(op.UID)}
	if wanted.From != "" {
		value = request.String()
		if set.Spec.Switchover == nil && set.Spec.Failover == nil {
			return refuse("component %q of plugin %q declares no switchover", set.Spec.Component, set.Spec.Plugin.Name), nil
		}
	}
	present, is := set.Annotations[platformv1.SwitchWriterAnnotation]
	switch {
	case value == nil && (!is || platformv1.ParseHandoverRequest(present).Request != request.Request):
		return &opsflow.Answer{}, nil
	case value == present:
		return handingOver(set, request), nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": set.UID, "annotations": map[string]any{platformv1.SwitchWriterAnnotation: value}}})
	if err != nil {
		return nil, err
	}
	return &opsflow.Answer{}, c.client.Patch(ctx, set, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
}

// handingOver says how far a set is with a request.
func handingOver(set *platformv1.WorkloadSet, request platformv1.HandoverRequest) *opsflow.Answer {
	state := set.Status.Switchover
	if state == nil || state.Request != request.Request {
		return &opsflow.Answer{}
	}
	stalled := conditions.Get(set, platformv1.StalledCondition)
	if stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == platformv1.ReasonSwitchoverFailed {
		return &opsflow.Answer{Problem: stalled.Message}
	}
	progress := fmt.Sprintf("attempt %d", state.Attempt)
	if state.Phase == platformv1.SwitchoverFailed {
		progress += " failed: " + state.Message
	}
	return &opsflow.Answer{Outputs: map[string]string{"progress": progress}}
}
