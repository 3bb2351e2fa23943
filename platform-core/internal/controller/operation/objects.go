// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"cmp"
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
)

// objectOwner is the field owner of what steps apply: another than that of the fields that Operations edit.
const objectOwner = owner + "-step"

// child makes the Operation of a step, or looks how it stands when it is there. It is not made again.
func (c *Controller) child(ctx context.Context, parent *platformv1.Operation,
	wanted *opsflow.Child) (*opsflow.Answer, error) {
	if wanted.Spec.Template != "" {
		return c.inlineChild(ctx, parent, wanted)
	}
	application := cmp.Or(wanted.Application, parent.Status.Application)
	child := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{
		Namespace: parent.Namespace, Name: wanted.Name, Labels: map[string]string{
			platformv1.DomainLabel: c.Domain, platformv1.ApplicationLabel: application},
	}, Spec: wanted.Spec}
	if trigger := parent.Labels[platformv1.TriggerLabel]; trigger != "" {
		child.Labels[platformv1.TriggerLabel] = trigger
	}
	if err := controllerutil.SetControllerReference(parent, child, c.client.Scheme()); err != nil {
		return nil, err
	}
	var err error
	if wanted.Verb == opsflow.ChildRun {
		err = c.client.Create(ctx, child)
	}
	if wanted.Verb == opsflow.ChildLook || apierrors.IsAlreadyExists(err) {
		err = c.live.Get(ctx, client.ObjectKeyFromObject(child), child)
		if err == nil && !metav1.IsControlledBy(child, parent) {
			return refuse("there is an Operation %q that is not of this one: delete it", child.Name), nil
		}
		if err == nil && !asMade(child.Spec, wanted.Spec) {
			return refuse("there is an Operation %q that asks for something else than this step: delete it", child.Name), nil
		}
	}
	switch {
	case wanted.Verb == opsflow.ChildLook && apierrors.IsNotFound(err):
		return refuse("Operation %q is gone before it ended: somebody deleted it", wanted.Name), nil
	case refused(err):
		return refuse("Operation %q cannot be made: %v", wanted.Name, err), nil
	case err != nil:
		return nil, fmt.Errorf("cannot make Operation %q: %w", wanted.Name, err)
	}
	return &opsflow.Answer{Child: child.Status}, nil
}

// asMade says whether a step could have made an Operation with this spec. What people add later does not count, and
// neither do parameters, which follow from how the target was at that moment.
func asMade(present, wanted platformv1.OperationSpec) bool {
	present.Cancel, present.Approval, present.Approvals, present.Parameters = false, nil, nil, nil
	wanted.Parameters = nil
	if present.Timeout == nil {
		// Made by an operator that asked for none where its own Operation had none.
		wanted.Timeout = nil
	}
	return equality.Semantic.DeepEqual(present, wanted)
}

// object reads, applies, patches or deletes an object in the namespace of the Operation.
func (c *Controller) object(ctx context.Context, op *platformv1.Operation,
	wanted *opsflow.Object) (*opsflow.Answer, error) {
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
		return refuse("%s of %s belongs to no namespace: a step acts within that of its target only", wanted.Kind,
			wanted.APIVersion), nil
	}
	object.SetNamespace(op.Namespace)
	object.SetName(wanted.Name)
	as, err := c.actingAs(op)
	if err != nil {
		return nil, err
	}
	object.SetUID(wanted.UID)
	answer, err := write(ctx, as, wanted.Verb, object)
	if refused(err) {
		return refuse("cannot %s %s %q: %v", wanted.Verb, wanted.Kind, wanted.Name, err), nil
	}
	return answer, err
}

// actingAs is the client for the objects of steps: with the operator's own rights, or with those of the account that
// the Operation names.
func (c *Controller) actingAs(op *platformv1.Operation) (client.Client, error) {
	if op.Spec.ServiceAccountName == "" {
		return c.client, nil
	}
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:%s", op.Namespace, op.Spec.ServiceAccountName)}
	as, err := client.New(config, client.Options{Scheme: c.client.Scheme(), Mapper: c.client.RESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("cannot act as ServiceAccount %q: %w", op.Spec.ServiceAccountName, err)
	}
	return as, nil
}

func write(ctx context.Context, as client.Client, verb opsflow.ObjectVerb,
	object *unstructured.Unstructured) (*opsflow.Answer, error) {
	switch verb {
	case opsflow.ObjectGet:
		err := as.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return &opsflow.Answer{}, nil
		}
		return &opsflow.Answer{Object: object.Object}, err
	case opsflow.ObjectDelete:
		return &opsflow.Answer{}, deleteOnly(ctx, as, object, object.GetUID(),
			client.PropagationPolicy(metav1.DeletePropagationBackground))
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
	return &opsflow.Answer{}, as.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(objectOwner), client.ForceOwnership)
}
