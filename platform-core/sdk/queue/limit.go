// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Limit is how many objects of each controller are reconciled at a time. It can be
// changed while they are: what is being worked on then is finished first.
type Limit struct {
	mu      sync.Mutex
	workers int
	queues  []*slots
}

// NewLimit returns a limit of so many workers for each controller, at least 1 and at most MostWorkers.
func NewLimit(workers int) *Limit { return &Limit{workers: between(workers)} }

// Set changes the limit, at least 1 and at most MostWorkers.
func (l *Limit) Set(workers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = between(workers)
	for _, s := range l.queues {
		s.wakeAll()
	}
}

// Workers returns the limit.
func (l *Limit) Workers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.workers
}

func between(workers int) int { return min(max(workers, 1), MostWorkers) }

// slots returns what one controller counts its workers with.
func (l *Limit) slots() *slots {
	s := &slots{limit: l, idle: sync.NewCond(&l.mu), holding: sync.NewCond(&l.mu)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queues = append(l.queues, s)
	return s
}

// slots are the workers of one controller. Its fields are under the lock of the limit.
type slots struct {
	limit *Limit
	// idle wakes who waits with nothing in hand, holding who waits with a request: one
	// of each for a slot that is freed, so that requests do not pile up outside of the queue.
	idle, holding *sync.Cond
	taken         int
	closed        bool
}

// wait returns once another worker may begin, or the controller ends.
func (s *slots) wait() {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	s.waitOn(s.idle)
}

// take is wait, and the worker counts from then on.
func (s *slots) take() {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	s.waitOn(s.holding)
	s.taken++
}

func (s *slots) waitOn(woken *sync.Cond) {
	for s.taken >= s.limit.workers && !s.closed {
		woken.Wait()
	}
}

func (s *slots) wakeAll() {
	s.idle.Broadcast()
	s.holding.Broadcast()
}

func (s *slots) free() {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	s.taken--
	s.holding.Signal()
	s.idle.Signal()
}

func (s *slots) close() {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	s.closed = true
	s.wakeAll()
	s.limit.queues = slices.DeleteFunc(s.limit.queues, func(other *slots) bool { return other == s })
}

// limited is a queue that gives out no more requests at a time than the limit allows.
type limited struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	slots *slots
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *limited) GetWithPriority() (reconcile.Request, int, bool) {
	// While all workers are busy, requests stay in the queue, where they are sorted and kept once.
	q.slots.wait()
	request, priority, shutdown := q.PriorityQueue.GetWithPriority()
	if !shutdown {
		// Several may have waited for the one slot.
		q.slots.take()
	}
	return request, priority, shutdown
}

// Get implements workqueue.TypedInterface.
func (q *limited) Get() (reconcile.Request, bool) {
	request, _, shutdown := q.GetWithPriority()
	return request, shutdown
}

// Done implements workqueue.TypedInterface.
func (q *limited) Done(request reconcile.Request) {
	q.PriorityQueue.Done(request)
	q.slots.free()
}

// ShutDown implements workqueue.TypedInterface.
func (q *limited) ShutDown() {
	q.PriorityQueue.ShutDown()
	q.slots.close()
}
