// SPDX-License-Identifier: Apache-2.0

package generations

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
)

// A term of before is never one again, whichever way pods go, and what is known of volumes is known again on the way
// back.
func TestRecordsOfGenerations(t *testing.T) {
	one := platformv1.SetMember{Name: "a-1", Identity: "one"}
	first := &platformv1.PrimaryRecord{Term: 5, Member: &one,
		List:    platformv1.MemberList{Version: 3, Members: []platformv1.SetMember{one}},
		Changes: []platformv1.PrimaryChange{{Term: 5}}}
	there := recordFor("g2", first, nil)
	if there.Term <= 5 || there.Member != nil || len(there.List.Members) != 0 || there.List.Version <= 3 ||
		there.Data != "g2" || len(there.Changes) != 1 || there.Since != nil {
		t.Errorf("on other volumes it is %+v", there)
	}
	there.Term, there.Member = 9, &platformv1.SetMember{Name: "a-0", Identity: "two"}
	back := recordFor("", there, first)
	if back.Term <= 9 || back.Member == nil || *back.Member != one || len(back.List.Members) != 1 || back.Data != "" {
		t.Errorf("on the way back it is %+v", back)
	}
	if again := recordFor("g3", there, formerOf([]platformv1.PrimaryRecord{*first}, "g3")); again.Term <= 9 ||
		again.Member != nil || again.Data != "g3" {
		t.Errorf("on volumes that nobody knows it is %+v", again)
	}
}

// onVolumes is a set of two pods that asks for a generation of volumes, while its record is of those that it was made
// with.
func onVolumes(generation string) (*platformv1.WorkloadSet, *facts.Facts) {
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a",
		Labels: map[string]string{platformv1.ApplicationUIDLabel: "uid"}},
		Spec: platformv1.WorkloadSetSpec{Replicas: 2, Data: &platformv1.SetData{Generation: generation},
			Volumes: []platformv1.SetVolume{{Name: "data"}}}}
	f := &facts.Facts{Claims: map[string]*corev1.PersistentVolumeClaim{},
		Primary: &platformv1.PrimaryRecord{Term: 3, Member: &platformv1.SetMember{Name: "a-1", Identity: "one"}}}
	f.Moves = f.Primary.Data != generation
	return set, f
}

// has gives a pod of a set its volume of the generation that the spec asks for, with the mark of a Backup or without.
func has(f *facts.Facts, set *platformv1.WorkloadSet, ordinal int32, mark string) {
	claim := accept.Claim(set, ordinal, set.Spec.Volumes[0])
	if mark != "" {
		claim.Annotations[platformv1.RestoredAnnotation] = mark
	}
	f.Claims[claim.Name] = claim
}

// Pods leave their volumes only for those of which it is known who has the data.
func TestPodsGoOnlyWhereTheDataIs(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*platformv1.WorkloadSet, *facts.Facts)
		says   string
	}{
		"none":   {change: func(*platformv1.WorkloadSet, *facts.Facts) {}, says: "no volumes of that generation for pod a-0"},
		"filled": {change: func(s *platformv1.WorkloadSet, f *facts.Facts) { has(f, s, 0, "backup") }},
		"not filled": {change: func(s *platformv1.WorkloadSet, f *facts.Facts) { has(f, s, 0, "") },
			says: "it is no longer known which of the pods"},
		"in use before": {change: func(s *platformv1.WorkloadSet, f *facts.Facts) {
			has(f, s, 0, "backup")
			has(f, s, 1, "")
		},
			says: "it is no longer known which of the pods"},
		"another is first": {change: func(s *platformv1.WorkloadSet, f *facts.Facts) {
			has(f, s, 0, "backup")
			s.Spec.ExcludedOrdinals = []int32{0}
		}, says: "no volumes of that generation for pod a-1"},
		"known": {change: func(s *platformv1.WorkloadSet, f *facts.Facts) {
			has(f, s, 0, "")
			has(f, s, 1, "")
			s.Status.FormerPrimaries = []platformv1.PrimaryRecord{{Data: "g2", Member: &platformv1.SetMember{Name: "a-1"}}}
		}},
		"known, and lost": {change: func(s *platformv1.WorkloadSet, f *facts.Facts) {
			has(f, s, 0, "backup")
			s.Status.FormerPrimaries = []platformv1.PrimaryRecord{{Data: "g2", Member: &platformv1.SetMember{Name: "a-1"}}}
		}, says: "no volumes of that generation for pod a-1"},
		// What its volume has was acknowledged, and no other pod may have all of it.
		"known, and not wanted": {change: func(s *platformv1.WorkloadSet, f *facts.Facts) {
			has(f, s, 0, "backup")
			has(f, s, 1, "")
			s.Status.FormerPrimaries = []platformv1.PrimaryRecord{{Data: "g2", Member: &platformv1.SetMember{Name: "a-1"}}}
			s.Spec.Replicas = 1
		}, says: "scale back so that pod a-1 is wanted"},
	} {
		t.Run(name, func(t *testing.T) {
			set, f := onVolumes("g2")
			tc.change(set, f)
			if why := invalidGeneration(set, f); tc.says == "" && why != "" || !strings.Contains(why, tc.says) {
				t.Errorf("it says %q, want %q", why, tc.says)
			}
		})
	}
}

