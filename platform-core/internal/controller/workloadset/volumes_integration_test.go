// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/volumes"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

func claimName(ordinal int32) string { return "data-" + platformv1.PodNameFor(setName, ordinal) }

func (h *harness) claim(ordinal int32) *corev1.PersistentVolumeClaim {
	h.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: h.namespace, Name: claimName(ordinal)}
	if err := env.Client.Get(h.Context(), key, claim); err != nil {
		h.Fatal(err)
	}
	return claim
}

// provision writes the status of a claim as provisioner and resizer do.
func (h *harness) provision(ordinal int32, size string, conditions ...corev1.PersistentVolumeClaimCondition) {
	h.Helper()
	claim := h.claim(ordinal)
	bound := claim.DeepCopy()
	bound.Status.Phase, bound.Status.Conditions = corev1.ClaimBound, conditions
	bound.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	if err := env.Client.Status().Patch(h.Context(), bound, client.MergeFrom(claim)); err != nil {
		h.Fatal(err)
	}
}

// volumes waits until the volumes of the set are in these phases.
func (h *harness) volumes(set *platformv1.WorkloadSet, phases ...platformv1.VolumePhase) {
	h.Helper()
	testkit.WaitFor(h, env.Client, set, fmt.Sprint(phases), func() error {
		got := []platformv1.VolumePhase{}
		for _, volume := range set.Status.Volumes {
			got = append(got, volume.Phase)
		}
		if fmt.Sprint(got) != fmt.Sprint(phases) {
			return fmt.Errorf("volumes %+v", set.Status.Volumes)
		}
		return nil
	})
}

func TestVolumesGrow(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready()
	h.volumes(set, platformv1.VolumePending, platformv1.VolumePending, platformv1.VolumePending)
	for ordinal := range int32(3) {
		h.provision(ordinal, "1Gi")
	}
	h.volumes(set, platformv1.VolumeBound, platformv1.VolumeBound, platformv1.VolumeBound)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Volumes[0].Size = resource.MustParse("2Gi") })
	h.volumes(set, platformv1.VolumeExpanding, platformv1.VolumeExpanding, platformv1.VolumeExpanding)
	h.says(set, platformv1.ReasonProgressing, "volume of claim "+claimName(0)+" grows from 1Gi to 2Gi")
	h.tells(set, "ExpandingVolume", each("claim data-%s grows from 1Gi to 2Gi")...)
	// Claim 1 grows under its running pod. The driver of the others cannot do that.
	pending := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimFileSystemResizePending,
		Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	h.provision(0, "1Gi", pending)
	h.provision(1, "2Gi")
	h.provision(2, "1Gi", pending)
	h.volumes(set, platformv1.VolumeFileSystemResizePending, platformv1.VolumeBound,
		platformv1.VolumeFileSystemResizePending)
	h.samePods(before)
	testkit.Eventually(h, "another second", func(context.Context) error {
		if time.Now().Unix() == pending.LastTransitionTime.Unix() {
			return fmt.Errorf("it is the same")
		}
		return nil
	})
	h.clock.Store(int64(volumes.OnlinePatience))
	h.touch(set)
	for _, ordinal := range []int32{2, 0} {
		h.made(before, fmt.Sprint(ordinal))
		h.provision(ordinal, "2Gi")
	}
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 starts redis:1", "0 starts redis:1")
	h.tells(set, "ReplacingPod", "DeletePod "+setName+"-2: its volume grows at a restart only", "DeletePod "+setName+
		"-0: its volume grows at a restart only")
	h.samePods(before, "0", "2")
	volume := set.Status.Volumes[0]
	if volume.Claim != claimName(0) || volume.Requested.String() != "2Gi" || volume.Capacity.String() != "2Gi" {
		t.Errorf("volume %+v", volume)
	}
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Volumes[0].Size = resource.MustParse("1Gi") })
	h.says(set, platformv1.ReasonVolumeShrinkRefused, "set the size to at least 2Gi")
	h.samePods(before, "0", "2")
}

