// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/engine"
)

// ofDomain are the kinds of which an operator holds only the objects of its domain.
func ofDomain() []client.Object {
	return []client.Object{
		&platformv1.Application{}, &platformv1.Component{}, &platformv1.WorkloadSet{}, &platformv1.Operation{},
		&platformv1.Entity{},
		&platformv1.Backup{}, &batchv1.Job{},
		&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.Service{}, &corev1.ConfigMap{}, &corev1.Secret{},
		&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
		&policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}, &networkingv1.Ingress{},
		&autoscalingv2.HorizontalPodAutoscaler{},
	}
}

// whole are the kinds of which an operator holds every object: those that belong
// to no domain, and its own kinds.
func whole(o Options) []client.Object {
	objects := []client.Object{&storagev1.StorageClass{}, &platformv1.Plugin{}, &platformv1.BackupRepository{}}
	for _, kind := range o.Kinds {
		objects = append(objects, kind.Object())
	}
	for _, controller := range o.Controllers {
		objects = append(objects, controller.Object())
	}
	return objects
}

// cacheOptions has memory grow with the objects of the domain, not with the cluster.
func cacheOptions(domain string, namespaces map[string]cache.Config) cache.Options {
	selected := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{platformv1.DomainLabel: domain})}
	byObject := map[client.Object]cache.ByObject{}
	for _, object := range ofDomain() {
		trimmed := selected
		switch object.(type) {
		case *corev1.Pod:
			trimmed.Transform = engine.TrimPod
		case *platformv1.Operation:
			trimmed.Transform = engine.TrimOperation
		case *platformv1.Component, *platformv1.WorkloadSet:
			trimmed.Transform = engine.TrimMade
		}
		byObject[object] = trimmed
	}
	return cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: byObject,
		DefaultNamespaces: namespaces}
}

// watched returns what a cache is limited to; nil stands for all namespaces.
func watched(namespaces []string) map[string]cache.Config {
	if len(namespaces) == 0 {
		return nil
	}
	limited := map[string]cache.Config{}
	for _, namespace := range namespaces {
		limited[namespace] = cache.Config{}
	}
	return limited
}

// watch begins to watch everything that reconciles read, so that no reconcile is
// the first to do so and waits for it, and so that every replica is warm before
// it becomes the leader.
func watch(ctx context.Context, c cache.Cache, o Options) error {
	for _, object := range append(ofDomain(), whole(o)...) {
		if _, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("cannot watch %T: %w", object, err)
		}
	}
	return nil
}
