// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// counting is how long Applications that come and go are gathered until they are counted: a thousand
// that are made at once cost a few writes, and not a thousand.
const counting = 2 * time.Second

// instanceField is the index of Applications by the version of the plugin that they name.
const instanceField = "plugin.version"

func byVersion(obj client.Object) []string {
	spec := &obj.(*platformv1.Application).Spec
	return []string{versionValue(used(spec))}
}

// used is the version of a plugin that an Application names.
func used(spec *platformv1.ApplicationSpec) key {
	return key{spec.Plugin, platformv1.CanonicalPluginVersion(spec.PluginVersion)}
}

func versionValue(k key) string { return k.name + "/" + k.version }

// instances counts the Applications that name a version of a plugin.
func (c *Controller) instances(ctx context.Context, k key) (int32, error) {
	var list platformv1.ApplicationList
	err := c.client.List(ctx, &list, client.MatchingFields{instanceField: versionValue(k)}, client.UnsafeDisableDeepCopy)
	return int32(len(list.Items)), err
}

// counted has the version of the plugin looked at again, a little later, when the number of its Applications changes.
type counted struct{}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Create implements handler.EventHandler.
func (counted) Create(_ context.Context, e event.CreateEvent, q requests) { gather(e.Object, q) }

// Update implements handler.EventHandler.
func (counted) Update(_ context.Context, e event.UpdateEvent, q requests) {
	if used(&e.ObjectOld.(*platformv1.Application).Spec) != used(&e.ObjectNew.(*platformv1.Application).Spec) {
		gather(e.ObjectOld, q)
		gather(e.ObjectNew, q)
	}
}

// Delete implements handler.EventHandler.
func (counted) Delete(_ context.Context, e event.DeleteEvent, q requests) { gather(e.Object, q) }

// Generic implements handler.EventHandler.
func (counted) Generic(context.Context, event.GenericEvent, requests) {}

func gather(obj client.Object, q requests) {
	q.AddAfter(requestOf(used(&obj.(*platformv1.Application).Spec)), counting)
}
