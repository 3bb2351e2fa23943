// SPDX-License-Identifier: Apache-2.0

// Package queue holds the limits of every controller, so that one object cannot
// hold up another: parallel workers, a deadline on each reconcile and a back-off
// for each object.
package queue

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
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
)

// Options returns the options of a controller. Workers below 1 stand for DefaultWorkers.
func Options(workers int) controller.Options {
	if workers < 1 {
		workers = DefaultWorkers
	}
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   Deadline,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](FirstRetry, LongestRetry),
	}
}
