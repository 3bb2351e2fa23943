// SPDX-License-Identifier: Apache-2.0

package framework

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

	"github.com/klauspost/compress/zstd"
	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// CreateObjectStorageRepositoryWithIssuer makes the same with certificates of an issuer.
func (s *Namespace) CreateObjectStorageRepositoryWithIssuer(issuer *platformv1.IssuerReference,
	repository string) *ObjectStorage {
	s.Helper()
	o := s.CreateObjectStorage("cloud", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: BackupBucket}}
		spec.Users = []storagev1.ObjectStorageUser{s.BackupUser("keeper", "ReadWrite")}
	})
	o.WaitReady()
	o.CreateRepository(repository, "keeper")
	o.WaitForRepository(repository, "True")
	return o
}

const (
	// BackupBucket is where backups are kept, and BackupPrefix in which folder.
	BackupBucket = "backups"
	// BackupPrefix is the folder of the repository in BackupBucket.
	BackupPrefix = "kept"
)

// BackupUser is one that may do this with the bucket of backups, and nothing else. The Secret of the same name has the
// keys, as movers take them.
func (s *Namespace) BackupUser(name string, access storagev1.GrantAccess) storagev1.ObjectStorageUser {
	s.Helper()
	s.Create(&corev1.Secret{ObjectMeta: ObjectMeta(name),
		StringData: map[string]string{"accessKey": name, "secretKey": "key-of-the-" + name}})
	return storagev1.ObjectStorageUser{Name: name,
		SecretKeyFrom: platformv1.SecretKeyReference{Name: name, Key: "secretKey"},
		Grants:        []storagev1.ObjectStorageGrant{{Bucket: BackupBucket, Access: access}}}
}

// CreateRepository makes a BackupRepository of the bucket, with what the storage's own Secret says of it and with the
// keys of a user.
func (o *ObjectStorage) CreateRepository(name, user string) {
	o.Helper()
	o.Create(&platformv1.BackupRepository{ObjectMeta: ObjectMeta(name),
		Spec: platformv1.BackupRepositorySpec{S3: &platformv1.S3Repository{
			Endpoint: o.Binding()["endpoint"], Bucket: BackupBucket, Prefix: BackupPrefix,
			CredentialsSecretRef: platformv1.SecretReference{Name: user},
			CASecretRef:          &platformv1.AuthorityReference{Name: o.Object().Status.BindingName},
		}}})
}

// VerifyBackupInBucket says what is wrong with a Backup in the bucket; nil where it is whole.
func VerifyBackupInBucket(ctx context.Context, s3 *minio.Client, b *platformv1.Backup) error {
	folder := path.Join(BackupPrefix, b.Status.Key)
	text, err := GetObject(ctx, s3, BackupBucket, path.Join(folder, mover.ManifestName))
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
		data, err := GetObject(ctx, s3, BackupBucket, path.Join(folder, part.Name))
		if err != nil {
			return err
		}
		if int64(len(data)) != part.Size || digestOf(data) != part.SHA256 {
			return fmt.Errorf("%s has %d bytes of the hash %s, and the manifest says %+v", part.Name, len(data), digestOf(data),
				part)
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
	if int64(len(raw)) != b.Status.RawSize || digestOf(string(raw)) != manifest.RawSHA256 ||
		!bytes.Contains(raw, []byte("known")) {
		return fmt.Errorf("there are %d bytes of the hash %s, and the manifest says %+v", len(raw), digestOf(string(raw)),
			manifest)
	}
	return nil
}

// VerifyBucketEmpty says what there is below a folder of the bucket.
func VerifyBucketEmpty(ctx context.Context, s3 *minio.Client, folder string) error {
	// What lists goes on until it is told that nobody reads on.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range s3.ListObjects(ctx, BackupBucket, minio.ListObjectsOptions{Prefix: folder, Recursive: true}) {
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
