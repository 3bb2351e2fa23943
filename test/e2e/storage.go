// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"

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

// fileSystem is the size of the file system that a path is on, in bytes, as a container sees it.
func (a *application) fileSystem(pod, container, path string) (int64, error) {
	out, err := run(a.ctx, a.space.name, pod, container, "", "df", "-P", "-k", path)
	if err != nil {
		return 0, err
	}
	lines := strings.Split(out, "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) < 2 {
		return 0, fmt.Errorf("df says %q", out)
	}
	kib, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("df says %q: %w", out, err)
	}
	return kib << 10, nil
}
