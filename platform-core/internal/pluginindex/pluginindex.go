// SPDX-License-Identifier: Apache-2.0

// Package pluginindex finds the objects that use a plugin, so that they are reconciled when the state of the plugin
// changes.
package pluginindex

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Recheck is the interval at which an object whose bundle is missing is reconciled. A bundle that was missing for a
// moment comes back under an unchanged Plugin object, which triggers no event.
const Recheck = 30 * time.Second

// PluginChanged passes the updates of Plugins whose state changed. The number of instances does not count: each new
// instance would trigger the reconciles of all others.
var PluginChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*platformv1.Plugin), e.ObjectNew.(*platformv1.Plugin)
	before, after := was.Status, is.Status
	before.Instances, after.Instances = 0, 0
	return was.Spec != is.Spec || !equality.Semantic.DeepEqual(was.Labels, is.Labels) ||
		!equality.Semantic.DeepEqual(before, after)
}}

// Dependents returns the objects that use a plugin. The type of list selects the kind: Applications or Components. The
// objects are those of the cache: callers must not change them.
func Dependents(ctx context.Context, reader client.Reader, list client.ObjectList,
	plugin client.Object) []client.Object {
	published := plugin.(*platformv1.Plugin).Spec
	var dependents []client.Object
	err := reader.List(ctx, list, client.UnsafeDisableDeepCopy)
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if name, version, obj := usedBy(item); name == published.Plugin && version == published.Version {
				dependents = append(dependents, obj)
			}
			return nil
		})
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot list the objects that use a plugin", "plugin", published.Plugin, "version",
			published.Version)
	}
	return dependents
}

func usedBy(item runtime.Object) (name, version string, obj client.Object) {
	switch user := item.(type) {
	case *platformv1.Application:
		return user.Spec.Plugin, platformv1.CanonicalPluginVersion(user.Spec.PluginVersion), user
	case *platformv1.Component:
		return user.Spec.Plugin.Name, user.Spec.Plugin.Version, user
	}
	return "", "", nil
}

// Requests returns one request for each object.
func Requests(objects []client.Object) []reconcile.Request {
	requests := make([]reconcile.Request, 0, len(objects))
	for _, obj := range objects {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	}
	return requests
}
