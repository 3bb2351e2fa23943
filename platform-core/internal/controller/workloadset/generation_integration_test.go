// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/volumes"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// other is the generation of volumes that tests go to.
const other = "g2"

// filled makes the volume of a pod of another generation, as one that has data.
func (h *harness) filled(set *platformv1.WorkloadSet, generation string, ordinal int32) {
	h.Helper()
	of := set.DeepCopy()
	of.Spec.Data = &platformv1.SetData{Generation: generation}
	claim := accept.Claim(of, ordinal, set.Spec.Volumes[0])
	claim.Annotations[platformv1.RestoredAnnotation] = "uid"
	if err := env.Client.Create(h.Context(), claim); err != nil {
		h.Fatal(err)
	}
}

// elsewhere has the members that come be on other volumes, and returns those that were.
func (m *crew) elsewhere(members map[string]*simulatedMember) map[string]*simulatedMember {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.of
	m.of = members
	return before
}

// point says which volumes the pods of a set have, and waits until they do.
func (h *harness) point(set *platformv1.WorkloadSet, data platformv1.SetData, until func() error) {
	h.Helper()
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Data = &data })
	testkit.WaitFor(h, env.Client, set, fmt.Sprintf("on volumes %+v", data), func() error {
		w, pods := set.Status.Primary, h.pods()
		if w == nil || w.Data != data.Generation || w.Member == nil || len(pods) != int(set.Spec.Replicas) {
			return fmt.Errorf("the record is %+v, and there are %d pods", w, len(pods))
		}
		for ordinal, pod := range pods {
			name := platformv1.ClaimNameIn(data.Generation, "data", setName+"-"+ordinal)
			for _, v := range pod.Spec.Volumes {
				if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != name {
					return fmt.Errorf("pod %s has %s", ordinal, v.PersistentVolumeClaim.ClaimName)
				}
			}
		}
		return until()
	})
}

// All pods end before one begins on other volumes; who writes there is found anew, and is known again on the way back.
func TestPodsGoToOtherVolumes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m, set := h.reigned(3)
	// On the way back it is not the first pod that has the data.
	h.must(m.change(setName+"-2", func(s *simulatedMember) { s.offset = 9 }))
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.breaks = true }))
	h.writes(m, set, "2", 2)
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.breaks = false }))
	testkit.WaitForReady(h, env.Client, set)
	was, before := set.Status.Primary.DeepCopy(), h.pods()

	h.filled(set, other, 0)
	old := m.elsewhere(map[string]*simulatedMember{})
	h.point(set, platformv1.SetData{Generation: other, Access: platformv1.DataClosed}, func() error {
		if w := set.Status.Primary; w.Member.Name != setName+"-0" || w.Term <= was.Term || w.Previous != nil {
			return fmt.Errorf("the record is %+v", w)
		}
		return nil
	})
	h.samePods(before, "0", "1", "2")
	h.says(set, platformv1.ReasonRestoring, "clients are not led to the primary")
	for name, pod := range h.pods() {
		if role := pod.Labels[platformv1.RoleLabel]; role == "primary" {
			t.Errorf("clients are led to pod %s", name)
		}
	}
	for ordinal := range int32(3) {
		name := platformv1.ClaimNameFor("data", platformv1.PodNameFor(setName, ordinal))
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: h.namespace, Name: name},
			&corev1.PersistentVolumeClaim{}); err != nil {
			t.Error(err)
		}
	}
	moved := set.Status.Primary.DeepCopy()

	m.elsewhere(old)
	h.point(set, platformv1.SetData{}, func() error {
		if w := set.Status.Primary; *w.Member != *was.Member || w.Term <= moved.Term {
			return fmt.Errorf("the record is %+v, and was %+v", w, was)
		}
		return nil
	})
	testkit.WaitForReady(h, env.Client, set)
	for ordinal, pod := range h.pods() {
		if writes := pod.Labels[platformv1.RoleLabel] == "primary"; writes != (ordinal == "2") {
			t.Errorf("pod %s is led to: %t", ordinal, writes)
		}
	}
}

// A pod that has no node yet gets no volume of those that the pods go to before they are there: it would be taken for
// one with data.
func TestPodsGoToOtherVolumesWhileOneHasNoNode(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := newCrew(h)
	h.node.set(func() { h.node.homeless = setName + "-2" })
	h.start(-1)
	set := h.create(2, withFailover)
	h.writes(m, set, "0", 1)
	testkit.WaitForReady(h, env.Client, set)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 3 })
	h.says(set, platformv1.ReasonPodUnschedulable, "no room")
	h.filled(set, other, 0)
	m.elsewhere(map[string]*simulatedMember{})
	h.point(set, platformv1.SetData{Generation: other, Access: platformv1.DataClosed}, func() error {
		if w := set.Status.Primary; w.Member.Name != setName+"-0" {
			return fmt.Errorf("the record is %+v", w)
		}
		return nil
	})
	h.says(set, platformv1.ReasonPodUnschedulable, "no room")
}

