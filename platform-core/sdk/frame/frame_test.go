// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"errors"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func TestOnlyProgress(t *testing.T) {
	said := func(o outcome.Outcome) *platformv1.WorkloadSet {
		set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
		conditions.Report(set, o, "")
		return set
	}
	working := outcome.Waiting(platformv1.ReasonPodsNotReady, "1 of 3 ready")
	broken := outcome.Stalled(platformv1.ReasonInvalidSpec, "mend it")
	tests := map[string]struct {
		before     *platformv1.WorkloadSet
		generation int64
		now        outcome.Outcome
		only       bool
	}{
		"it has just been made":           {&platformv1.WorkloadSet{}, 1, working, true},
		"it is at work as before":         {said(working), 1, working, true},
		"its spec changed":                {said(outcome.Done()), 2, working, true},
		"it becomes ready":                {said(working), 1, outcome.Done(), false},
		"it was ready and is not":         {said(outcome.Done()), 1, working, false},
		"it stalls":                       {said(working), 1, broken, false},
		"what stalled it is mended":       {said(broken), 1, working, false},
		"its spec changed, which is bad":  {said(outcome.Done()), 2, broken, false},
		"something went wrong":            {said(working), 1, outcome.Failed(errors.New("test")), false},
		"it is new and is ready at once":  {&platformv1.WorkloadSet{}, 1, outcome.Done(), false},
		"its spec changed and it is done": {said(outcome.Done()), 2, outcome.Done(), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			after := test.before.DeepCopy()
			after.Generation = test.generation
			if got := onlyProgress(test.before, after, test.now); got != test.only {
				t.Errorf("got %v, want %v", got, test.only)
			}
		})
	}
}

func TestWhatIsUrgentIsNotHeldBack(t *testing.T) {
	f := New(nil, nil, func(*platformv1.WorkloadSet, outcome.Outcome) {}).
		AtOnce(func(before, after *platformv1.WorkloadSet) bool { return before.Status.Version != after.Status.Version })
	before, working := &platformv1.WorkloadSet{}, outcome.Waiting(platformv1.ReasonPodsNotReady, "1 of 3 ready")
	after := before.DeepCopy()
	after.Status.ReadyReplicas = 1
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "a"}}
	if f.hold(request, before, after, working) == 0 {
		t.Error("progress is written at once")
	}
	conditions.Report(before, working, "")
	f.pace.next[request.NamespacedName] = slowProgress
	if wait := f.hold(request, before, after, working); wait <= Progress {
		t.Errorf("what was told before waits %v", wait)
	}
	other := outcome.Waiting(platformv1.ReasonMembersPending, "a joins")
	if wait := f.hold(request, before, after, other); wait > Progress {
		t.Errorf("another reason waits %v", wait)
	}
	after.Status.Version = "7"
	if wait := f.hold(request, before, after, working); wait != 0 {
		t.Errorf("what is urgent waits %v", wait)
	}
}

func TestPace(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewPace(func() time.Time { return now })
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	expect := func(what string, key types.NamespacedName, want time.Duration) {
		t.Helper()
		if got := p.Wait(key); got != want {
			t.Errorf("%s: waits %v, want %v", what, got, want)
		}
	}
	expect("the first", a, Progress)
	now = now.Add(Progress / 4)
	expect("one that comes meanwhile", a, Progress*3/4)
	expect("another object", b, Progress)
	now = now.Add(Progress * 3 / 4)
	expect("when its time has come", a, 0)
	expect("the next", a, 2*Progress)
	p.Rest(a)
	now = now.Add(time.Minute)
	expect("after a turn that had nothing to tell", a, 2*Progress)
	now = now.Add(2 * Progress)
	expect("when that one's time has come", a, 0)
	for range 3 {
		expect("the longest", a, slowProgress)
		now = now.Add(slowProgress)
		expect("when its time has come", a, 0)
	}
	p.Forget(a)
	now = now.Add(Progress)
	expect("after something that matters was written", a, Progress)
	p.Forget(a)
	p.Forget(b)
	if len(p.since)+len(p.next) != 0 {
		t.Errorf("it remembers %v, %v", p.since, p.next)
	}
}

// The more objects are at work, the more seldom each tells how far it is, so that all together tell no more.
func TestPaceOfMany(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewPace(func() time.Time { return now })
	name := func(i int) types.NamespacedName { return types.NamespacedName{Name: strconv.Itoa(i)} }
	longest := map[int]time.Duration{1: Progress, 8: Progress, 20: 5 * time.Second, 240: time.Minute, 5000: time.Minute}
	for i := range 5000 {
		got := p.Wait(name(i))
		if want, told := longest[i+1]; told && got != want {
			t.Errorf("%d are at work: waits %v, want %v", i+1, got, want)
		}
	}
	for i := range 4999 {
		p.Forget(name(i))
	}
	now = now.Add(Progress)
	if got := p.Wait(name(4999)); got != 0 {
		t.Errorf("the others are done: waits %v more", got)
	}
}

// A few objects that are made together tell at once that they are at work. Of many each waits as TestPaceOfMany says,
// and one that is ready meanwhile is not waited for.
func TestFirstStatusOfMany(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewPace(func() time.Time { return now })
	name := func(i int) types.NamespacedName { return types.NamespacedName{Name: strconv.Itoa(i)} }
	longest := map[int]time.Duration{0: 0, firsts - 1: 0, firsts: progressEach, firsts + 19: 5 * time.Second,
		4999: longestProgress}
	for i := range 5000 {
		got := p.WaitFirst(name(i))
		if want, told := longest[i]; told && got != want {
			t.Errorf("with %d before it, it waits %v, want %v", i, got, want)
		}
	}
	now = now.Add(5 * time.Second)
	if got, want := p.WaitFirst(name(4999)), longestProgress-5*time.Second; got != want {
		t.Errorf("5 s later it waits %v, want %v", got, want)
	}
	for i := range 4999 {
		p.Forget(name(i))
	}
	if got := p.WaitFirst(name(4999)); got != 0 {
		t.Errorf("the others are ready: it waits %v more", got)
	}
}

func TestTogether(t *testing.T) {
	if err := Together(); err != nil {
		t.Errorf("nothing to do: %v", err)
	}
	// Each waits for the other, which is only possible at the same time.
	ping, pong := make(chan struct{}), make(chan struct{})
	first, second := errors.New("first"), errors.New("second")
	err := Together(
		func() error { close(ping); <-pong; return nil },
		func() error { <-ping; close(pong); return first },
		func() error { return second },
	)
	if !errors.Is(err, first) {
		t.Errorf("got %v, want the first error in order", err)
	}
	running, most := atomic.Int32{}, atomic.Int32{}
	tasks := make([]func() error, 10*atOnce)
	for i := range tasks {
		tasks[i] = func() error {
			for now := running.Add(1); ; {
				if last := most.Load(); now <= last || most.CompareAndSwap(last, now) {
					break
				}
			}
			runtime.Gosched()
			running.Add(-1)
			return nil
		}
	}
	if err := Together(tasks...); err != nil || most.Load() > atOnce {
		t.Errorf("%d at a time, %v", most.Load(), err)
	}
	defer func() {
		if got := recover(); got != "lost" {
			t.Errorf("recovered %v", got)
		}
	}()
	_ = Together(func() error { panic("lost") })
}
