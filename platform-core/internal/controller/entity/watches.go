// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/pluginindex"
)

const (
	// applicationField indexes Entities by the name of their Application.
	applicationField = "spec.applicationRef.name"
	// gatherTime is how long Entities are gathered that are made or changed together, such as by one apply.
	gatherTime = 250 * time.Millisecond
)

func byApplication(obj client.Object) []string {
	return []string{obj.(*platformv1.Entity).Spec.ApplicationRef.Name}
}

func requestFor(obj client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(),
		Name: obj.(*platformv1.Entity).Spec.ApplicationRef.Name}}
}

// asksForMore passes Entities whose spec changed or that are to go, and not what we write ourselves.
var asksForMore = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
		e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}}

// applicationChanged passes what says whether and how its Entities can be kept.
var applicationChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*platformv1.Application), e.ObjectNew.(*platformv1.Application)
	return was.Generation != is.Generation || was.UID != is.UID ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		(was.Status.Plugin == nil) != (is.Status.Plugin == nil) || was.Status.Phase != is.Status.Phase
}}

// podChanged passes what makes a pod one that can be asked, and what may have it forget its objects.
var podChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
	if was.UID != is.UID || was.Status.PodIP != is.Status.PodIP ||
		was.Labels[platformv1.RoleLabel] != is.Labels[platformv1.RoleLabel] {
		return true
	}
	before, after := reportOf(was), reportOf(is)
	return before.Health != after.Health || before.Starts != after.Starts
}}

func reportOf(pod *corev1.Pod) report.Report {
	return report.Latest(pod.Annotations[platformv1.ReportAnnotation])
}

// withEntities wakes the Application that an object is or is part of, when it has Entities.
func (c *Controller) withEntities(ctx context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[platformv1.ApplicationLabel]
	if app, is := obj.(*platformv1.Application); is {
		name = app.Name
	}
	if name == "" {
		return nil
	}
	var list platformv1.EntityList
	if err := c.client.List(ctx, &list, client.InNamespace(obj.GetNamespace()),
		client.MatchingFields{applicationField: name}, client.Limit(1)); err != nil {
		log.FromContext(ctx).Error(err, "cannot list Entities", "application", name)
		return nil
	}
	if len(list.Items) == 0 {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}}}
}

// ofPlugin wakes the Applications with Entities that are made from a plugin.
func (c *Controller) ofPlugin(ctx context.Context, obj client.Object) []reconcile.Request {
	var all []reconcile.Request
	for _, app := range pluginindex.Dependents(ctx, c.client, &platformv1.ApplicationList{}, obj) {
		all = append(all, c.withEntities(ctx, app)...)
	}
	return all
}
