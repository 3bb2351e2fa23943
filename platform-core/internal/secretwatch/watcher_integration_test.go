// SPDX-License-Identifier: Apache-2.0

//go:build integration

package secretwatch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

func TestMain(m *testing.M) { testkit.Main(m, &env, testkit.EnvOptions{System: "zeroinfra-system"}) }

// fixture is a Watcher of a real API server, and the queue that it feeds.
type fixture struct {
	*Watcher
	client client.Client
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	watcher, err := New(env.System.Config)
	if err != nil {
		t.Fatal(err)
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	if err := watcher.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	return &fixture{watcher, env.Client, queue}
}

func nameOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// woken waits for the next request and returns whom it is for.
func (f *fixture) woken(t *testing.T) types.NamespacedName {
	t.Helper()
	got := make(chan types.NamespacedName, 1)
	go func() {
		request, _ := f.queue.Get()
		f.queue.Done(request)
		got <- request.NamespacedName
	}()
	select {
	case owner := <-got:
		return owner
	case <-time.After(testkit.Patience):
		t.Fatalf("nobody was woken within %s", testkit.Patience)
		return types.NamespacedName{}
	}
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	testkit.Eventually(t, what, func(context.Context) error {
		if !check() {
			return errors.New("not yet")
		}
		return nil
	})
}

func (f *fixture) hasSynced(secret types.NamespacedName) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watches[secret] != nil && f.watches[secret].synced()
}

func (f *fixture) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watches)
}

// watcherGoroutines counts the goroutines that work for watches.
func watcherGoroutines() int {
	stacks := make([]byte, 1<<22)
	stacks = stacks[:runtime.Stack(stacks, true)]
	count := 0
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(stack, "secretwatch.(*Watcher).begin") {
			count++
		}
	}
	return count
}

func TestOwnersAreWokenByTheirSecretOnly(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	secret, owner := nameOf("password"), nameOf("redis-a")
	if _, err := f.Get(ctx, secret); !apierrors.IsNotFound(err) {
		t.Fatalf("a Secret that is absent gave %v", err)
	}
	f.Ensure(ctx, secret, owner)
	f.Ensure(ctx, secret, owner)
	eventually(t, "the watch is up", func() bool { return f.hasSynced(secret) })
	if _, err := f.Get(ctx, secret); !apierrors.IsNotFound(err) {
		t.Fatalf("from the watch, a Secret that is absent gave %v", err)
	}

	stranger := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}}
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "password"},
		StringData: map[string]string{"password": "a"}}
	for _, obj := range []client.Object{stranger, mine} {
		if err := f.client.Create(ctx, obj); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.woken(t); got != owner {
		t.Errorf("%s was woken, want %s", got, owner)
	}
	got, err := f.Get(ctx, secret)
	if err != nil || string(got.Data["password"]) != "a" || got.ManagedFields != nil {
		t.Errorf("got %v, error %v", got, err)
	}

	mine.StringData = map[string]string{"password": "b"}
	if err := f.client.Update(ctx, mine); err != nil {
		t.Fatal(err)
	}
	f.woken(t)
	if got, err = f.Get(ctx, secret); err != nil || string(got.Data["password"]) != "b" {
		t.Errorf("after the change: %v, error %v", got, err)
	}
	if err := f.client.Delete(ctx, mine); err != nil {
		t.Fatal(err)
	}
	f.woken(t)
	if _, err := f.Get(ctx, secret); !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion: %v", err)
	}
	if f.queue.Len() != 0 {
		t.Errorf("%d more requests for one owner of one Secret", f.queue.Len())
	}
}

func TestWatchesEndWithTheLastOwner(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	a, b := nameOf("redis-a"), nameOf("redis-b")
	shared, own := nameOf("shared"), nameOf("own")
	f.Ensure(ctx, shared, a)
	f.Ensure(ctx, shared, b)
	f.Ensure(ctx, own, a)
	if got := f.count(); got != 2 {
		t.Fatalf("%d watches of 2 Secrets", got)
	}
	f.Release(a, shared)
	if got := f.count(); got != 1 {
		t.Errorf("%d watches after nobody wants one of them", got)
	}
	f.Release(a)
	if got := f.count(); got != 1 {
		t.Errorf("%d watches while one owner is left", got)
	}
	f.Release(b)
	f.Release(b)
	if got := f.count(); got != 0 {
		t.Errorf("%d watches without owners", got)
	}
	eventually(t, "no goroutine of a watch is left", func() bool { return watcherGoroutines() == 0 })
}

func TestNothingLeaks(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for round := range 5 {
		for i := range 20 {
			f.Ensure(ctx, nameOf(fmt.Sprintf("secret-%d", i)), nameOf(fmt.Sprintf("owner-%d", round)))
		}
	}
	eventually(t, "all 20 watches are up", func() bool {
		for i := range 20 {
			if !f.hasSynced(nameOf(fmt.Sprintf("secret-%d", i))) {
				return false
			}
		}
		return true
	})
	if got := watcherGoroutines(); got < 20 {
		t.Fatalf("%d goroutines serve 20 watches: the count sees nothing", got)
	}
	f.Close()
	eventually(t, "no goroutine of a watch is left", func() bool { return watcherGoroutines() == 0 })
	f.Ensure(ctx, nameOf("late"), nameOf("owner"))
	if f.count() != 0 {
		t.Error("a watch began after Close")
	}
}
