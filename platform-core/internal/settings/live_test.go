// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/settings"
)

// A change wakes all that depends on it, after it can be read; what changes nothing wakes nobody.
func TestChangesWake(t *testing.T) {
	l := settings.New(render.Settings{AgentImage: "agent:1"})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	var seen []render.Settings
	all := func(context.Context) []reconcile.Request {
		seen = append(seen, l.Get())
		return []reconcile.Request{
			{NamespacedName: types.NamespacedName{Namespace: "a", Name: "one"}},
			{NamespacedName: types.NamespacedName{Namespace: "b", Name: "two"}},
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.Use("before.example", "") // Nobody to wake yet.
	if err := l.Source(all).Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	if queue.Len() != 0 {
		t.Errorf("%d woken by nothing", queue.Len())
	}
	l.Use("before.example", "")
	if len(seen) != 0 {
		t.Error("the same settings again are taken for a change")
	}
	l.Use("mirror.example", "corp.example")
	want := render.Settings{AgentImage: "agent:1", ImageRegistry: "mirror.example", ClusterDomain: "corp.example"}
	if queue.Len() != 2 || len(seen) != 1 || seen[0] != want {
		t.Errorf("%d woken, who saw %+v", queue.Len(), seen)
	}
	cancel()
	l.Use("after.example", "")
	if len(seen) != 1 {
		t.Error("a controller that has ended was woken")
	}
}
