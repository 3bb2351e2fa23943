// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/sdk/queue"
)

// crew is a controller whose workers hold on to what they got until they are told to finish.
type crew struct {
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	working chan reconcile.Request
	ended   chan struct{}
}

func newCrew(limit *queue.Limit) *crew {
	options := queue.Options(limit)
	c := &crew{
		queue:   options.NewQueue("crew", options.RateLimiter),
		working: make(chan reconcile.Request, queue.MostWorkers),
		ended:   make(chan struct{}, queue.MostWorkers),
	}
	for range options.MaxConcurrentReconciles {
		go func() {
			defer func() { c.ended <- struct{}{} }()
			for {
				request, shutdown := c.queue.Get()
				if shutdown {
					return
				}
				c.working <- request
			}
		}()
	}
	return c
}

func (c *crew) add(count int) {
	for i := range count {
		c.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprint(i)}})
	}
}

// finish ends the work on so many requests.
func (c *crew) finish(count int) {
	for range count {
		c.queue.Done(<-c.working)
	}
}

func (c *crew) end() {
	c.queue.ShutDown()
	for range queue.MostWorkers {
		<-c.ended
	}
}

func TestLimitChangesAtRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := queue.NewLimit(2)
		c := newCrew(limit)
		expect := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := len(c.working); got != want {
				t.Errorf("%s: %d at work, want %d", when, got, want)
			}
		}
		c.add(20)
		expect("with 2 workers", 2)
		limit.Set(5)
		expect("raised to 5", 5)
		limit.Set(1)
		expect("lowered to 1, the others finish", 5)
		c.finish(4)
		expect("and are not replaced", 1)
		c.finish(1)
		expect("one after the other", 1)
		limit.Set(0)
		expect("never none at all", 1)
		limit.Set(queue.MostWorkers)
		expect("all that are left", 15)
		c.finish(15)
		c.end()
	})
}

// Each controller has so many workers of its own: one that is busy leaves the others theirs.
func TestLimitIsForEachController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := queue.NewLimit(3)
		busy, other := newCrew(limit), newCrew(limit)
		busy.add(10)
		synctest.Wait()
		other.add(10)
		synctest.Wait()
		if len(busy.working) != 3 || len(other.working) != 3 {
			t.Errorf("%d and %d at work, want 3 each", len(busy.working), len(other.working))
		}
		// A controller that ends does not wait for a slot.
		ended := make(chan struct{})
		go func() { busy.end(); close(ended) }()
		busy.finish(3)
		<-ended
		other.finish(10)
		other.end()
	})
}