// led checks which pod clients are led to; empty for none.
func (h *harness) led(want string) {
	h.Helper()
	testkit.Eventually(h, "clients are led to "+want, func(context.Context) error {
		got := ""
		for ordinal, pod := range h.pods() {
			if pod.Labels[platformv1.RoleLabel] == "primary" {
				got += ordinal
			}
		}
		if got != want {
			return fmt.Errorf("they are led to %q", got)
		}
		return nil
	})
}

// Nobody is led to data that was not opened because the spec asks for volumes that are not there, and everybody to data
// that was.
func TestPodsThatStayAreServedAsBefore(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m, set := h.reigned(2)
	testkit.WaitForReady(h, env.Client, set)
	h.filled(set, other, 0)
	m.elsewhere(map[string]*simulatedMember{})
	closed := platformv1.SetData{Generation: other, Access: platformv1.DataClosed}
	h.point(set, closed, func() error { return nil })
	h.says(set, platformv1.ReasonRestoring, "clients are not led to the primary")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Data = &platformv1.SetData{Generation: "nowhere"} })
	h.says(set, platformv1.ReasonInvalidSpec, "there are no volumes of that")
	h.led("")
	h.point(set, platformv1.SetData{Generation: other}, func() error { return nil })
	h.led("0")
	closed.Generation = "nowhere"
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Data = &closed })
	h.says(set, platformv1.ReasonInvalidSpec, "there are no volumes of that")
	h.led("0")
}

// Volumes that are not there end no pod.
func TestPodsStayWithTheirVolumes(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set := h.create(2)
	testkit.WaitForReady(h, env.Client, set)
	before := h.pods()
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Data = &platformv1.SetData{Generation: "nowhere"} })
	h.says(set, platformv1.ReasonInvalidSpec, "there are no volumes of that")
	h.samePods(before)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Data = nil })
	testkit.WaitForReady(h, env.Client, set)
	h.samePods(before)
}

// Clients are led where they were when pods stay, also where they were not to be led to the others.
func TestPodsThatStayAreServed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	_, set := h.reigned(2)
	testkit.WaitForReady(h, env.Client, set)
	before := h.pods()
	h.change(set, func(s *platformv1.WorkloadSet) {
		s.Spec.Data = &platformv1.SetData{Generation: "nowhere", Access: platformv1.DataClosed}
	})
	h.says(set, platformv1.ReasonInvalidSpec, "there are no volumes of that")
	h.samePods(before)
	if role := h.pods()["0"].Labels[platformv1.RoleLabel]; role != "primary" {
		t.Errorf("the primary has the role %q", role)
	}
}

// Volumes that were prepared go with the Operation that prepared them, and those of one that is there stay.
func TestPreparedVolumesOfNobody(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set := h.create(1)
	testkit.WaitForReady(h, env.Client, set)
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "back",
		Labels: map[string]string{platformv1.ApplicationLabel: set.Spec.Application}},
		Spec: platformv1.OperationSpec{TemplateRef: "Restore",
			TargetRef: platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application",
				Name: set.Spec.Application}}}
	h.must(env.Client.Create(t.Context(), op))
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for generation, by := range map[string]string{"g2": string(op.UID), "g3": "gone", "g4": ""} {
		of := set.DeepCopy()
		of.Spec.Data = &platformv1.SetData{Generation: generation}
		claims[generation] = accept.Claim(of, 0, set.Spec.Volumes[0])
		claims[generation].Annotations[platformv1.PreparedAnnotation] = by
		h.must(env.Client.Create(t.Context(), claims[generation]))
	}
	goes := func(generation string) {
		t.Helper()
		testkit.Eventually(h, "the volume of "+generation+" goes", func(ctx context.Context) error {
			err := env.Client.Get(ctx, client.ObjectKeyFromObject(claims[generation]), claims[generation])
			if err == nil && claims[generation].DeletionTimestamp == nil {
				return fmt.Errorf("it is there")
			}
			return client.IgnoreNotFound(err)
		})
	}
	goes("g3")
	stays := func(generation string) {
		t.Helper()
		h.must(env.Client.Get(t.Context(), client.ObjectKeyFromObject(claims[generation]), claims[generation]))
		if claims[generation].DeletionTimestamp != nil {
			t.Errorf("the volume of %s goes", generation)
		}
	}
	stays("g2")
	stays("g4")
	h.must(env.Client.Delete(t.Context(), op))
	goes("g2")
	stays("g4")
}

