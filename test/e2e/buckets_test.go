// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// TestBackupOfBuckets backs up an ObjectStorage into another one, reads what changed alone the second time, deletes the first Backup, and has another
// ObjectStorage begin with what the second one has; a policy finds it as well.
func TestBackupOfBuckets(t *testing.T) {
	s := newSpace(t, "buckets")
	s.storageOperatorServes()
	issuer := s.clusterIssuer()
	s.cloudOf(issuer, "store")
	media := s.objectStorage("media", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: "pictures", Versioning: storagev1.VersioningEnabled}, {Name: "plain"}}
	})
	media.ready()
	root := media.root(media.pod("main", 0))
	for i := range 20 {
		media.puts(root, "pictures", fmt.Sprint("picture-", i), strings.Repeat(fmt.Sprint(i), 1000))
	}
	if _, err := root.PutObject(s.ctx, "plain", "told", strings.NewReader("told"), 4, minio.PutObjectOptions{ContentType: "text/plain", UserMetadata: map[string]string{"Owner": "shop"},
		UserTags: map[string]string{"kind": "x"}}); err != nil {
		t.Fatal(err)
	}
	s.create(backupOf("first", "store", media.reference()))
	media.read("first", "21", "21")
	media.puts(root, "pictures", "picture-3", "another one")
	media.puts(root, "pictures", "new", "a new one")
	s.create(backupOf("second", "store", media.reference()))
	second := media.read("second", "2", "22")
	if second.Status.Facts["base"] == "" {
		t.Errorf("its facts are %v", second.Status.Facts)
	}
	full := backupOf("full", "store", media.reference())
	full.Spec.Parameters["method"] = "objects-full"
	s.create(full)
	media.read("full", "22", "22")
	s.delete(&platformv1.Backup{ObjectMeta: named("first-backup")})

	t.Log("a drill reads all of it")
	s.create(drillOf("drill", media.reference()))
	s.passes("drill")
	s.verified("full-backup", "drill", platformv1.VerificationPassed, "found the data good")
	verify := &platformv1.Operation{}
	s.mustGet("drill-verify", verify)
	if got := verify.Status.Steps[0].Outputs["objects"]; got != "22" {
		t.Errorf("it has read %q objects: %+v", got, verify.Status)
	}
	s.nothingOfDrills()

	t.Log("another one begins with the second")
	copied := s.objectStorage("copied", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: "pictures", Versioning: storagev1.VersioningEnabled}}
		spec.RestoreFrom = &platformv1.RestoreFrom{Backup: second.Name}
	})
	copied.ready()
	there := copied.root(copied.pod("main", 0))
	copied.wantObject(there, "pictures", "picture-3", "another one")
	copied.wantObject(there, "pictures", "picture-4", strings.Repeat("4", 1000))
	copied.wantObject(there, "pictures", "new", "a new one")
	info, err := there.StatObject(s.ctx, "plain", "told", minio.StatObjectOptions{})
	if err != nil || info.ContentType != "text/plain" || info.UserMetadata["Owner"] != "shop" || info.UserTagCount != 1 {
		t.Errorf("what is told of an object is %+v, %v", info, err)
	}
	s.delete(copied.object())

	t.Log("in place it is refused")
	s.create(restoreOf("back", second.Name, media.reference()))
	if op := s.finished("back", errorIn); op.Status.Phase != platformv1.OperationFailed || !strings.Contains(op.Status.Error, "make another one with restoreFrom") {
		t.Errorf("a restore in place is %s: %s", op.Status.Phase, op.Status.Error)
	}

	t.Log("a policy has it backed up")
	policy := s.policy("store", "ObjectStorage")
	s.eventually(aFewMinutes, "the policy has made a Backup", func() error {
		whole, err := s.ofPolicy(policy.Name)
		if err == nil && len(whole) == 0 {
			err = fmt.Errorf("there is none")
		}
		return err
	})
}

// reference names it as the target of Operations.
func (o *objectStorage) reference() platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: storagev1.GroupVersion.String(), Kind: "ObjectStorage", Name: o.name}
}

// read waits until a Backup is whole for which so many objects were read, of those that there are.
func (o *objectStorage) read(operation, objects, of string) *platformv1.Backup {
	o.Helper()
	b := o.whole(operation)
	if facts := b.Status.Facts; facts["objectsRead"] != objects || facts["objects"] != of {
		o.Errorf("for Backup %q %s of %s objects were read, want %s of %s", b.Name, facts["objectsRead"], facts["objects"], objects, of)
	}
	return b
}