// answers has the storage of a claim say what became of a size.
func (h *harness) answers(ordinal int32, size string, status corev1.ClaimResourceStatus) {
	h.Helper()
	claim := h.claim(ordinal)
	answered := claim.DeepCopy()
	answered.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	answered.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: status}
	if err := env.Client.Status().Patch(h.Context(), answered, client.MergeFrom(claim)); err != nil {
		h.Fatal(err)
	}
}

// asks waits until a size is asked for of a claim.
func (h *harness) asks(ordinal int32, size string) {
	h.Helper()
	testkit.Eventually(h, "claim "+claimName(ordinal)+" asks for "+size, func(context.Context) error {
		if asked := h.claim(ordinal).Spec.Resources.Requests[corev1.ResourceStorage]; !asked.Equal(resource.MustParse(size)) {
			return fmt.Errorf("it asks for %s", asked.String())
		}
		return nil
	})
}

// A size that the storage cannot give is said, and taken back to one above what the volumes have: the API server takes
// none that they have, or less. An old one takes none back, which is said.
func TestSizeThatCannotBeHadIsTakenBack(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready()
	to := func(size string) {
		h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Volumes[0].Size = resource.MustParse(size) })
	}
	for ordinal := range int32(3) {
		h.provision(ordinal, "1Gi")
	}
	to("10Ti")
	for ordinal := range int32(3) {
		h.asks(ordinal, "10Ti")
	}
	if takesBack, err := env.Since(testkit.TakesSizesBack); err != nil {
		t.Fatal(err)
	} else if !takesBack {
		to("2Gi")
		h.says(set, platformv1.ReasonVolumeShrinkRefused, "as Kubernetes does from 1.32 on")
		return
	}
	h.answers(1, "10Ti", corev1.PersistentVolumeClaimControllerResizeInfeasible)
	h.says(set, platformv1.ReasonVolumeExpansionUnsupported, "the volume of claim "+claimName(1)+" does not grow from "+
		"1Gi to 10Ti (ControllerResizeInfeasible): make room for it, or set the size back to one above 1Gi")
	h.volumes(set, platformv1.VolumeExpanding, platformv1.VolumeRefused, platformv1.VolumeExpanding)
	to("1Gi")
	h.says(set, platformv1.ReasonVolumeShrinkRefused, "set the size to one above 1Gi")
	claim := h.claim(1)
	back := claim.DeepCopy()
	back.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Gi")
	if err := env.Client.Patch(t.Context(), back, client.MergeFrom(claim)); !apierrors.IsInvalid(err) {
		t.Errorf("the API server takes a claim back to what it has: %v", err)
	}
	to("2Gi")
	h.tells(set, "ExpandingVolume", each("claim data-%s grows to 2Gi and not to 10Ti")...)
	for ordinal := range int32(3) {
		h.asks(ordinal, "2Gi")
	}
	h.says(set, platformv1.ReasonProgressing, "volume of claim "+claimName(0)+" grows from 1Gi to 2Gi")
	for ordinal := range int32(3) {
		h.provision(ordinal, "2Gi")
	}
	testkit.WaitForReady(h, env.Client, set)
	h.samePods(before)
}

// made waits until a pod is another than before.
func (h *harness) made(before map[string]corev1.Pod, ordinal string) {
	h.Helper()
	testkit.Eventually(h, "another pod "+ordinal, func(context.Context) error {
		if uid := h.pods()[ordinal].UID; uid == "" || uid == before[ordinal].UID {
			return fmt.Errorf("its UID is %q", uid)
		}
		return nil
	})
}