// Where pods have gone to other volumes, none begins on empty ones.
func TestNoPodBeginsOnEmptyVolumes(t *testing.T) {
	set, f := onVolumes("g2")
	f.Primary, f.Moves = recordFor("g2", f.Primary, nil), false
	if unfilled(set, f) == nil {
		t.Error("the volume of the first pod is gone")
	}
	has(f, set, 0, "")
	if unfilled(set, f) == nil {
		t.Error("the volume of the first pod is another one")
	}
	has(f, set, 0, "backup")
	if o := unfilled(set, f); o != nil {
		t.Errorf("it says %s", o.Message())
	}
	set.Spec.ExcludedOrdinals = []int32{0}
	if unfilled(set, f) == nil {
		t.Error("another pod is the first")
	}
	f.Primary.Member = &platformv1.SetMember{Name: "a-0", Identity: "two"}
	if o := unfilled(set, f); o != nil {
		t.Errorf("the primary is known, and it says %s", o.Message())
	}
}

// The records of all volumes that are there are kept, and no others.
func TestRecordsAreKeptWithTheirVolumes(t *testing.T) {
	set, f := onVolumes("g2")
	has(f, set, 0, "backup")
	set.Spec.Data.Generation = ""
	has(f, set, 0, "")
	replaced := &platformv1.PrimaryRecord{Term: 9, Data: "g3", Changes: []platformv1.PrimaryChange{{Term: 9}}}
	kept := formerPrimaries([]platformv1.PrimaryRecord{{Term: 1}, {Term: 2, Data: "g1"}, {Term: 3, Data: "g2"}}, replaced,
		&platformv1.PrimaryRecord{Data: "g2"}, f.Claims)
	if len(kept) != 2 || kept[0].Term != 1 || kept[1].Data != "g3" || kept[1].Changes != nil {
		t.Errorf("it keeps %+v", kept)
	}
}

// What is prepared is nobody's only while nothing names it.
func TestPreparedVolumesThatAreNamed(t *testing.T) {
	set, f := onVolumes("g2")
	has(f, set, 0, "")
	claim := f.Claims[set.Spec.ClaimNameFor("data", set.FirstPod())]
	claim.Annotations[platformv1.PreparedAnnotation] = "gone"
	if left := prepared(set, f); len(left) != 0 {
		t.Errorf("the spec names them, and %v are left", left)
	}
	// The pods stay where they are, and the spec still names them.
	f.Asked, set.Spec.Data = "g2", nil
	if left := prepared(set, f); len(left) != 0 {
		t.Errorf("the spec asks for them, and %v are left", left)
	}
	f.Asked = ""
	if left := prepared(set, f); len(left["gone"]) != 1 {
		t.Errorf("%v are left", left)
	}
	set.Status.FormerPrimaries = []platformv1.PrimaryRecord{{Data: "g2"}}
	if left := prepared(set, f); len(left) != 0 {
		t.Errorf("pods had them, and %v are left", left)
	}
	set.Status.FormerPrimaries, claim.Annotations[platformv1.PreparedAnnotation] = nil, ""
	if left := prepared(set, f); len(left) != 0 {
		t.Errorf("nobody prepares them, and %v are left", left)
	}
}
