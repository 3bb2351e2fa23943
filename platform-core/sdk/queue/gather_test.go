// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestGatherMakesOneRequestOfManyEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer q.ShutDown()
		h := Gather(time.Second, func(obj client.Object) reconcile.Request {
			return reconcile.Request{NamespacedName: client.ObjectKey{Name: obj.GetNamespace()}}
		})
		one := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}}
		two := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "two"}}
		h.Create(t.Context(), event.CreateEvent{Object: one}, q)
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: one, ObjectNew: one}, q)
		time.Sleep(900 * time.Millisecond)
		h.Delete(t.Context(), event.DeleteEvent{Object: two}, q)
		if n := q.Len(); n != 0 {
			t.Errorf("%d requests before the time", n)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if n := q.Len(); n != 1 {
			t.Fatalf("%d requests, want one: the first event says when", n)
		}
		got, _ := q.Get()
		q.Done(got)
		if got.Name != "a" {
			t.Errorf("it is for %q", got.Name)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := q.Len(); n != 0 {
			t.Errorf("%d more requests came of the same events", n)
		}
	})
}
