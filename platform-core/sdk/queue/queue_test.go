// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/sdk/queue"
)

func TestBackOffIsPerObjectAndBounded(t *testing.T) {
	limiter := queue.Options(nil).RateLimiter
	bad := reconcile.Request{NamespacedName: types.NamespacedName{Name: "bad"}}
	good := reconcile.Request{NamespacedName: types.NamespacedName{Name: "good"}}
	var last time.Duration
	for range 20 {
		last = limiter.When(bad)
	}
	if last != queue.LongestRetry {
		t.Errorf("after many failures the wait is %v, want %v", last, queue.LongestRetry)
	}
	if first := limiter.When(good); first != queue.FirstRetry {
		t.Errorf("another object waits %v, want %v", first, queue.FirstRetry)
	}
}

// TestAReconcileEnds: its context has the deadline, so that an API server that does not answer holds a worker up for no
// longer.
func TestAReconcileEnds(t *testing.T) {
	options := queue.Options(nil)
	var left time.Duration
	options.Reconciler = reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		if deadline, set := ctx.Deadline(); set {
			left = time.Until(deadline)
		}
		return reconcile.Result{}, nil
	})
	c, err := controller.NewUnmanaged("slow", options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	if left <= 0 || left > queue.Deadline {
		t.Errorf("a reconcile has %v, want up to %v", left, queue.Deadline)
	}
}
