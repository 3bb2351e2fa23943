// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

const (
	// backupBucket is where backups are kept, and backupPrefix in which folder.
	backupBucket = "backups"
	backupPrefix = "kept"
)

// TestBackupToObjectStorage keeps a backup in a storage of the suite's own that speaks TLS, as a user who has that bucket and nothing else, and reads it with
// nothing but an S3 client, SHA-256 and zstd.
func TestBackupToObjectStorage(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "backups3")
	s.storageOperatorServes()
	issuer := s.clusterIssuer()
	o := s.objectStorage("store", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: backupBucket}}
		spec.Users = []storagev1.ObjectStorageUser{s.backupUser("keeper", storagev1.GrantReadWrite), s.backupUser("visitor", storagev1.GrantRead)}
	})
	i := s.redis("cache", safe())
	i.ready()
	i.must("SET", "known", "known")
	t.Logf("the storage is ready after %s", o.ready())

	o.repository("cloud", "keeper")
	s.repositorySays("cloud", metav1.ConditionTrue)
	o.repository("closed", "visitor")
	if state := s.repositorySays("closed", metav1.ConditionFalse); state.Reason != mover.ReasonRefused {
		t.Errorf("of one who may only read it says %+v", state)
	}

	s.create(backupOf("first", "cloud", i.reference()))
	b := i.whole("first")
	keeper := o.as(o.pod("main", 0), "keeper", "key-of-the-keeper")
	o.does("the backup is as its manifest says", func() error { return readsBack(o.ctx, keeper, b) })
	i.delete(b)
	o.eventually(readyIn, "the Backup is gone, and what was kept", func() error {
		if err := gone(s.get(b.Name, &platformv1.Backup{})); err != nil {
			return err
		}
		return holdsNothing(o.ctx, keeper, path.Join(backupPrefix, b.Status.Key)+"/")
	})
}

// backupUser is one that may do this with the bucket of backups, and nothing else. The Secret of the same name has the keys, as movers take them.
func (s *space) backupUser(name string, access storagev1.GrantAccess) storagev1.ObjectStorageUser {
	s.Helper()
	s.create(&corev1.Secret{ObjectMeta: named(name), StringData: map[string]string{"accessKey": name, "secretKey": "key-of-the-" + name}})
	return storagev1.ObjectStorageUser{Name: name, SecretKeyFrom: platformv1.SecretKeyReference{Name: name, Key: "secretKey"},
		Grants: []storagev1.ObjectStorageGrant{{Bucket: backupBucket, Access: access}}}
}

// repository makes a BackupRepository of the bucket, with what the storage's own Secret says of it and with the keys of a user.
func (o *objectStorage) repository(name, user string) {
	o.Helper()
	o.create(&platformv1.BackupRepository{ObjectMeta: named(name), Spec: platformv1.BackupRepositorySpec{S3: &platformv1.S3Repository{
		Endpoint: o.binding()["endpoint"], Bucket: backupBucket, Prefix: backupPrefix,
		CredentialsSecretRef: platformv1.SecretReference{Name: user}, CASecretRef: &platformv1.AuthorityReference{Name: o.object().Status.BindingName},
	}}})
}

// readsBack says what is wrong with a Backup in the bucket; nil where it is whole.
func readsBack(ctx context.Context, s3 *minio.Client, b *platformv1.Backup) error {
	folder := path.Join(backupPrefix, b.Status.Key)
	text, err := getObject(ctx, s3, backupBucket, path.Join(folder, mover.ManifestName))
	if err != nil {
		return err
	}
	if got := "sha256:" + digestOf(text); got != b.Status.Digest {
		return fmt.Errorf("the manifest has the digest %s, and the Backup says %s", got, b.Status.Digest)
	}
	manifest := mover.Manifest{}
	if err := json.Unmarshal([]byte(text), &manifest); err != nil {
		return err
	}
	var kept strings.Builder
	for _, part := range manifest.Parts {
		data, err := getObject(ctx, s3, backupBucket, path.Join(folder, part.Name))
		if err != nil {
			return err
		}
		if int64(len(data)) != part.Size || digestOf(data) != part.SHA256 {
			return fmt.Errorf("%s has %d bytes of the hash %s, and the manifest says %+v", part.Name, len(data), digestOf(data), part)
		}
		kept.WriteString(data)
	}
	reader, err := zstd.NewReader(strings.NewReader(kept.String()))
	if err != nil {
		return err
	}
	defer reader.Close()
	raw, err := io.ReadAll(reader)
	if err != nil {
		return err
	}
	if int64(len(raw)) != b.Status.RawSize || digestOf(string(raw)) != manifest.RawSHA256 || !bytes.Contains(raw, []byte("known")) {
		return fmt.Errorf("there are %d bytes of the hash %s, and the manifest says %+v", len(raw), digestOf(string(raw)), manifest)
	}
	return nil
}

// holdsNothing says what there is below a folder of the bucket.
func holdsNothing(ctx context.Context, s3 *minio.Client, folder string) error {
	// What lists goes on until it is told that nobody reads on.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range s3.ListObjects(ctx, backupBucket, minio.ListObjectsOptions{Prefix: folder, Recursive: true}) {
		if object.Err != nil {
			return object.Err
		}
		return fmt.Errorf("there is %s", object.Key)
	}
	return nil
}

// digestOf is the SHA-256 of a text in hex.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