// Who writes is looked after all the same while the spec asks for volumes that are not there.
func TestAnotherPrimaryWhilePodsStay(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m, set := h.reigned(3)
	testkit.WaitForReady(h, env.Client, set)
	before := h.pods()
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Data = &platformv1.SetData{Generation: "nowhere"} })
	h.says(set, platformv1.ReasonInvalidSpec, "there are no volumes of that")
	h.must(m.change(setName+"-2", func(s *simulatedMember) { s.offset = 9 }))
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.breaks = true }))
	h.writes(m, set, "2", 2)
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.breaks = false }))
	h.says(set, platformv1.ReasonInvalidSpec, "there are no volumes of that")
	if set.Spec.Generation() != "nowhere" || set.Status.Primary.Data != "" {
		t.Errorf("the spec has %+v, and the record is of %q", set.Spec.Data, set.Status.Primary.Data)
	}
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Data = nil })
	testkit.WaitForReady(h, env.Client, set)
	h.samePods(before)
}

// A set that is made anew goes on with the volumes that are there, and asks where they are of several generations.
func TestAnotherSetFindsTheVolumes(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	like := &platformv1.WorkloadSet{}
	set := h.create(1, func(s *platformv1.WorkloadSet) {
		like = s.DeepCopy()
		h.filled(s, other, 0)
		h.filled(s, "g3", 0)
	})
	h.says(set, platformv1.ReasonRetainedVolumesExist, "it is not recorded which have the data")
	if n := len(h.pods()); n != 0 {
		t.Errorf("there are %d pods", n)
	}
	like.Spec.Data = &platformv1.SetData{Generation: "g3"}
	if err := env.Client.Delete(t.Context(), accept.Claim(like, 0, like.Spec.Volumes[0])); err != nil {
		t.Fatal(err)
	}
	h.touch(set)
	testkit.WaitForReady(h, env.Client, set)
	if set.Spec.Generation() != other {
		t.Errorf("it has the volumes of generation %q", set.Spec.Generation())
	}
	// What it goes by is not forgotten for empty volumes by an edit.
	before := h.pods()
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Data.Generation = "" })
	h.says(set, platformv1.ReasonInvalidSpec, "there are no volumes of that")
	h.samePods(before)
}

// Volumes of an earlier Application are in the way in every generation.
func TestVolumesOfAnotherAreLeftAlone(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set := h.create(1, func(s *platformv1.WorkloadSet) {
		theirs := s.DeepCopy()
		theirs.Labels[platformv1.ApplicationUIDLabel] = "another"
		h.filled(theirs, other, 0)
	})
	h.says(set, platformv1.ReasonRetainedVolumesExist, "set adoptVolumes to another")
	if n := len(h.pods()); n != 0 {
		t.Errorf("there are %d pods", n)
	}
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.AdoptVolumes = "another" })
	testkit.WaitForReady(h, env.Client, set)
	if set.Spec.Generation() != other {
		t.Errorf("it has the volumes of generation %q", set.Spec.Generation())
	}
}

// A part of a cluster's data that the cache does not show is not filled once more.
func TestAPartThatIsThereIsNotLost(t *testing.T) {
	h := newHarness(t)
	set := h.create(1)
	set.Spec.Restore = &platformv1.SetRestore{From: platformv1.ComponentRestore{Backup: "b", UID: "backup-uid"}, Part: "0"}
	set.Status.Restore = &platformv1.RestoreState{Attempt: 2, CompletionTime: &metav1.Time{Time: time.Unix(0, 0)}}
	claim := accept.Claim(set, 0, set.Spec.Volumes[0])
	claim.Annotations[platformv1.RestoredAnnotation] = "backup-uid"
	h.must(env.Client.Create(t.Context(), claim))
	f := &facts.Facts{Now: time.Unix(60, 0), Mode: rollout.Running}
	r := &volumes.Reconciler{Observer: facts.Observer{Cached: env.Client, Live: env.Client}, Client: env.Client}
	if _, o := r.Restore(t.Context(), set, f); o != nil || set.Status.Restore.Attempt != 2 || !set.Status.Restore.Done() {
		t.Errorf("it says %v, and begins %+v", o, set.Status.Restore)
	}
}
