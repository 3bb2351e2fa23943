// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// queue has the Operations that may get a free place of a lock before another one, the first one first.
type queue struct {
	before []waiter
	// holding are the holders of locks that were read, by the name of the lock.
	holding map[string][]holder
}

// waiter is an Operation that has something to acquire.
type waiter struct {
	op       *platformv1.Operation
	priority int32
	// needs are the locks that it has to hold when it waits for this one.
	needs []lock
}

// compare orders those that wait for the same lock: the higher priority first, then the older, then by name.
func (w waiter) compare(other waiter) int {
	return cmp.Or(cmp.Compare(other.priority, w.priority),
		w.op.CreationTimestamp.Compare(other.op.CreationTimestamp.Time), cmp.Compare(w.op.Name, other.op.Name))
}

// waiterOf reads what an Operation waits for; false where that is not the lock.
func waiterOf(l lock, op *platformv1.Operation) (waiter, bool) {
	s, err := Of(op)
	if err != nil || s == nil {
		// Its own controller says what is wrong with it.
		return waiter{}, false
	}
	locks := locksOf(s)
	at := slices.IndexFunc(locks, func(other lock) bool { return other.object == l.object })
	return waiter{op: op, priority: s.Priority, needs: locks[:max(at, 0)]}, at >= 0
}

// queued lists the Operations that come before another one at a lock, which has these holders. Whether each of them can
// acquire it now is not looked at yet.
func (k *Locker) queued(ctx context.Context, l lock, op *platformv1.Operation, all []holder) (queue, error) {
	found := queue{holding: map[string][]holder{}}
	own, ok := waiterOf(l, op)
	if !ok {
		return found, nil
	}
	var list platformv1.OperationList
	if err := k.client.List(ctx, &list, client.InNamespace(op.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return found, fmt.Errorf("cannot list the Operations that wait for the %s: %w", l.words, err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == op.UID || !Waits(other) || !other.Spec.Suspend || indexOf(all, other.UID) >= 0 {
			continue
		}
		if w, waits := waiterOf(l, other); waits && w.compare(own) < 0 {
			found.before = append(found.before, w)
		}
	}
	slices.SortFunc(found.before, waiter.compare)
	return found, nil
}

// ahead returns the names of those in a queue that can acquire the lock now: so many as have free places, and as a
// message names.
func (k *Locker) ahead(ctx context.Context, q queue, free int) (names []string, err error) {
	for _, w := range q.before {
		if len(names) >= free && len(names) > shownHolders {
			break
		}
		is, err := k.isAttended(ctx, w.op)
		if err == nil && is {
			is, err = k.holdsAll(ctx, q, w)
		}
		if err != nil {
			return nil, err
		}
		if is {
			names = append(names, w.op.Name)
		}
	}
	return names, nil
}

// holdsAll says whether an Operation holds what it acquires before this lock: one that waits elsewhere keeps no place
// here, so that runs which need several locks cannot block each other.
func (k *Locker) holdsAll(ctx context.Context, q queue, w waiter) (bool, error) {
	for _, l := range w.needs {
		all, known := q.holding[l.object]
		if !known {
			var err error
			if _, all, err = k.read(ctx, l, w.op.Namespace); err != nil {
				return false, err
			}
			q.holding[l.object] = all
		}
		if indexOf(all, w.op.UID) < 0 {
			return false, nil
		}
	}
	return true, nil
}

// isAttended says whether the controller of an Operation has it acquire its locks. It does not for a Workflow that is
// suspended or stopped, nor for what is being deleted: such a run would keep the others waiting for nothing.
func (k *Locker) isAttended(ctx context.Context, op *platformv1.Operation) (bool, error) {
	ref := metav1.GetControllerOf(op)
	if ref == nil || ref.APIVersion != batchv1.GroupVersion.String() {
		return false, nil
	}
	key := client.ObjectKey{Namespace: op.Namespace, Name: ref.Name}
	switch ref.Kind {
	case "Workflow":
		wf := &batchv1.Workflow{}
		if err := k.client.Get(ctx, key, wf); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return wf.UID == ref.UID && wf.DeletionTimestamp.IsZero() && wf.Status.Operation == op.Name && !wf.Spec.Suspend &&
			!wf.Spec.Stop, nil
	case "CronJob":
		cj := &batchv1.CronJob{}
		if err := k.client.Get(ctx, key, cj); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return cj.UID == ref.UID && cj.DeletionTimestamp.IsZero(), nil
	}
	return false, nil
}