// retained makes a claim that an earlier Application left behind.
func (h *harness) retained(ordinal int32, data string) *corev1.PersistentVolumeClaim {
	h.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: claimName(ordinal),
			Annotations: map[string]string{platformv1.DataAnnotation: data},
			Labels: map[string]string{platformv1.ManagedByLabel: platformv1.ManagedBy, platformv1.ApplicationLabel: "redis-a",
				platformv1.ApplicationUIDLabel: oldUID,
				platformv1.ComponentLabel:      "redis", platformv1.SetLabel: "main",
				platformv1.OrdinalLabel: fmt.Sprint(ordinal)}},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: new("standard"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	if err := env.Client.Create(h.Context(), claim); err != nil {
		h.Fatal(err)
	}
	return claim
}

// note has a claim say that its data is another one.
func (h *harness) note(ordinal int32, data string) {
	h.Helper()
	claim := h.claim(ordinal)
	noted := claim.DeepCopy()
	noted.Annotations[platformv1.DataAnnotation] = data
	if err := env.Client.Patch(h.Context(), noted, client.MergeFrom(claim)); err != nil {
		h.Fatal(err)
	}
}

// noted waits until a claim says so of its data.
func (h *harness) noted(ordinal int32, data string) {
	h.Helper()
	testkit.Eventually(h, "claim "+claimName(ordinal)+" is of "+data, func(context.Context) error {
		if is := h.claim(ordinal).Annotations[platformv1.DataAnnotation]; is != data {
			return fmt.Errorf("it is of %s", is)
		}
		return nil
	})
}

func TestRetainedVolumesAreAdopted(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	// One is of before topologies were noted.
	old := []*corev1.PersistentVolumeClaim{h.retained(0, "redis/7.0"), h.retained(1, "redis/6.2/sentinel")}
	more := h.retained(2, "redis/7.0/replication")
	set := h.create(2, func(s *platformv1.WorkloadSet) { s.Spec.Topology = "replication" })
	h.says(set, platformv1.ReasonRetainedVolumesExist, "claim "+claimName(0)+
		" holds the data of an earlier redis-a and is left alone: set adoptVolumes to "+oldUID)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.AdoptVolumes = newUID })
	h.says(set, platformv1.ReasonRetainedVolumesExist, oldUID)
	if pods := h.pods(); len(pods) != 0 {
		t.Errorf("there are %d pods", len(pods))
	}
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.AdoptVolumes = oldUID })
	h.says(set, platformv1.ReasonAdoptionRefused, "claim "+claimName(1)+
		` cannot be adopted: its plugin and major version is "redis/6" and has to be "redis/7"`)
	h.note(1, "redis/7.2/sentinel")
	h.says(set, platformv1.ReasonAdoptionRefused, "claim "+claimName(1)+
		` cannot be adopted: its topology is "sentinel" and has to be "replication"`)
	h.note(1, "redis/7.2/replication")
	h.says(set, platformv1.ReasonAdoptionRefused, "claim "+claimName(1)+
		" cannot be adopted: its data is of version 7.2, and version 7.0, which is older, may not read it: "+
		"set version to 7.2")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Version = "7.2" })
	h.says(set, platformv1.ReasonAdoptionRefused, "what Application "+oldUID+" left cannot be adopted without claim "+
		claimName(2)+": which volume was written last is known only when pods have all of them")
	if pods := h.pods(); len(pods) != 0 {
		t.Errorf("there are %d pods", len(pods))
	}
	for ordinal, data := range []string{"redis/7.0", "redis/7.2/replication"} {
		if claim := h.claim(int32(ordinal)); claim.Labels[platformv1.ApplicationUIDLabel] != oldUID ||
			claim.Annotations[platformv1.DataAnnotation] != data {
			t.Errorf("claim %d was touched although not all fit: %v, %v", ordinal, claim.Labels, claim.Annotations)
		}
	}
	if err := env.Client.Delete(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	h.free(2)
	testkit.WaitForReady(h, env.Client, set)
	for ordinal, was := range old {
		claim := h.claim(int32(ordinal))
		if claim.UID != was.UID || claim.Labels[platformv1.ApplicationUIDLabel] != newUID ||
			claim.Annotations[platformv1.DataAnnotation] != "redis/7.2/replication" {
			t.Errorf("claim %d: UID %s, was %s, labels %v, annotations %v", ordinal, claim.UID, was.UID, claim.Labels,
				claim.Annotations)
		}
	}
	h.tells(set, "AdoptingVolume", "claim "+claimName(0)+" of Application "+oldUID+" is used again", "claim "+claimName(1)+
		" of Application "+oldUID+" is used again")
	h.keepsItsMarks(set)
}

