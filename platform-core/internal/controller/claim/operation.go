// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/instance"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Reasons of Operations. Operation has them.
const (
	// reasonTargetUnclaimed: the target of the Operation exists, and no operator has claimed it yet. The Operation
	// waits. Install the operator of the domain of the target, or correct the target.
	reasonTargetUnclaimed = "TargetUnclaimed"
)

// reconcileOperation claims an Operation, or fails it when its target is absent.
func (c *Controller) reconcileOperation(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	op := &platformv1.Operation{}
	if is, err := c.unclaimedObject(ctx, request.NamespacedName, "Operation", op); err != nil || !is {
		return reconcile.Result{}, err
	}
	if opsflow.Finished(op) {
		return c.expire(ctx, op)
	}
	if opsflow.IsInline(op) {
		return c.reconcileInline(ctx, op)
	}
	target, refusal := opsflow.ParseTarget(op.Spec.TargetRef)
	if refusal != nil {
		return c.fail(ctx, op, refusal)
	}
	domain, application, err := c.whose(ctx, op.Namespace, target)
	switch {
	case apierrors.IsNotFound(err) && c.makes(op, target):
		return reconcile.Result{}, overtaken(
			c.claim(ctx, op, map[string]string{platformv1.ApplicationLabel: target.Application}))
	case apierrors.IsNotFound(err):
		v := reportAfter(unknownAfter, c.age(op), platformv1.ReasonTargetNotFound, "")
		if v.action == actWait {
			return reconcile.Result{RequeueAfter: v.after}, nil
		}
		return c.fail(ctx, op, absent(op, target))
	case err != nil:
		return reconcile.Result{}, err
	case domain == c.Domain:
		return reconcile.Result{}, overtaken(c.claim(ctx, op, map[string]string{platformv1.ApplicationLabel: application}))
	case domain == "":
		return c.unserved(ctx, op, target)
	}
	return reconcile.Result{}, nil
}

// reconcileInline claims an Operation that brings its template along; the other operators say what it waits for.
func (c *Controller) reconcileInline(ctx context.Context, op *platformv1.Operation) (reconcile.Result, error) {
	if c.Domain == opsflow.InlineDomain {
		return reconcile.Result{}, overtaken(c.claim(ctx, op, nil))
	}
	return c.wait(ctx, op, "", fmt.Sprintf(
		"waiting for the %s operator, which runs Operations with an inline template: install it, or name another operator "+
			"in the label %s", opsflow.InlineDomain, platformv1.DomainLabel))
}

// absent is the refusal of an Operation whose target is not there. Where it is about to be there, it is the plugin that
// nobody has.
func absent(op *platformv1.Operation, target opsflow.Target) *opsflow.Refusal {
	if target.Kind != opsflow.TargetApplication || op.Spec.TemplateRef != opsflow.TemplateCreate &&
		!opsflow.PlansNew(op, target) {
		return target.Absent(op.Namespace)
	}
	name, version := pluginOf(op)
	return &opsflow.Refusal{Reason: platformv1.ReasonPluginNotFound, Message: fmt.Sprintf(
		"no operator here has plugin %q version %q, which %s is to be made from: kubectl get plugins lists those that "+
			"there are", name, version, target)}
}

// pluginOf is the plugin that the spec of an Application names that is not there; empty where that cannot be read.
func pluginOf(op *platformv1.Operation) (name, version string) {
	spec, err := opsflow.ParseSpec(op.Spec.TargetSpec)
	if err != nil {
		return "", ""
	}
	name, _, _ = unstructured.NestedString(spec, "plugin")
	version, _, _ = unstructured.NestedString(spec, "pluginVersion")
	return name, platformv1.CanonicalPluginVersion(version)
}

