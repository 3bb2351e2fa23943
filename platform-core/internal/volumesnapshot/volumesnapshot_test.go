// SPDX-License-Identifier: Apache-2.0

package volumesnapshot

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func classOf(name, driver, isDefault string) unstructured.Unstructured {
	class := unstructured.Unstructured{Object: map[string]any{"driver": driver}}
	class.SetName(name)
	class.SetAnnotations(map[string]string{DefaultAnnotation: isDefault})
	return class
}

func TestChoose(t *testing.T) {
	other := classOf("other", "other.csi", "true")
	for name, tc := range map[string]struct {
		classes    []unstructured.Unstructured
		class, why string
	}{
		"none at all": {nil, "", `there is no VolumeSnapshotClass of its CSI driver "disk.csi"`},
		"none of the driver": {[]unstructured.Unstructured{other}, "",
			`there is no VolumeSnapshotClass of its CSI driver "disk.csi"`},
		"the only one": {[]unstructured.Unstructured{other, classOf("a", "disk.csi", "")}, "a", ""},
		"the default": {[]unstructured.Unstructured{classOf("a", "disk.csi", ""), classOf("b", "disk.csi", "true")},
			"b", ""},
		"nobody says which": {[]unstructured.Unstructured{classOf("b", "disk.csi", "false"), classOf("a", "disk.csi", "")},
			"", "VolumeSnapshotClasses a, b, and none is the default"},
	} {
		if class, why := choose(tc.classes, "disk.csi"); class != tc.class || (why == "") != (tc.why == "") ||
			!strings.Contains(why, tc.why) {
			t.Errorf("%s: class %q, %q", name, class, why)
		}
	}
}

func TestLatest(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "data-x-0", UID: "0123456789",
			Labels:      map[string]string{"l": "v"},
			Annotations: map[string]string{platformv1.DataAnnotation: "redis/7.0", "other": "x"}}}
	first := Of(claim, Maker{"disk.csi", "fast"})
	again := claim.DeepCopy()
	again.UID = "abcdefghij"
	second := Of(again, Maker{"disk.csi", "fast"})
	begin := time.Now()
	first.SetCreationTimestamp(metav1.NewTime(begin))
	second.SetCreationTimestamp(metav1.NewTime(begin.Add(time.Minute)))
	if first.GetName() != "data-x-0-01234567" || first.GetName() == second.GetName() || !first.IsOf(claim) ||
		second.IsOf(claim) {
		t.Errorf("they are called %s and %s", first.GetName(), second.GetName())
	}
	nobodys := Snapshot{second.DeepCopy()}
	nobodys.SetAnnotations(nil)
	for _, all := range [][]Snapshot{{first, second, nobodys}, {nobodys, second, first}} {
		if latest := Latest(all); len(latest) != 1 || latest["data-x-0"].GetName() != second.GetName() {
			t.Errorf("the latest are %v", latest)
		}
	}
	restored := claim.DeepCopy()
	restored.Name, restored.Labels = "data-x-0-0a1b2c3d", map[string]string{platformv1.GenerationLabel: "0a1b2c3d"}
	third := Of(restored, Maker{"disk.csi", "fast"})
	if latest := Latest([]Snapshot{third}); latest["data-x-0"].GetName() != third.GetName() {
		t.Errorf("of the volumes that a restore gave there are %v", latest)
	}
	if generations := Generations([]Snapshot{third, first, third}); !slices.Equal(generations, []string{"", "0a1b2c3d"}) {
		t.Errorf("they are of the generations %q", generations)
	}
	if labels, notes := first.GetLabels(), first.GetAnnotations(); labels["l"] != "v" ||
		notes[platformv1.DataAnnotation] != "redis/7.0" || notes["other"] != "" || first.Driver() != "disk.csi" {
		t.Errorf("it says %v, %v", labels, notes)
	}
}

// A definition that was taken away while an operator ran is told from an object that is not there.
func TestIsAbsent(t *testing.T) {
	resource := schema.GroupResource{Group: Group, Resource: "volumesnapshots"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"unknown to discovery": {&meta.NoKindMatchError{GroupKind: Kind.GroupKind()}, true},
		"no such path": {apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", resource, "a",
			"404 page not found", 0, true), true},
		"no such object": {apierrors.NewNotFound(resource, "a"), false},
		"nothing":        {nil, false},
	} {
		if got := IsAbsent(tc.err); got != tc.want {
			t.Errorf("%s: absent is %t", name, got)
		}
	}
}

func TestStatus(t *testing.T) {
	made := Snapshot{&unstructured.Unstructured{Object: map[string]any{}}}
	if size := made.RestoreSize(); made.IsReady() || made.Error() != "" || !size.IsZero() {
		t.Error("one without a status says something")
	}
	made.Object["status"] = map[string]any{"readyToUse": true, "restoreSize": "2Gi",
		"error": map[string]any{"message": "no room"}}
	if size := made.RestoreSize(); !made.IsReady() || made.Error() != "no room" || size.String() != "2Gi" {
		t.Errorf("it says %v", made.Object)
	}
	made.Object["status"] = map[string]any{"error": map[string]any{}}
	if made.Error() == "" {
		t.Error("an error without a message is none")
	}
}

// What has the data of a Backup is none of those that an Application left: nobody finds it by that.
func TestSnapshotOfABackup(t *testing.T) {
	b := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "nightly", UID: "0123456789"}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "data-x-0", UID: "u",
		Labels:      map[string]string{platformv1.ApplicationUIDLabel: "app", platformv1.ApplicationLabel: "x"},
		Annotations: map[string]string{platformv1.DataAnnotation: "redis/7.0"}}}
	record := &platformv1.VolumeSnapshotRecord{Name: platformv1.BackupSnapshotNameFor(b, "data"), Volume: "data",
		Claim: claim.Name}
	s := For(b, record, claim, Maker{Driver: "disk.csi", Class: "fast"})
	if s.GetName() != "nightly-01234567-data" || !s.HasDataOf(b) || !s.IsOf(claim) || s.Class() != "fast" ||
		s.Driver() != "disk.csi" || s.GetAnnotations()[platformv1.DataAnnotation] != "redis/7.0" {
		t.Errorf("it is %v", s.Object)
	}
	if labels := s.GetLabels(); labels[platformv1.ApplicationUIDLabel] != "" ||
		labels[platformv1.ApplicationLabel] != "x" || claim.Labels[platformv1.ApplicationUIDLabel] != "app" {
		t.Errorf("its labels are %v, and those of the claim %v", labels, claim.Labels)
	}
	if s.HasDataOf(&platformv1.Backup{ObjectMeta: metav1.ObjectMeta{UID: "another"}}) || s.Taken() != nil {
		t.Errorf("it is taken for another's, or for one of %v", s.Taken())
	}
	s.Object["status"] = map[string]any{"creationTime": "2026-02-03T05:00:00Z"}
	if at := s.Taken(); at == nil || !at.Equal(&metav1.Time{Time: time.Date(2026, 2, 3, 5, 0, 0, 0, time.UTC)}) {
		t.Errorf("it is of %v", at)
	}
	b.Name = strings.Repeat("a.", 120) + "z"
	if name := platformv1.BackupSnapshotNameFor(b, "data"); len(validation.IsDNS1123Subdomain(name)) > 0 {
		t.Errorf("one of a long name is called %s", name)
	}
}
