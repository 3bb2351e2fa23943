// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/volumesnapshot"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// provisionBy gives the claim of a pod a volume of this driver; empty for one that is of none.
func (h *harness) provisionBy(ordinal int32, driver string) {
	h.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pv-"},
		Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: "standard",
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	if driver == "" {
		volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/somewhere"}
	} else {
		volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "v"}
	}
	if err := env.Client.Create(h.Context(), volume); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = env.Client.Delete(context.Background(), volume) })
	body := fmt.Sprintf(`{"spec":{"volumeName":%q}}`, volume.Name)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: claimName(ordinal)}}
	if err := env.Client.Patch(h.Context(), claim, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		h.Fatal(err)
	}
}

// wake has the controller look at a set at once, and not when it would by itself.
func (h *harness) wake(set *platformv1.WorkloadSet) {
	h.Helper()
	h.change(set, func(s *platformv1.WorkloadSet) {
		s.Annotations = map[string]string{"example.com/look": s.ResourceVersion}
	})
}

// hold has a claim have these finalizers and no others.
func (h *harness) hold(ordinal int32, finalizers ...string) {
	h.Helper()
	claim := h.claim(ordinal)
	before := claim.DeepCopy()
	claim.Finalizers = finalizers
	if err := env.Client.Patch(h.Context(), claim, client.MergeFrom(before)); err != nil {
		h.Fatal(err)
	}
}

// free waits until claims are gone that are to be deleted; what lets go of those that were in use is not here.
func (h *harness) free(ordinals ...int32) {
	h.Helper()
	for _, ordinal := range ordinals {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: claimName(ordinal)}}
		err := env.Client.Patch(h.Context(), claim,
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		if client.IgnoreNotFound(err) != nil {
			h.Fatal(err)
		}
		testkit.WaitGone(h, env.Client, claim)
	}
}

// A set under the policy Snapshot keeps its volumes until there is a snapshot of each, says at every point what is
// missing, and another one begins with what is left.
func TestVolumesGoOnceThereAreSnapshots(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set := h.create(2, func(s *platformv1.WorkloadSet) {
		s.Spec.DeletionPolicy, s.Spec.Topology = platformv1.DeletionPolicySnapshot, "replication"
	})
	testkit.WaitForReady(h, env.Client, set)
	h.provisionBy(0, "disk.example.com")
	h.provisionBy(1, "disk.example.com")
	if err := env.Client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	h.says(set, platformv1.ReasonSnapshotFailed, "the cluster has no VolumeSnapshots (snapshot.storage.k8s.io/v1): "+
		"install them with their controller; or set spec.deletionPolicy of WorkloadSet")
	env.InstallSnapshots(t)
	h.wake(set)
	h.says(set, platformv1.ReasonSnapshotFailed, `there is no VolumeSnapshotClass of its CSI driver "disk.example.com"`)
	env.SnapshotClass(t, "disk", "disk.example.com")
	h.wake(set)
	env.SnapshotsBecome(t, h.namespace, 2, map[string]any{"error": map[string]any{"message": "no room"}})
	h.wake(set)
	h.says(set, platformv1.ReasonSnapshotFailed, "is not ready to use: no room")
	for _, ordinal := range []int32{0, 1} {
		if claim := h.claim(ordinal); claim.DeletionTimestamp != nil {
			t.Errorf("claim %d is deleted before there is a snapshot of it", ordinal)
		}
	}
	h.hold(1, volumesnapshot.SourceFinalizer)
	left := env.SnapshotsBecome(t, h.namespace, 2, map[string]any{"readyToUse": true, "restoreSize": "2Gi"})
	h.wake(set)
	h.says(set, platformv1.ReasonDeleting, "waiting for the snapshot controller to take finalizer "+
		volumesnapshot.SourceFinalizer+fmt.Sprintf(" from claim %q", claimName(1)))
	for _, ordinal := range []int32{0, 1} {
		if claim := h.claim(ordinal); claim.DeletionTimestamp != nil {
			t.Errorf("claim %d is deleted while the snapshot controller is at one", ordinal)
		}
	}
	for _, one := range env.SnapshotsBecome(t, h.namespace, 2, map[string]any{"readyToUse": true}) {
		claim := one.GetAnnotations()[platformv1.ClaimAnnotation]
		if _, asked := one.GetAnnotations()[platformv1.AwaitedAnnotation]; asked != (claim == claimName(1)) {
			t.Errorf("that the snapshot controller is to look again at the VolumeSnapshot of claim %s is %t", claim, asked)
		}
	}
	h.hold(1)
	h.wake(set)
	testkit.WaitGone(h, env.Client, set)
	h.free(0, 1)
	for i := range left {
		if left[i].GetLabels()[platformv1.ApplicationUIDLabel] != newUID ||
			left[i].GetAnnotations()[platformv1.DataAnnotation] != "redis/7.0/replication" {
			t.Errorf("VolumeSnapshot %s says %v, %v", left[i].GetName(), left[i].GetLabels(), left[i].GetAnnotations())
		}
	}
	candidate := newHarness(t)
	for i := range left {
		moved := left[i].DeepCopy()
		moved.SetNamespace(candidate.namespace)
		moved.SetResourceVersion("")
		if err := env.Client.Create(t.Context(), moved); err != nil {
			t.Fatal(err)
		}
	}
	candidate.start(-1)
	candidate.beginsWithSnapshots()
}

