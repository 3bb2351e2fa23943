// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// Patience is how long waits last before they fail the test. It is no budget: a machine may be slow for a while.
	Patience = 2 * time.Minute
	// firstLook and lastLook are how long a wait waits between its first looks and after many: each look costs the API
	// server a read.
	firstLook, lastLook = 20 * time.Millisecond, 250 * time.Millisecond
)

// Eventually waits until check returns no error, and fails the test with its last
// error after Patience.
func Eventually(t testing.TB, what string, check func(ctx context.Context) error) {
	t.Helper()
	last := fmt.Errorf("it was never reconciled")
	looks := wait.Backoff{Duration: firstLook, Factor: 1.3, Cap: lastLook, Steps: math.MaxInt}.DelayFunc()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	err := looks.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		// What is cut off by the end of the wait says nothing of what was waited for.
		if ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("waited %v for %s: %v", Patience, what, last)
	}
}

// Edit reads the object anew, changes it and writes it, once more for as long as
// somebody else writes it in between. It returns any other error of the writing.
func Edit(ctx context.Context, c client.Client, obj client.Object, change func()) error {
	return retry.RetryOnConflict(wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 15},
		func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
				return err
			}
			change()
			return c.Update(ctx, obj)
		})
}

// WaitFor waits until the object, read anew each time, is as check wants it. A nil
// check wants it to exist.
func WaitFor(t testing.TB, c client.Reader, obj client.Object, what string, check func() error) {
	t.Helper()
	key := client.ObjectKeyFromObject(obj)
	Eventually(t, fmt.Sprintf("%T %q: %s", obj, key, what), func(ctx context.Context) error {
		if err := c.Get(ctx, key, obj); err != nil || check == nil {
			return err
		}
		return check()
	})
}

// WaitForCondition waits until the object, read anew each time, has a condition of
// this status at its present generation.
func WaitForCondition[T interface {
	client.Object
	platformv1.Conditioned
}](t testing.TB, c client.Reader, obj T, conditionType string, status metav1.ConditionStatus) {
	t.Helper()
	WaitFor(t, c, obj, conditionType+"="+string(status), func() error {
		found := meta.FindStatusCondition(obj.GetConditions(), conditionType)
		if found == nil || found.Status != status || found.ObservedGeneration != obj.GetGeneration() {
			return fmt.Errorf("generation %d has conditions %+v", obj.GetGeneration(), obj.GetConditions())
		}
		return nil
	})
}

// WaitForReady waits until the object is Ready at its present generation.
func WaitForReady[T interface {
	client.Object
	platformv1.Conditioned
}](t testing.TB, c client.Reader, obj T) {
	t.Helper()
	WaitForCondition(t, c, obj, platformv1.ReadyCondition, metav1.ConditionTrue)
}

// WaitGone waits until there is no such object.
func WaitGone(t testing.TB, c client.Reader, obj client.Object) {
	t.Helper()
	key := client.ObjectKeyFromObject(obj)
	Eventually(t, fmt.Sprintf("the end of %T %q", obj, key), func(ctx context.Context) error {
		err := c.Get(ctx, key, obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			return fmt.Errorf("it is still there")
		}
		return err
	})
}

// LetGo waits until an object is being deleted, takes its finalizers away as the engine would, which does not run, and
// waits for its end.
func LetGo(t testing.TB, c client.Client, obj client.Object) {
	t.Helper()
	WaitFor(t, c, obj, "is being deleted", func() error {
		if obj.GetDeletionTimestamp().IsZero() {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	if err := Edit(t.Context(), c, obj, func() { obj.SetFinalizers(nil) }); err != nil {
		t.Fatal(err)
	}
	WaitGone(t, c, obj)
}