// makes says whether this operator is the one that would serve the target of an Operation that makes it, or says what
// would come of it, or serves one that no Application came of.
func (c *Controller) makes(op *platformv1.Operation, target opsflow.Target) bool {
	switch {
	case !opsflow.MakesOrRemoves(op.Spec.TemplateRef) && !opsflow.PlansNew(op, target):
		return false
	case target.Kind == opsflow.TargetTyped:
		return c.Kinds != nil && c.Kinds(schema.GroupKind{Group: target.Group, Kind: target.ObjectKind})
	case target.Kind != opsflow.TargetApplication || op.Spec.TemplateRef == opsflow.TemplateDelete:
		return false
	}
	if _, err := opsflow.ParseSpec(op.Spec.TargetSpec); err != nil {
		// What is wrong with it every operator knows; one has to say so.
		return true
	}
	name, version := pluginOf(op)
	state, known := c.Index.Get(name, version)
	return known && state.Bundle != nil && state.Bundle.Manifest.Domain == c.Domain
}

// unserved has an Operation wait for its target to be claimed, which wakes it.
func (c *Controller) unserved(ctx context.Context, op *platformv1.Operation,
	target opsflow.Target) (reconcile.Result, error) {
	return c.wait(ctx, op, target.Application,
		fmt.Sprintf("waiting for an operator to take %s: the conditions of its Application say why none does", target))
}

// wait reports, once it has lasted, what an Operation waits for that nobody claims.
func (c *Controller) wait(ctx context.Context, op *platformv1.Operation, application,
	message string) (reconcile.Result, error) {
	if v := reportAfter(unknownAfter, c.age(op), reasonTargetUnclaimed, ""); v.action == actWait {
		return reconcile.Result{RequeueAfter: v.after}, nil
	}
	if op.Status.Phase != "" {
		return reconcile.Result{}, nil
	}
	before := op.DeepCopy()
	waiting := outcome.Waiting(reasonTargetUnclaimed, message)
	op.Status = opsflow.Wait(op, application, waiting, c.Now()).Status
	conditions.Report(op, waiting, "")
	return c.writeStatus(ctx, before, op)
}

// whose returns the domain of the target's Application, empty while it has none, and the name of that. The error is
// NotFound when the target is absent.
func (c *Controller) whose(ctx context.Context, namespace string, target opsflow.Target) (domain, application string,
	err error) {
	key := types.NamespacedName{Namespace: namespace, Name: target.Application}
	if target.Application == "" {
		part := metadataOf(string(target.Kind))
		err := c.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: target.Name}, part)
		return part.Labels[platformv1.DomainLabel], part.Labels[platformv1.ApplicationLabel], err
	}
	if key.Name, err = instance.NameOf(ctx, c.live, namespace, target); err != nil {
		return "", "", err
	}
	app := &platformv1.Application{}
	if err := c.live.Get(ctx, key, app); err != nil {
		return "", "", err
	}
	if !target.Owns(app) {
		return "", "", apierrors.NewNotFound(platformv1.GroupVersion.WithResource("applications").GroupResource(),
			target.Application)
	}
	return app.Labels[platformv1.DomainLabel], app.Name, nil
}

// fail ends an Operation that nobody can run.
func (c *Controller) fail(ctx context.Context, op *platformv1.Operation,
	refusal *opsflow.Refusal) (reconcile.Result, error) {
	before := op.DeepCopy()
	op.Status = opsflow.Fail(op, refusal, c.Now()).Status
	conditions.Report(op, outcome.Stalled(refusal.Reason, refusal.Message), "")
	return c.writeStatus(ctx, before, op)
}

// expire deletes an Operation that failed here, when its time to live is over: it has no other author.
func (c *Controller) expire(ctx context.Context, op *platformv1.Operation) (reconcile.Result, error) {
	at, expires := opsflow.Expiry(op, nil)
	if !expires {
		return reconcile.Result{}, nil
	}
	if left := at.Sub(c.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(c.client.Delete(ctx, op, client.Preconditions{UID: &op.UID}))
}
