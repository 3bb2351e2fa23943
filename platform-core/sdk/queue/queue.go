// SPDX-License-Identifier: Apache-2.0

// Package queue holds the limits of every controller, so that one object cannot
// hold up another: parallel workers, a deadline on each reconcile and a back-off
// for each object.
package queue

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// Deadline of one reconcile: its context ends then.
	Deadline = 30 * time.Second
	// FirstRetry is how soon an object that failed is tried again; each further
	// failure doubles it.
	FirstRetry = 200 * time.Millisecond
	// LongestRetry is the most that it grows to.
	LongestRetry = time.Minute
	// DefaultWorkers is how many objects of a controller are reconciled at a time.
	DefaultWorkers = 10
	// MostWorkers is the most that it can be set to.
	MostWorkers = 100
)

// Options returns the options of a controller that keeps to a limit; nil stands for DefaultWorkers.
func Options(limit *Limit) controller.Options {
	if limit == nil {
		limit = NewLimit(DefaultWorkers)
	}
	return controller.Options{
		// Goroutines that wait cost little; how many of them work is the limit's to say.
		MaxConcurrentReconciles: MostWorkers,
		ReconciliationTimeout:   Deadline,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](FirstRetry,
			LongestRetry),
		NewQueue: func(name string,
			limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			inner := priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) {
				o.Log, o.RateLimiter = log.Log.WithValues("controller", name), limiter
			})
			return &limited{PriorityQueue: inner, slots: limit.slots()}
		},
	}
}
