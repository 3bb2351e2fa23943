// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

func TestOptions(t *testing.T) {
	if o := queue.Options(nil); o.ReconciliationTimeout != queue.Deadline {
		t.Errorf("the deadline is %v, want %v", o.ReconciliationTimeout, queue.Deadline)
	}
}
