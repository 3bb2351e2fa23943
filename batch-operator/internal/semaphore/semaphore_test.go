// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const namespace = "shop"

var both = &batchv1.Synchronization{
	Mutexes: []batchv1.Mutex{{Name: "database"}},
	Semaphores: []batchv1.Semaphore{
		{ConfigMapKeyRef: batchv1.LimitReference{Name: "limits", Key: "licenses"}},
		{ConfigMapKeyRef: batchv1.LimitReference{Name: "limits", Key: "licenses"}},
	},
}

var licenses = &batchv1.Synchronization{Semaphores: both.Semaphores[:1]}

// place is an API server that answers from memory, and Operations in it.
type place struct {
	*testing.T
	client client.Client
	locker *Locker
}

func newPlace(t *testing.T, objects ...client.Object) *place {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, platformv1.AddToScheme,
		batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	build := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	c := build.WithStatusSubresource(&platformv1.Operation{}).Build()
	return &place{T: t, client: c, locker: New(c, c, "test", time.Now)}
}

func limits(value string) *corev1.ConfigMap {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "limits"}
	return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"licenses": value}}
}

// run creates an Operation that needs locks, and the Workflow that it is the run of.
func (p *place) run(name string, s *batchv1.Synchronization) *platformv1.Operation {
	p.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}
	wf := &batchv1.Workflow{ObjectMeta: meta, Status: batchv1.WorkflowStatus{Operation: name}}
	wf.Spec.Synchronization = s
	if err := p.client.Create(p.Context(), wf); err != nil {
		p.Fatal(err)
	}
	op := &platformv1.Operation{ObjectMeta: meta}
	if err := controllerutil.SetControllerReference(wf, op, p.client.Scheme()); err != nil {
		p.Fatal(err)
	}
	if err := Mark(op, s); err != nil {
		p.Fatal(err)
	}
	if err := p.client.Create(p.Context(), op); err != nil {
		p.Fatal(err)
	}
	return op
}

// end has an Operation end.
func (p *place) end(op *platformv1.Operation) {
	p.Helper()
	op.Status.Phase = platformv1.OperationFailed
	if err := p.client.Status().Update(p.Context(), op); err != nil {
		p.Fatal(err)
	}
}

// acquires checks for what an Operation waits.
func (p *place) acquires(op *platformv1.Operation, want string) {
	p.Helper()
	waiting, err := p.locker.Acquire(p.Context(), op)
	if err != nil || waiting != want {
		p.Errorf("%s: got %q, %v; want %q", op.Name, waiting, err, want)
	}
}

// holding are the UIDs of the holders of a lock.
func (p *place) holding(object string) string {
	p.Helper()
	var all []string
	for _, l := range locksOf(both) {
		if l.object != object {
			continue
		}
		_, holders, err := p.locker.read(p.Context(), l, namespace)
		if err != nil {
			p.Fatal(err)
		}
		for _, h := range holders {
			all = append(all, h.Operation)
		}
	}
	return strings.Join(all, " ")
}

func TestARunWaitsForHoldersUntilTheyAreReleased(t *testing.T) {
	p := newPlace(t, limits("2"))
	const full = `waiting for semaphore "licenses" of ConfigMap "limits", whose limit is 2, held by `
	a, b, c := p.run("a", both), p.run("b", both), p.run("c", licenses)
	if !a.Spec.Suspend || !Waits(a) {
		t.Error("a run is created that does not wait")
	}
	p.acquires(a, "")
	p.acquires(a, "")
	p.acquires(b, `waiting for mutex "database", held by Operation "a"`)
	p.acquires(c, "")
	d := p.run("d", licenses)
	p.acquires(d, full+`Operation "a", Operation "c"`)
	p.end(a)
	for range 2 {
		if err := p.locker.Release(t.Context(), namespace, both, a.UID); err != nil {
			t.Fatal(err)
		}
	}
	p.acquires(b, "")
	p.acquires(d, full+`Operation "c", Operation "b"`)
	if got := p.holding("batch-mutex.database"); got != "b" {
		t.Errorf("the mutex is held by %q", got)
	}
}

