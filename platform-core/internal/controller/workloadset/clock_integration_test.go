// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// noMorePods has the API server refuse every further pod of the namespace.
func (h *harness) noMorePods(set *platformv1.WorkloadSet) {
	h.Helper()
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "full"},
		Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	h.must(env.Client.Create(h.Context(), quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard}
	h.must(env.Client.Status().Update(h.Context(), quota))
	testkit.Eventually(h, "the quota", func(ctx context.Context) error {
		pod := h.pods()["0"]
		another := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "another"},
			Spec: corev1.PodSpec{Containers: pod.Spec.Containers}}
		if err := env.Client.Create(ctx, another, client.DryRunAll); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("another pod is not refused"), err)
		}
		return nil
	})
}

// A failover goes by its own clock while something else fails in each reconcile, however long that is backed off for.
func TestAFailoverDoesNotWaitForWhatFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := newCrew(h)
	f, done := h.start(-1)
	set := h.create(3, withFailover)
	h.writes(m, set, "0", 1)
	testkit.WaitForReady(h, env.Client, set)
	f.kill()
	<-done
	h.noMorePods(set)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 4 })
	h.backOff = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour)
	h.start(-1)
	h.says(set, platformv1.ReasonQuotaExceeded, "exceeded quota")
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.breaks = true }))
	h.writes(m, set, "1", 2)
	// It is told as before.
	h.says(set, platformv1.ReasonQuotaExceeded, "exceeded quota")
}