// refused is a set that goes under the policy Snapshot and stays, since its volume is of no driver that makes
// snapshots.
func (h *harness) refused(says string) *platformv1.WorkloadSet {
	h.Helper()
	h.start(-1)
	set := h.create(1, func(s *platformv1.WorkloadSet) { s.Spec.DeletionPolicy = platformv1.DeletionPolicySnapshot })
	testkit.WaitForReady(h, env.Client, set)
	h.provisionBy(0, "")
	if err := env.Client.Delete(h.Context(), set); err != nil {
		h.Fatal(err)
	}
	h.says(set, platformv1.ReasonSnapshotFailed, says)
	return set
}

// A namespace that is being deleted keeps no set, also where no snapshot could be made.
func TestSnapshotsHoldUpNoNamespace(t *testing.T) {
	h := newHarness(t)
	set := h.refused("is not deleted before there is a snapshot of it")
	err := env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}})
	if err != nil {
		t.Fatal(err)
	}
	h.wake(set)
	testkit.WaitGone(h, env.Client, set)
}

// beginsWithSnapshots has a set begin with what another one left, once its volumes are large enough and of the driver
// that has the data.
func (h *harness) beginsWithSnapshots() {
	h.Helper()
	stray := env.SnapshotsBecome(h, h.namespace, 2, map[string]any{"restoreSize": "2Gi"})[0].DeepCopy()
	stray.SetName("stray")
	stray.SetResourceVersion("")
	labels := stray.GetLabels()
	labels[platformv1.GenerationLabel] = "0a1b2c3d"
	stray.SetLabels(labels)
	if err := env.Client.Create(h.Context(), stray); err != nil {
		h.Fatal(err)
	}
	candidate := h.create(1, func(s *platformv1.WorkloadSet) {
		s.Labels[platformv1.ApplicationUIDLabel] = oldUID
		s.Spec.AdoptVolumes, s.Spec.Topology = newUID, "sentinel"
	})
	h.says(candidate, platformv1.ReasonAdoptionRefused, `of the generations ["" "0a1b2c3d"] of its volumes`)
	if err := env.Client.Delete(h.Context(), stray); err != nil {
		h.Fatal(err)
	}
	h.wake(candidate)
	h.says(candidate, platformv1.ReasonAdoptionRefused, `its topology is "replication" and has to be "sentinel"`)
	h.change(candidate, func(s *platformv1.WorkloadSet) { s.Spec.Topology = "replication" })
	h.says(candidate, platformv1.ReasonAdoptionRefused, "a volume of it has 2Gi at least, and 1Gi are asked for")
	h.change(candidate, func(s *platformv1.WorkloadSet) { s.Spec.Volumes[0].Size = resource.MustParse("2Gi") })
	h.says(candidate, platformv1.ReasonAdoptionRefused,
		`it is of the CSI driver "disk.example.com", and StorageClass "standard" is of "example.com/none"`)
	if pods := h.pods(); len(pods) != 0 {
		h.Errorf("there are %d pods before the volumes", len(pods))
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: "disk.example.com"}
	if err := env.Client.Create(h.Context(), class); err != nil && !apierrors.IsAlreadyExists(err) {
		h.Fatal(err)
	}
	h.change(candidate, func(s *platformv1.WorkloadSet) { s.Spec.Volumes[0].StorageClassName = new("disk") })
	h.says(candidate, platformv1.ReasonAdoptionRefused, "cannot be adopted while it is not ready to use")
	env.SnapshotsBecome(h, h.namespace, 2, map[string]any{"readyToUse": true, "restoreSize": "2Gi"})
	h.wake(candidate)
	h.says(candidate, platformv1.ReasonAdoptionRefused, "what Application "+newUID+
		" left cannot be adopted without VolumeSnapshot "+claimName(1)+"-")
	h.change(candidate, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 2 })
	testkit.WaitForReady(h, env.Client, candidate)
	for _, ordinal := range []int32{0, 1} {
		source := h.claim(ordinal).Spec.DataSource
		if source == nil || source.Kind != "VolumeSnapshot" || *source.APIGroup != "snapshot.storage.k8s.io" ||
			source.Name[:len(claimName(ordinal))] != claimName(ordinal) {
			h.Errorf("claim %d begins with %+v", ordinal, source)
		}
	}
	made := "Claim %s is made of VolumeSnapshot %[1]s-"
	h.tells(candidate, "AdoptingSnapshot", fmt.Sprintf(made, claimName(0)), fmt.Sprintf(made, claimName(1)))
	// One that is lost later is no more made of old data.
	lost, before := h.claim(1), h.pods()
	if err := env.Client.Delete(h.Context(), lost); err != nil {
		h.Fatal(err)
	}
	h.free(1)
	pod := before["1"]
	if err := env.Client.Delete(h.Context(), &pod); err != nil {
		h.Fatal(err)
	}
	h.made(before, "1")
	if source := h.claim(1).Spec.DataSource; source != nil {
		h.Errorf("the claim of a pod that had begun is made of %+v", source)
	}
}

// Whoever does not get snapshots says what is to become of the volumes, and the set goes.
func TestSnapshotsAreGivenUp(t *testing.T) {
	for policy, kept := range map[platformv1.DeletionPolicy]bool{platformv1.DeletionPolicyRetain: true,
		platformv1.DeletionPolicyDelete: false} {
		t.Run(string(policy), func(t *testing.T) {
			h := newHarness(t)
			set := h.refused("to Retain to keep the volumes, or to Delete to delete them without")
			h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.DeletionPolicy = policy })
			testkit.WaitGone(h, env.Client, set)
			if !kept {
				h.free(0)
			} else if claim := h.claim(0); claim.DeletionTimestamp != nil {
				t.Error("the volume is deleted under the policy Retain")
			}
		})
	}
}
