// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// A volume that a user added is taken out again where it never came: its claim goes, and the pod that waited for it is
// made again. The claim of one that came stays.
func TestAddedVolumesThatNeverCameAreTakenOut(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready()
	added := func(number int, ordinal int32) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace,
			Name: platformv1.ClaimNameFor(fmt.Sprintf("data-%d", number), platformv1.PodNameFor(setName, ordinal))}}
	}
	key := client.ObjectKeyFromObject
	h.addAndTakeOut(set, before)
	h.change(set, func(s *platformv1.WorkloadSet) {
		s.Spec.Revision = "r2"
		for _, name := range []string{"data-1", "data-2"} {
			s.Spec.Volumes = append(s.Spec.Volumes, platformv1.SetVolume{Name: name,
				Storage: platformv1.Storage{Size: resource.MustParse("1Gi"), StorageClassName: new("standard")}})
		}
	})
	testkit.WaitForReady(h, env.Client, set)
	for ordinal := range int32(3) {
		came := added(1, ordinal)
		if err := env.Client.Get(t.Context(), key(came), came); err != nil {
			t.Fatal(err)
		}
		bound := came.DeepCopy()
		bound.Status.Phase = corev1.ClaimBound
		if err := env.Client.Status().Patch(t.Context(), bound, client.MergeFrom(came)); err != nil {
			t.Fatal(err)
		}
	}
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Revision, s.Spec.Volumes = "r1", s.Spec.Volumes[:1] })
	for ordinal := range int32(3) {
		never := added(2, ordinal)
		testkit.Eventually(h, "claim "+never.Name+" is deleted", func(ctx context.Context) error {
			err := env.Client.Get(ctx, key(never), never)
			// The finalizer of volumes in use is for a controller that is not here.
			if apierrors.IsNotFound(err) || err == nil && never.DeletionTimestamp != nil {
				return nil
			}
			return fmt.Errorf("it is there: %v", err)
		})
	}
	h.tells(set, "VolumesDiscarded", "Claim "+added(2, 1).Name+" is deleted")
	testkit.WaitForReady(h, env.Client, set)
	h.samePods(before, "0", "1", "2")
	for ordinal := range int32(3) {
		came := added(1, ordinal)
		if err := env.Client.Get(t.Context(), key(came), came); err != nil || came.DeletionTimestamp != nil {
			t.Errorf("claim %s, which has a volume, is deleted: %v", came.Name, err)
		}
	}
	if claim := h.claim(0); claim.DeletionTimestamp != nil {
		t.Error("the first volume is deleted")
	}
}

// addAndTakeOut adds a volume that keeps the first pod that is made with it from starting, and takes it out again: no
// other pod is touched.
func (h *harness) addAndTakeOut(set *platformv1.WorkloadSet, before map[string]corev1.Pod) {
	h.Helper()
	const image = "redis:waits"
	h.node.set(func() { h.node.absent[image] = true })
	change := func(revision string, volumes int, change content) {
		h.change(set, func(s *platformv1.WorkloadSet) {
			s.Spec.Revision, s.Spec.Volumes = revision, s.Spec.Volumes[:1]
			for range volumes {
				s.Spec.Volumes = append(s.Spec.Volumes, platformv1.SetVolume{Name: "data-1",
					Storage: platformv1.Storage{Size: resource.MustParse("1Gi"), StorageClassName: new("standard")}})
			}
			change.fill(h, &s.Spec)
		})
	}
	waiting := original()
	waiting.Image = image
	change("r2", 1, waiting)
	h.made(before, "2")
	change("r1", 0, original())
	testkit.WaitForReady(h, env.Client, set)
	h.samePods(before, "2")
	before["2"] = h.pods()["2"]
}
