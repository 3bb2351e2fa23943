// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestSmokeStorage uses the samples of the storage operator, restarts the server, and deletes them.
func TestSmokeStorage(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, framework.StorageOperator)
	all := s.ApplySamplesOf(framework.StorageOperator)
	all.Names("BackupPolicy")
	for _, name := range all.Names("ObjectStorage") {
		o := &framework.ObjectStorage{Namespace: s, Name: name, PortForwards: s.NewPortForwards()}
		bucket := o.Object().Spec.Buckets[0].Name
		root := o.RootClient(o.Pod("main", 0))
		o.Put(root, bucket, "greeting", "hello")
		o.WaitForObject(root, bucket, "greeting", "hello")
		s.RestartTarget(platformv1.TargetReference{
			APIVersion: storagev1.GroupVersion.String(), Kind: "ObjectStorage", Name: name,
		})
		o.WaitReady()
		o.WaitForObject(root, bucket, "greeting", "hello")
	}
	all.DeleteAll()
	s.UninstallOperator(framework.StorageOperator)
}
