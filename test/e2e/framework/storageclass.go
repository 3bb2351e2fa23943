// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DefaultClass returns the cluster's default StorageClass.
func (s *Namespace) DefaultClass() *storagev1.StorageClass {
	s.Helper()
	var classes storagev1.StorageClassList
	if err := Cluster.Client.List(s.Ctx, &classes); err != nil {
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

// CopyClass creates a StorageClass that works as the default one does, under another name and with a change.
// It is deleted at the end of the test.
func (s *Namespace) CopyClass(name string, change func(*storagev1.StorageClass)) {
	s.Helper()
	original := s.DefaultClass()
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name},
		Provisioner: original.Provisioner, Parameters: original.Parameters, ReclaimPolicy: original.ReclaimPolicy,
		MountOptions: original.MountOptions, VolumeBindingMode: original.VolumeBindingMode,
		AllowVolumeExpansion: original.AllowVolumeExpansion,
	}
	change(class)
	if err := Cluster.Client.Create(s.Ctx, class); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := Cluster.Client.Delete(context.Background(), class); client.IgnoreNotFound(err) != nil {
			s.Error(err)
		}
	})
}

// FileSystem is the size of the file system that a path is on, in bytes, as a container sees it.
func (a *Application) FileSystem(pod, container, path string) (int64, error) {
	out, err := Run(a.Ctx, a.Namespace.Name, pod, container, "", "df", "-P", "-k", path)
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

// VolumeGrowthTimeout is how long an online expansion may take: a kubelet looks at a volume that is in use once in a
// minute or so.
const VolumeGrowthTimeout = 8 * time.Minute