// keepsItsMarks has a set that runs get another pod, another version and another topology, and its volumes say so,
// without a write for what was made before topologies were noted.
func (h *harness) keepsItsMarks(set *platformv1.WorkloadSet) {
	h.Helper()
	h.note(0, "redis/7.2")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 3 })
	testkit.WaitForReady(h, env.Client, set)
	h.noted(2, "redis/7.2/replication")
	if is := h.claim(0).Annotations[platformv1.DataAnnotation]; is != "redis/7.2" {
		h.Errorf("the topology alone was added to a claim: %s", is)
	}
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Version = "8.0" })
	h.noted(0, "redis/8.0/replication")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Topology = "other" })
	h.noted(0, "redis/8.0/other")
}

// A volume that is no longer mounted, such as that of access logs, stays, and goes with the others under the policy
// Delete.
func TestVolumesThatAreNoLongerMountedGoWithTheSet(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set := h.create(1, func(s *platformv1.WorkloadSet) { s.Spec.DeletionPolicy = platformv1.DeletionPolicyDelete })
	testkit.WaitForReady(h, env.Client, set)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Volumes, s.Spec.Revision = nil, "r2" })
	testkit.WaitForReady(h, env.Client, set)
	if claim := h.claim(0); claim.DeletionTimestamp != nil {
		t.Fatal("the volume is deleted as it is taken off")
	}
	if err := env.Client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(h, "the volume is deleted", func(ctx context.Context) error {
		claim := &corev1.PersistentVolumeClaim{}
		err := env.Client.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: claimName(0)}, claim)
		// The finalizer of volumes in use is for a controller that is not here.
		if err == nil && claim.DeletionTimestamp == nil {
			return fmt.Errorf("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// A volume of access logs that is asked for again is the one of before: it stays of its class, which is said, until
// that is named or the claim is gone. The pods run meanwhile.
func TestLogsKeepTheClassOfTheirVolume(t *testing.T) {
	h := newHarness(t)
	slow := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}, Provisioner: "example.com/none"}
	if err := env.Client.Create(t.Context(), slow); err != nil {
		t.Fatal(err)
	}
	h.start(-1)
	of := func(class, revision string) func(*platformv1.WorkloadSet) {
		return func(s *platformv1.WorkloadSet) {
			logs := platformv1.SetVolume{Name: podtemplate.LogsVolume,
				Storage: platformv1.Storage{Size: resource.MustParse("1Gi"), StorageClassName: &class}}
			s.Spec.Volumes, s.Spec.Revision = append(s.Spec.Volumes[:1:1], logs), revision
		}
	}
	set := h.create(1, of("standard", "r1"))
	testkit.WaitForReady(h, env.Client, set)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Volumes, s.Spec.Revision = s.Spec.Volumes[:1], "r2" })
	testkit.WaitForReady(h, env.Client, set)
	before := h.pods()
	h.change(set, of(slow.Name, "r1"))
	name := platformv1.ClaimNameFor(podtemplate.LogsVolume, platformv1.PodNameFor(setName, 0))
	h.says(set, platformv1.ReasonVolumeClassRefused, fmt.Sprintf(`claim %s is of StorageClass "standard" and cannot be `+
		`of %q: take logs.volume out, and set it again with storageClassName "standard", or delete the claims of the logs`,
		name, slow.Name))
	h.made(before, "0")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Volumes, s.Spec.Revision = s.Spec.Volumes[:1], "r2" })
	testkit.WaitForReady(h, env.Client, set)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}}
	if err := env.Client.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Patch(t.Context(), claim,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) !=
		nil {
		t.Fatal(err)
	}
	testkit.WaitGone(h, env.Client, claim)
	h.change(set, of(slow.Name, "r1"))
	testkit.WaitForReady(h, env.Client, set)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil ||
		*claim.Spec.StorageClassName != slow.Name {
		t.Errorf("the claim is of %v: %v", claim.Spec.StorageClassName, err)
	}
}

