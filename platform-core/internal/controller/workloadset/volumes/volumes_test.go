// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func testSet() *platformv1.WorkloadSet {
	return &platformv1.WorkloadSet{
		ObjectMeta: metav1.ObjectMeta{Name: "redis-a-redis-main", Namespace: "ns",
			Labels: map[string]string{platformv1.ApplicationUIDLabel: "uid-1"}},
		Spec: platformv1.WorkloadSetSpec{
			Application: "redis-a", Component: "redis", Set: "main", Replicas: 1,
			Volumes: []platformv1.SetVolume{{Name: "data", Storage: platformv1.Storage{Size: resource.MustParse("2Gi")}}},
		},
	}
}

func testClaim(size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data-redis-a-redis-main-0",
			Labels: map[string]string{platformv1.ApplicationUIDLabel: "uid-1"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("fast"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}
}

func testClass(name string, expansion *bool, isDefault string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{accept.DefaultClassAnnotation: isDefault}},
		AllowVolumeExpansion: expansion,
	}
}

func TestCheckVolumes(t *testing.T) {
	tests := map[string]struct {
		claim   *corev1.PersistentVolumeClaim
		classes []*storagev1.StorageClass
		class   *string
		reason  string
		says    string
	}{
		"missing claim, default class": {classes: []*storagev1.StorageClass{testClass("any", nil, "true")}},
		"missing claim, no default class": {classes: []*storagev1.StorageClass{testClass("any", nil, "")},
			reason: platformv1.ReasonStorageClassNotFound, says: "no default StorageClass"},
		"missing claim, named class": {class: new("fast"),
			classes: []*storagev1.StorageClass{testClass("fast", nil, "")}},
		"missing claim, named class not here": {class: new("fast"),
			classes: []*storagev1.StorageClass{testClass("slow", nil, "true")}, reason: platformv1.ReasonStorageClassNotFound,
			says: `"fast"`},
		"claim as wanted": {claim: testClaim("2Gi")},
		"claim larger than wanted": {claim: testClaim("3Gi"), reason: platformv1.ReasonVolumeShrinkRefused,
			says: "at least 3Gi"},
		"claim smaller, class expands": {claim: testClaim("1Gi"),
			classes: []*storagev1.StorageClass{testClass("fast", new(true), "")}},
		"claim smaller, class does not": {claim: testClaim("1Gi"),
			classes: []*storagev1.StorageClass{testClass("fast", new(false), "")},
			reason:  platformv1.ReasonVolumeExpansionUnsupported, says: "set the size back to 1Gi"},
		"claim smaller, class is gone": {claim: testClaim("1Gi"), reason: platformv1.ReasonVolumeExpansionUnsupported,
			says: "does not allow expansion"},
		"claim of another class": {class: new("slow"), claim: testClaim("2Gi"),
			reason: platformv1.ReasonVolumeClassRefused,
			says: `is of StorageClass "fast" and cannot be of "slow": take storage out, and set it again with ` +
				`storageClassName "fast"`},
		"claim of the named class": {class: new("fast"), claim: testClaim("2Gi")},
		"claim of a class that nobody names": {claim: testClaim("2Gi"),
			classes: []*storagev1.StorageClass{testClass("slow", nil, "true")}},
		"claim of an earlier instance": {claim: func() *corev1.PersistentVolumeClaim {
			c := testClaim("2Gi")
			c.Labels[platformv1.ApplicationUIDLabel] = "uid-0"
			return c
		}(), reason: platformv1.ReasonRetainedVolumesExist, says: "left alone"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			set := testSet()
			set.Spec.Volumes[0].StorageClassName = test.class
			f := &facts.Facts{Claims: map[string]*corev1.PersistentVolumeClaim{}, Classes: map[string]*storagev1.StorageClass{}}
			if test.claim != nil {
				f.Claims[test.claim.Name] = test.claim
			}
			for _, class := range test.classes {
				f.Classes[class.Name] = class
			}
			refused := Plan(set, f).Refused
			if test.reason == "" {
				if refused != nil {
					t.Fatalf("refused: %s %s", refused.Reason(), refused.Message())
				}
				return
			}
			if refused == nil || refused.Kind() != outcome.KindStalled || refused.Reason() != test.reason ||
				!strings.Contains(refused.Message(), test.says) {
				t.Fatalf("got %+v, want reason %s saying %q", refused, test.reason, test.says)
			}
		})
	}
}