// A controller that died released nothing, and neither did one whose run was deleted.
func TestHoldersThatEndedOrAreGoneAreTakenOff(t *testing.T) {
	p := newPlace(t, limits("3"))
	ended, gone, again := p.run("ended", licenses), p.run("gone", licenses), p.run("again", licenses)
	for _, op := range []*platformv1.Operation{ended, gone, again} {
		p.acquires(op, "")
	}
	p.end(ended)
	for _, op := range []*platformv1.Operation{gone, again} {
		if err := p.client.Delete(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	other := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "again", UID: "another"}}
	if err := p.client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	p.acquires(p.run("next", licenses), "")
	if got := p.holding("batch-semaphore.limits.licenses"); got != "next" {
		t.Errorf("the semaphore is held by %q", got)
	}
}

func TestWhyThereIsNoLimitIsSaid(t *testing.T) {
	empty := limits("")
	empty.Data = nil
	const number = ": the value is not a whole number from 0 to 1000"
	for title, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"no ConfigMap": {nil, ": that ConfigMap does not exist"},
		"no key":       {[]client.Object{empty}, ": that key does not exist"},
		"no number":    {[]client.Object{limits("secret")}, number},
		"too many":     {[]client.Object{limits("1001")}, number},
		"nobody":       {[]client.Object{limits(" 0\n")}, ", whose limit is 0"},
	} {
		t.Run(title, func(t *testing.T) {
			p := newPlace(t, c.objects...)
			p.acquires(p.run("a", licenses), `waiting for semaphore "licenses" of ConfigMap "limits"`+c.want)
		})
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "batch-mutex.database"}
	p := newPlace(t, &corev1.ConfigMap{ObjectMeta: meta}, limits("1"))
	_, err := p.locker.Acquire(t.Context(), p.run("a", both))
	if err == nil || !strings.Contains(err.Error(), "is not of the operator") {
		t.Errorf("got %v", err)
	}
}

// Two operators are at work for a moment, each dies at any step, and caches are of before.
func TestNeverMoreHoldersThanTheLimit(t *testing.T) {
	const runs, limit = 12, 3
	p := newPlace(t, limits(fmt.Sprint(limit)))
	var mu sync.Mutex
	underWay := map[string]bool{}
	var workers sync.WaitGroup
	for n := range runs {
		op := p.run(fmt.Sprintf("run%02d", n), licenses)
		random := rand.New(rand.NewSource(int64(n)))
		workers.Go(func() {
			for waiting := "not yet"; waiting != ""; {
				var err error
				if waiting, err = p.locker.Resume(context.Background(), op); err != nil && !errors.Is(err, errChanged) {
					t.Error(err)
					return
				}
				if err != nil {
					waiting = err.Error()
				}
			}
			mu.Lock()
			if underWay[op.Name] = true; len(underWay) > limit {
				t.Errorf("%d runs are under way", len(underWay))
			}
			mu.Unlock()
			err := p.client.Get(context.Background(), client.ObjectKeyFromObject(op), op)
			if err != nil || op.Spec.Suspend || Waits(op) {
				t.Errorf("%s was not resumed: %v, %v", op.Name, op.Annotations, err)
			}
			mu.Lock()
			delete(underWay, op.Name)
			mu.Unlock()
			op.Status.Phase = platformv1.OperationSucceeded
			if err := p.client.Status().Update(context.Background(), op); err != nil {
				t.Error(err)
			}
			if random.Intn(2) == 0 {
				return // The controller died: the next one who waits takes it off.
			}
			err = p.locker.Release(context.Background(), namespace, licenses, op.UID)
			if err != nil && !errors.Is(err, errChanged) {
				t.Error(err)
			}
		})
	}
	workers.Wait()
}
