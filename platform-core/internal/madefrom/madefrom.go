// SPDX-License-Identifier: Apache-2.0

// Package madefrom finds what is made from a plugin, to be looked at again when the state of that changes.
package madefrom

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

// Recheck is after how long what lacks its bundle looks for it again. One that was away for a moment comes back under a
// Plugin object that says the same as before, which wakes nobody.
const Recheck = 30 * time.Second

// PluginChanged passes Plugins whose state changed. How many instances there are is none of it: each one that comes
// would wake all others.
var PluginChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*platformv1.Plugin), e.ObjectNew.(*platformv1.Plugin)
	before, after := was.Status, is.Status
	before.Instances, after.Instances = 0, 0
	return was.Spec != is.Spec || !equality.Semantic.DeepEqual(was.Labels, is.Labels) ||
		!equality.Semantic.DeepEqual(before, after)
}}

// Plugin returns the objects of a list that are made from a plugin, out of a cache; shared, and not to be changed. The
// list tells which kind is meant: Applications or Components.
func Plugin(ctx context.Context, reader client.Reader, list client.ObjectList, plugin client.Object) []client.Object {
	published := plugin.(*platformv1.Plugin).Spec
	var made []client.Object
	err := reader.List(ctx, list, client.UnsafeDisableDeepCopy)
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if name, version, obj := usedBy(item); name == published.Plugin && version == published.Version {
				made = append(made, obj)
			}
			return nil
		})
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot list what is made from a plugin", "plugin", published.Plugin, "version",
			published.Version)
	}
	return made
}

func usedBy(item runtime.Object) (name, version string, obj client.Object) {
	switch made := item.(type) {
	case *platformv1.Application:
		return made.Spec.Plugin, platformv1.CanonicalPluginVersion(made.Spec.PluginVersion), made
	case *platformv1.Component:
		return made.Spec.Plugin.Name, made.Spec.Plugin.Version, made
	}
	return "", "", nil
}

// Requests has each of the objects looked at.
func Requests(objects []client.Object) []reconcile.Request {
	requests := make([]reconcile.Request, 0, len(objects))
	for _, obj := range objects {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	}
	return requests
}
