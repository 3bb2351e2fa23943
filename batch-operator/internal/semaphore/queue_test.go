// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// of is a synchronization with a priority.
func of(s *batchv1.Synchronization, priority int32) *batchv1.Synchronization {
	s = s.DeepCopy()
	s.Priority = priority
	return s
}

var database = &batchv1.Synchronization{Mutexes: both.Mutexes}

// release has an Operation end, and its locks released.
func (p *place) release(op *platformv1.Operation, s *batchv1.Synchronization) {
	p.Helper()
	p.end(op)
	if err := p.locker.Release(p.Context(), namespace, s, op.UID); err != nil {
		p.Fatal(err)
	}
}

// change writes an object after a change.
func (p *place) change(object client.Object, change func()) {
	p.Helper()
	if err := p.client.Get(p.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		p.Fatal(err)
	}
	change()
	if err := p.client.Update(p.Context(), object); err != nil {
		p.Fatal(err)
	}
}

// owner is the Workflow of the run of that name.
func owner(name string) *batchv1.Workflow {
	return &batchv1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestTheHighestPriorityIsFirst(t *testing.T) {
	p := newPlace(t)
	holds := p.run("holds", database)
	p.acquires(holds, "")
	low, high, mid := p.run("a-low", of(database, -1)), p.run("b-high", of(database, 7)), p.run("c-mid", database)
	const held = `waiting for mutex "database", held by Operation "holds"`
	p.acquires(high, held)
	p.acquires(mid, held+`; ahead of it: Operation "b-high"`)
	p.acquires(low, held+`; ahead of it: Operation "b-high", Operation "c-mid"`)
	p.release(holds, database)
	p.acquires(low, `waiting for mutex "database"; ahead of it: Operation "b-high", Operation "c-mid"`)
	p.acquires(mid, `waiting for mutex "database"; ahead of it: Operation "b-high"`)
	p.acquires(high, "")
	p.release(high, database)
	p.acquires(low, `waiting for mutex "database"; ahead of it: Operation "c-mid"`)
	p.acquires(mid, "")
	p.release(mid, database)
	p.acquires(low, "")
}

// Of equal priority the older is first, and of equal age the first by name.
func TestOfEqualPriorityTheOldestIsFirst(t *testing.T) {
	p := newPlace(t, limits("0"))
	old, young := p.run("z", licenses), p.run("a", licenses)
	p.change(young, func() { young.CreationTimestamp = metav1.NewTime(time.Unix(60, 0)) })
	again := p.run("b", licenses)
	p.change(again, func() { again.CreationTimestamp = metav1.NewTime(time.Unix(60, 0)) })
	last := p.run("last", of(licenses, -1))
	const none = `waiting for semaphore "licenses" of ConfigMap "limits", whose limit is 0`
	p.acquires(old, none)
	p.acquires(young, none+`; ahead of it: Operation "z"`)
	p.acquires(again, none+`; ahead of it: Operation "z", Operation "a"`)
	p.acquires(last, none+`; ahead of it: Operation "z", Operation "a", Operation "b"`)
	p.acquires(p.run("more", of(licenses, -2)), none+
		`; ahead of it: Operation "z", Operation "a", Operation "b" and others`)
}

// Those ahead leave places free: whoever is behind them need not wait for them to take theirs.
func TestFreePlacesBeyondThoseAheadAreTaken(t *testing.T) {
	p := newPlace(t, limits("3"))
	gone, first, second := p.run("gone", licenses), p.run("first", of(licenses, 2)), p.run("second", of(licenses, 1))
	p.acquires(p.run("last", of(licenses, -1)), `waiting for semaphore "licenses" of ConfigMap "limits", whose limit is `+
		`3; ahead of it: Operation "first", Operation "second", Operation "gone"`)
	p.acquires(gone, "")
	fourth := p.run("fourth", licenses)
	p.acquires(fourth, `waiting for semaphore "licenses" of ConfigMap "limits", whose limit is 3, held by Operation `+
		`"gone"; ahead of it: Operation "first", Operation "second"`)
	// A holder that is there no more leaves its place as well.
	if err := p.client.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	p.acquires(fourth, "")
	p.acquires(second, "")
	p.acquires(first, "")
}

// A run that acquires nothing keeps no place in the queue, whatever its priority.
func TestRunsThatDoNotWaitAreNotAhead(t *testing.T) {
	for title, leave := range map[string]func(p *place, op *platformv1.Operation){
		"is cancelled": func(p *place, op *platformv1.Operation) { p.change(op, func() { op.Spec.Cancel = true }) },
		"has ended":    func(p *place, op *platformv1.Operation) { p.end(op) },
		"has begun":    func(p *place, op *platformv1.Operation) { p.change(op, func() { op.Spec.Suspend = false }) },
		"is orphaned":  func(p *place, op *platformv1.Operation) { p.change(op, func() { op.OwnerReferences = nil }) },
		"is being deleted": func(p *place, op *platformv1.Operation) {
			p.change(op, func() { op.Finalizers = []string{"test/keep"} })
			if err := p.client.Delete(p.Context(), op); err != nil {
				p.Fatal(err)
			}
		},
		"is of a Kubernetes CronJob": func(p *place, op *platformv1.Operation) {
			p.change(op, func() { op.OwnerReferences[0].Kind, op.OwnerReferences[0].APIVersion = "CronJob", "batch/v1" })
		},
		"is of no CronJob": func(p *place, op *platformv1.Operation) {
			p.change(op, func() { op.OwnerReferences[0].Kind = "CronJob" })
		},
		"has an annotation that says nothing": func(p *place, op *platformv1.Operation) {
			p.change(op, func() { op.Annotations[batchv1.SynchronizationAnnotation] = "?" })
		},
		"has no Workflow any more": func(p *place, op *platformv1.Operation) {
			if err := p.client.Delete(p.Context(), owner(op.Name)); err != nil {
				p.Fatal(err)
			}
		},
		"is of a Workflow that is suspended": func(p *place, op *platformv1.Operation) {
			wf := owner(op.Name)
			p.change(wf, func() { wf.Spec.Suspend = true })
		},
		"is of a Workflow that is stopped": func(p *place, op *platformv1.Operation) {
			wf := owner(op.Name)
			p.change(wf, func() { wf.Spec.Stop = true })
		},
		"is a former attempt": func(p *place, op *platformv1.Operation) {
			wf := owner(op.Name)
			p.change(wf, func() { wf.Status.Operation = "another" })
		},
	} {
		t.Run(title, func(t *testing.T) {
			p := newPlace(t)
			first, next := p.run("first", of(database, 9)), p.run("next", database)
			p.acquires(next, `waiting for mutex "database"; ahead of it: Operation "first"`)
			leave(p, first)
			p.acquires(next, "")
		})
	}
}

// If a run that waits for its first lock kept a place at its second one, it and the holder of the first would wait for
// each other.
func TestARunHasNoPlaceBeforeItHoldsWhatComesFirst(t *testing.T) {
	p := newPlace(t, limits("1"))
	other, low := p.run("other", licenses), p.run("low", both)
	p.acquires(other, "")
	const full = `waiting for semaphore "licenses" of ConfigMap "limits", whose limit is 1`
	p.acquires(low, full+`, held by Operation "other"`)
	high, mid := p.run("high", of(both, 9)), p.run("mid", of(licenses, 5))
	p.acquires(high, `waiting for mutex "database", held by Operation "low"`)
	p.release(other, licenses)
	p.acquires(low, full+`; ahead of it: Operation "mid"`)
	p.acquires(mid, "")
	p.release(mid, licenses)
	p.acquires(low, "")
	p.release(low, both)
	p.acquires(high, "")
}

// Runs come, wait, are suspended, end and are deleted in any order. Somebody always goes on, and in the end all that
// are left have had their turn.
func TestEveryRunHasItsTurn(t *testing.T) {
	for seed := range int64(6) {
		p, random := newPlace(t, limits("2")), rand.New(rand.NewSource(seed))
		waiting := map[string]*platformv1.Operation{}
		needs := []*batchv1.Synchronization{database, licenses, both}
		var held []*platformv1.Operation
		for n := range 60 {
			name := fmt.Sprintf("run%02d", n)
			if n < 25 {
				waiting[name] = p.run(name, of(needs[random.Intn(3)], int32(random.Intn(3))))
			}
			for _, name := range shuffled(random, waiting) {
				op := waiting[name]
				switch why, err := p.locker.Acquire(t.Context(), op); {
				case err != nil:
					t.Fatal(err)
				case why == "":
					held = append(held, op)
					delete(waiting, name)
				case !needsBoth(op) && random.Intn(20) == 0:
					// One that holds a lock and waits for another keeps it while it is suspended.
					wf := owner(name)
					p.change(wf, func() { wf.Spec.Suspend = true })
					delete(waiting, name)
				case random.Intn(20) == 0:
					if err := p.client.Delete(t.Context(), op); err != nil {
						t.Fatal(err)
					}
					delete(waiting, name)
				}
			}
			if len(held) == 0 && len(waiting) > 0 {
				t.Fatalf("seed %d: nobody is under way, and %d wait", seed, len(waiting))
			}
			for _, op := range held {
				p.end(op)
			}
			held = nil
		}
		if len(waiting) > 0 {
			t.Errorf("seed %d: %d runs had no turn", seed, len(waiting))
		}
	}
}

func needsBoth(op *platformv1.Operation) bool {
	s, err := Of(op)
	return err == nil && len(locksOf(s)) == 2
}

// shuffled returns the names of runs in any order.
func shuffled(random *rand.Rand, all map[string]*platformv1.Operation) []string {
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

func TestWhoeverStopsWaitingWakesTheOthers(t *testing.T) {
	p := newPlace(t)
	before := p.run("before", database)
	for title, c := range map[string]struct {
		change func(op *platformv1.Operation)
		want   bool
	}{
		"nothing":       {func(*platformv1.Operation) {}, false},
		"begins":        {func(op *platformv1.Operation) { op.Spec.Suspend = false }, false},
		"ends":          {func(op *platformv1.Operation) { op.Status.Phase = platformv1.OperationFailed }, true},
		"is cancelled":  {func(op *platformv1.Operation) { op.Spec.Cancel = true }, true},
		"is orphaned":   {func(op *platformv1.Operation) { op.OwnerReferences = nil }, true},
		"is deleted":    {func(op *platformv1.Operation) { op.DeletionTimestamp = new(metav1.Now()) }, true},
		"holds nothing": {func(op *platformv1.Operation) { op.Spec.Cancel, op.Annotations = true, nil }, false},
	} {
		after := before.DeepCopy()
		c.change(after)
		if got := Released.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.want {
			t.Errorf("%s: got %v", title, got)
		}
	}
	cancelled := before.DeepCopy()
	cancelled.Spec.Cancel = true
	ended := cancelled.DeepCopy()
	ended.Status.Phase = platformv1.OperationCancelled
	// It may have held something until its end.
	if !Released.Update(event.UpdateEvent{ObjectOld: cancelled, ObjectNew: ended}) {
		t.Error("the end of what was cancelled wakes nobody")
	}
	runs, paused := &batchv1.Workflow{}, &batchv1.Workflow{}
	runs.Spec.Synchronization = database
	paused.Spec.Synchronization, paused.Spec.Suspend = database, true
	if !Paused.Update(event.UpdateEvent{ObjectOld: runs, ObjectNew: paused}) ||
		Paused.Update(event.UpdateEvent{ObjectOld: paused, ObjectNew: runs}) {
		t.Error("a Workflow wakes others when it is suspended, and only then")
	}
}

// behind is a client whose cache is of before.
type behind struct {
	client.Client
	cache client.Reader
}

func (b behind) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return b.cache.List(ctx, list, options...)
}

// A run may go before its turn where the cache does not have those ahead of it yet. The limit holds all the same.
func TestACacheOfBeforeNeverExceedsTheLimit(t *testing.T) {
	p := newPlace(t)
	first, second := p.run("first", of(database, 1)), p.run("second", database)
	stale := New(behind{Client: p.client, cache: newPlace(t).client}, p.client, "test", time.Now)
	if waiting, err := stale.Acquire(t.Context(), second); err != nil || waiting != "" {
		t.Errorf("got %q, %v", waiting, err)
	}
	p.acquires(first, `waiting for mutex "database", held by Operation "second"`)
}