// Nobody keeps the claim of a pod that has no node yet: one that is deleted then is made anew.
func TestClaimOfAPodThatWaitsForANodeIsMadeAnew(t *testing.T) {
	h := newHarness(t)
	h.node.set(func() { h.node.full = true })
	h.start(-1)
	h.create(1, func(*platformv1.WorkloadSet) {})
	testkit.Eventually(h, "the pod waits for a node", func(ctx context.Context) error {
		return env.Client.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: platformv1.PodNameFor(setName, 0)},
			&corev1.Pod{})
	})
	before := h.claim(0)
	if err := env.Client.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(h, "there is another claim", func(ctx context.Context) error {
		claim := &corev1.PersistentVolumeClaim{}
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(before), claim); err != nil {
			return err
		}
		if claim.UID == before.UID {
			return fmt.Errorf("it is the one before")
		}
		return nil
	})
}

// behind is a cache that has heard of nothing yet.
type behind struct{ client.Client }

func (behind) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// A set that is deleted the moment its pods and volumes are made leaves none behind: the cache may not have them yet.
func TestNothingOutlivesASetThatIsDeletedAtOnce(t *testing.T) {
	h := newHarness(t)
	f, done := h.start(-1)
	set := h.create(1, func(s *platformv1.WorkloadSet) { s.Spec.DeletionPolicy = platformv1.DeletionPolicyDelete })
	testkit.WaitForReady(h, env.Client, set)
	f.kill()
	<-done
	before := h.claim(0)
	cache := behind{env.Client}
	c := newController(Deps{}, access{client: cache, live: env.Client})
	testkit.Eventually(h, "the set lets go", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if o := c.delete(ctx, set); o.Err() != nil || controllerutil.ContainsFinalizer(set, platformv1.VolumesFinalizer) {
			return fmt.Errorf("it says %+v", o)
		}
		return nil
	})
	claim := &corev1.PersistentVolumeClaim{}
	// The finalizer of volumes in use is for a controller that is not here.
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(before), claim); err == nil &&
		claim.UID == before.UID && claim.DeletionTimestamp == nil {
		t.Error("the volume is left")
	}
}

// A set that is deleted before it carries the finalizer, with a controller in the middle of its first reconcile, gets
// no volume: nobody would come back for it.
func TestNothingIsMadeForASetThatIsGone(t *testing.T) {
	h := newHarness(t)
	set := h.create(1, func(s *platformv1.WorkloadSet) { s.Spec.DeletionPolicy = platformv1.DeletionPolicyDelete })
	c := newController(Deps{Now: time.Now, Authority: authority()}, access{client: env.Client, live: env.Client})
	st, err := c.observe(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	steps := c.primary.Plan(set, st.Draft)
	if len(steps) == 0 {
		t.Fatal("there is nothing to do for the new set")
	}
	if err := env.Client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if o := c.act(t.Context(), set, st, steps); o.Err() != nil {
		t.Errorf("it says %+v", o)
	}
	var claims corev1.PersistentVolumeClaimList
	if err := env.Client.List(t.Context(), &claims, client.InNamespace(h.namespace)); err != nil ||
		len(claims.Items) != 0 {
		t.Errorf("%d volumes were made: %v", len(claims.Items), err)
	}
}
