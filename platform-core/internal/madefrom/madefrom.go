// SPDX-License-Identifier: Apache-2.0

// Package madefrom finds what is made from a plugin, to be looked at again when the state of that changes.
package madefrom

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Plugin returns the objects of a list that are made from a plugin, out of a cache; shared, and not to be changed. The list tells which kind is meant:
// Applications or Components.
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
		log.FromContext(ctx).Error(err, "cannot list what is made from a plugin", "plugin", published.Plugin, "version", published.Version)
	}
	return made
}

func usedBy(item runtime.Object) (name, version string, obj client.Object) {
	switch made := item.(type) {
	case *platformv1.Application:
		return made.Spec.Plugin, made.Spec.PluginVersion, made
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
