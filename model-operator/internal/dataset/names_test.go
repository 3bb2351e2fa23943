// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// A claim is of the class, the access mode and the size that the Dataset names, or the version.
func TestClaimHasTheStorageOfItsDataset(t *testing.T) {
	gibibyte := resource.MustParse("1Gi")
	for title, c := range map[string]struct {
		storage aiv1.DatasetStorage
		size    *resource.Quantity
		want    corev1.PersistentVolumeClaimSpec
	}{
		"defaults": {aiv1.DatasetStorage{Size: gibibyte}, nil,
			corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}},
		"a class": {aiv1.DatasetStorage{Size: gibibyte, StorageClassName: new("nfs"), AccessMode: "ReadWriteOnce"}, nil,
			corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: new("nfs")}},
		"many nodes": {aiv1.DatasetStorage{Size: gibibyte, StorageClassName: new("nfs"), AccessMode: "ReadWriteMany"}, nil,
			corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
				StorageClassName: new("nfs")}},
		"a size of its own": {aiv1.DatasetStorage{Size: resource.MustParse("5Gi")}, &gibibyte,
			corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}},
	} {
		v := web("1.0")
		v.Size = c.size
		p := newPlace(t, v)
		p.ds.Spec.Storage = c.storage
		c.want.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: gibibyte}
		claims := p.turn().claims
		if len(claims) != 1 || !reflect.DeepEqual(claims[0].Spec, c.want) {
			t.Errorf("%s: the claims are %+v, want %+v", title, claims, c.want)
		}
	}
}
