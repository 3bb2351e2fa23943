// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Plugin of the Applications, and the one topology that it has.
const (
	Plugin        = "cell"
	PluginVersion = "1.0.0"
	topology      = "group"
	component     = "cell"
	domain        = "database"
)

// Application returns an Application as a user writes it.
func Application(key types.NamespacedName) *platformv1.Application {
	return &platformv1.Application{
		TypeMeta: metav1.TypeMeta{APIVersion: platformv1.GroupVersion.String(), Kind: "Application"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{platformv1.DomainLabel: domain}},
		Spec: platformv1.ApplicationSpec{
			Plugin: Plugin, PluginVersion: PluginVersion, Version: "1.0", Topology: topology,
			Components: []platformv1.ApplicationComponent{{Name: component, Replicas: new(int32(Replicas))}},
		},
	}
}

// MakeApplications makes all Applications.
func (f Fleet) MakeApplications(ctx context.Context) error {
	return f.Each(ctx, func(ctx context.Context, key types.NamespacedName) error {
		return f.Client.Create(ctx, Application(key))
	})
}

// RemoveApplications deletes all Applications and waits until nothing of them is left.
func (f Fleet) RemoveApplications(ctx context.Context) error {
	if err := f.remove(ctx, &platformv1.Application{}); err != nil {
		return err
	}
	for _, kind := range []schema.GroupVersionKind{
		platformv1.GroupVersion.WithKind("ComponentList"), platformv1.GroupVersion.WithKind("WorkloadSetList"),
		corev1.SchemeGroupVersion.WithKind("SecretList"),
	} {
		if err := f.gone(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

// SetLevel changes a parameter of each Application, which a reload takes over.
func (f Fleet) SetLevel(level int) func(context.Context) error {
	return f.patch(fmt.Sprintf(`{"spec":{"components":[{"name":%q,"replicas":%d,"parameters":{"level":%d}}]}}`, component,
		Replicas, level))
}

// Note gives each Application an annotation that means nothing to anybody.
func (f Fleet) Note(text string) func(context.Context) error {
	return f.patch(fmt.Sprintf(`{"metadata":{"annotations":{"example.com/note":%q}}}`, text))
}

func (f Fleet) patch(body string) func(context.Context) error {
	return func(ctx context.Context) error {
		return f.Each(ctx, func(ctx context.Context, key types.NamespacedName) error {
			app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			return f.Client.Patch(ctx, app, client.RawPatch(types.MergePatchType, []byte(body)))
		})
	}
}

// ApplicationReady is true of an Application whose status speaks of this generation of its spec, or a later one, and
// says Ready.
func ApplicationReady(generation int64) func(client.Object) bool {
	return func(object client.Object) bool {
		app, ok := object.(*platformv1.Application)
		return ok && app.Generation >= generation && app.Status.ObservedGeneration == app.Generation &&
			meta.IsStatusConditionTrue(app.Status.Conditions, platformv1.ReadyCondition)
	}
}
