// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defaultClass returns the cluster's default StorageClass.
func (s *space) defaultClass() *storagev1.StorageClass {
	s.Helper()
	var classes storagev1.StorageClassList
	if err := world.client.List(s.ctx, &classes); err != nil {
		s.Fatal(err)
	}
	for _, class := range classes.Items {
		if class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return &class
		}
	}
	s.Fatal("the cluster has no default StorageClass: the tests need one")
	return nil
}

// copyClass creates a StorageClass that works as the default one does, under another name and with a change.
// It is deleted at the end of the test.
func (s *space) copyClass(name string, change func(*storagev1.StorageClass)) {
	s.Helper()
	original := s.defaultClass()
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name},
		Provisioner: original.Provisioner, Parameters: original.Parameters, ReclaimPolicy: original.ReclaimPolicy,
		MountOptions: original.MountOptions, VolumeBindingMode: original.VolumeBindingMode,
		AllowVolumeExpansion: original.AllowVolumeExpansion,
	}
	change(class)
	if err := world.client.Create(s.ctx, class); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := world.client.Delete(context.Background(), class); client.IgnoreNotFound(err) != nil {
			s.Error(err)
		}
	})
}
