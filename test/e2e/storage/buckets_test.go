// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestBackupOfBuckets backs up an ObjectStorage into another one, reads what changed alone the second time, deletes the
// first Backup, and has another ObjectStorage begin with what the second one has; a policy finds it as well.
func TestBackupOfBuckets(t *testing.T) {
	s := framework.NewNamespace(t, "buckets")
	s.EnsureStorageOperator()
	issuer := s.CreateClusterIssuer()
	s.CreateObjectStorageRepositoryWithIssuer(issuer, "store")
	media := s.CreateObjectStorage("media", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: "pictures", Versioning: "Enabled"},
			{Name: "plain"}}
	})
	media.WaitReady()
	root := media.RootClient(media.Pod("main", 0))
	for i := range 20 {
		media.Put(root, "pictures", fmt.Sprint("picture-", i), strings.Repeat(fmt.Sprint(i), 1000))
	}
	if _, err := root.PutObject(s.Ctx, "plain", "told", strings.NewReader("told"), 4,
		minio.PutObjectOptions{ContentType: "text/plain", UserMetadata: map[string]string{"Owner": "shop"},
			UserTags: map[string]string{"kind": "x"}}); err != nil {
		t.Fatal(err)
	}
	s.Create(framework.NewBackupOperation("first", "store", reference(media)))
	read(media, "first", "21", "21")
	media.Put(root, "pictures", "picture-3", "another one")
	media.Put(root, "pictures", "new", "a new one")
	s.Create(framework.NewBackupOperation("second", "store", reference(media)))
	second := read(media, "second", "2", "22")
	if second.Status.Facts["base"] == "" {
		t.Errorf("its facts are %v", second.Status.Facts)
	}
	full := framework.NewBackupOperation("full", "store", reference(media))
	full.Spec.Parameters["method"] = "objects-full"
	s.Create(full)
	read(media, "full", "22", "22")
	s.Delete(&platformv1.Backup{ObjectMeta: framework.ObjectMeta("first-backup")})

	t.Log("a drill reads all of it")
	s.Create(framework.NewDrillOperation("drill", reference(media)))
	s.WaitForOperation("drill")
	s.ExpectVerified("full-backup", "drill", platformv1.VerificationPassed, "found the data good")
	verify := &platformv1.Operation{}
	s.MustGet("drill-verify", verify)
	if got := verify.Status.Steps[0].Outputs["objects"]; got != "22" {
		t.Errorf("it has read %q objects: %+v", got, verify.Status)
	}
	s.ExpectNoDrillLeftovers()

	t.Log("another one begins with the second")
	copied := s.CreateObjectStorage("copied", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: "pictures", Versioning: "Enabled"}}
		spec.RestoreFrom = &platformv1.RestoreFrom{Backup: second.Name}
	})
	copied.WaitReady()
	there := copied.RootClient(copied.Pod("main", 0))
	copied.WaitForObject(there, "pictures", "picture-3", "another one")
	copied.WaitForObject(there, "pictures", "picture-4", strings.Repeat("4", 1000))
	copied.WaitForObject(there, "pictures", "new", "a new one")
	info, err := there.StatObject(s.Ctx, "plain", "told", minio.StatObjectOptions{})
	if err != nil || info.ContentType != "text/plain" || info.UserMetadata["Owner"] != "shop" || info.UserTagCount != 1 {
		t.Errorf("what is told of an object is %+v, %v", info, err)
	}
	s.Delete(copied.Object())

	t.Log("in place it is refused")
	s.Create(framework.NewRestoreOperation("back", second.Name, reference(media)))
	if op := s.WaitForOperationEnd("back", framework.ErrorTimeout); op.Status.Phase != platformv1.OperationFailed ||
		!strings.Contains(op.Status.Error, "make another one with restoreFrom") {
		t.Errorf("a restore in place is %s: %s", op.Status.Phase, op.Status.Error)
	}

	t.Log("a policy has it backed up")
	policy := policy(s, "store", "ObjectStorage")
	s.Eventually(aFewMinutes, "the policy has made a Backup", func() error {
		whole, err := ofPolicy(s, policy.Name)
		if err == nil && len(whole) == 0 {
			err = fmt.Errorf("there is none")
		}
		return err
	})
}

// reference names it as the target of Operations.
func reference(o *framework.ObjectStorage) platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: storagev1.GroupVersion.String(), Kind: "ObjectStorage", Name: o.Name}
}

// read waits until a Backup is whole for which so many objects were read, of those that there are.
func read(o *framework.ObjectStorage, operation, objects, of string) *platformv1.Backup {
	o.Helper()
	b := o.WaitForStoredBackup(operation)
	if facts := b.Status.Facts; facts["objectsRead"] != objects || facts["objects"] != of {
		o.Errorf("for Backup %q %s of %s objects were read, want %s of %s", b.Name, facts["objectsRead"], facts["objects"],
			objects, of)
	}
	return b
}
