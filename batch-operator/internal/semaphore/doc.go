// SPDX-License-Identifier: Apache-2.0

// Package semaphore lets runs of Workflows and CronJobs take turns.
//
// Each mutex and each semaphore has a ConfigMap that lists its holders: the name and the UID of the Operation of each
// run. It is read from the API server, never from a cache, and written by compare-and-swap on its resourceVersion, so
// that operators which run side by side for a moment never exceed the limit.
//
// A run holds nothing without being on record: its Operation is created suspended, then it is put on the lists, then it
// is resumed. Each of these steps can be repeated, and a controller that is killed between two of them goes on with the
// next. A run is taken off the lists by its controller when it has ended. Where that did not happen, as for a run that
// was deleted, the next run that waits takes it off, once the API server says that the Operation is gone or has ended.
//
// The lists are acquired in the order of their names. Runs that need several of them therefore cannot block each other.
//
// Those that wait for the same lock are in a queue, ordered by priority, then by age. It is not written down: each run
// finds those ahead of it among the Operations in the cache, and takes a free place when they are fewer than the free
// places. Only those that could take one count, so that a run which is suspended, or waits for another lock first,
// delays nobody. With a stale cache a run may go before its turn; the limit holds all the same.
package semaphore
