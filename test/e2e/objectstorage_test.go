// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// TestObjectStorage has one server that speaks TLS, with buckets and users inside, used by a real client.
func TestObjectStorage(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "objects")
	s.storageOperatorServes()
	issuer := s.clusterIssuer()
	s.secret("writer", "password", "key-of-the-writer")
	s.secret("reader", "password", "key-of-the-reader")
	o := s.objectStorage("media", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{
			{Name: "pictures", Versioning: storagev1.VersioningEnabled, Quota: "64Mi", DeletionPolicy: platformv1.EntityDelete,
				Lifecycle: []storagev1.ObjectStorageRule{{Name: "old", Prefix: "old/", ExpireDays: 30}}},
		}
		spec.Users = []storagev1.ObjectStorageUser{
			{Name: "writer", SecretKeyFrom: platformv1.SecretKeyReference{Name: "writer"}, Grants: []storagev1.ObjectStorageGrant{{Bucket: "pictures", Access: storagev1.GrantReadWrite}}},
			{Name: "reader", SecretKeyFrom: platformv1.SecretKeyReference{Name: "reader"}, Grants: []storagev1.ObjectStorageGrant{{Bucket: "pictures", Access: storagev1.GrantRead}}},
		}
	})
	t.Logf("ready after %s", o.ready())
	s.wantColumns(storagev1.GroupVersion.WithResource("objectstorages"), "media", "Backend", "Version", "Servers", "Phase", "Endpoint", "Age")
	bound := o.binding()
	if bound["type"] != "s3" || !strings.HasPrefix(bound["endpoint"], "https://") || bound["accessKey"] == "" || len(bound["secretKey"]) != 40 || bound["ca.crt"] == "" {
		t.Fatalf("the binding has the keys %v, and speaks of %q", keysOf(bound), bound["endpoint"])
	}
	server := o.pod("main", 0)
	writer, reader := o.as(server, "writer", "key-of-the-writer"), o.as(server, "reader", "key-of-the-reader")
	o.puts(writer, "pictures", "a", "first")
	o.wantObject(reader, "pictures", "a", "first")
	o.refuses(reader, "pictures", "b", "AccessDenied")

	t.Log("the pod goes, and its data is there")
	o.goes(server)
	o.ready()
	o.wantObject(reader, "pictures", "a", "first")
	o.puts(writer, "pictures", "a", "second")
	o.wantObject(reader, "pictures", "a", "second")

	t.Log("another key")
	o.changesKey()
	o.putsRight(server)
	o.keepsWhatIsNotEmpty(o.root(server))
}

// TestObjectStorageExternal has the buckets of a storage looked after that is only referenced: another ObjectStorage, that knows nothing of it.
func TestObjectStorageExternal(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "elsewhere")
	s.storageOperatorServes()
	issuer := s.clusterIssuer()
	there := s.objectStorage("there", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
	})
	there.ready()
	of, bound := there.object().Status.BindingName, there.binding()
	here := &objectStorage{space: s, name: "here", ways: there.ways}
	s.create(&storagev1.ObjectStorage{ObjectMeta: metav1.ObjectMeta{Name: here.name}, Spec: storagev1.ObjectStorageSpec{
		Backend: storagev1.BackendExternal,
		External: &storagev1.ObjectStorageExternal{
			Endpoint: bound["endpoint"], CredentialsSecretRef: platformv1.SecretReference{Name: of}, CASecretRef: &platformv1.AuthorityReference{Name: of},
		},
		Buckets: []storagev1.ObjectStorageBucket{{Name: "pictures", Versioning: storagev1.VersioningEnabled, Access: storagev1.AccessDownload, DeletionPolicy: platformv1.EntityDelete,
			Lifecycle: []storagev1.ObjectStorageRule{{Name: "old", Prefix: "old/", ExpireDays: 30}}}},
	}})
	t.Logf("ready after %s", here.ready())
	if got := here.binding(); got["endpoint"] != bound["endpoint"] || got["accessKey"] != bound["accessKey"] || got["secretKey"] != bound["secretKey"] || got["ca.crt"] != bound["ca.crt"] {
		t.Errorf("the binding has the keys %v, and speaks of %q", keysOf(got), got["endpoint"])
	}

	t.Log("what was asked for is there, and comes back when it goes")
	root := there.root(there.pod("main", 0))
	here.wantPictures(root)
	here.does("the bucket is closed", func() error { return root.SetBucketPolicy(s.ctx, "pictures", "") })
	here.does("its versions are suspended", func() error { return root.SuspendVersioning(s.ctx, "pictures") })
	here.change(func(spec *storagev1.ObjectStorageSpec) {
		spec.Buckets = append(spec.Buckets, storagev1.ObjectStorageBucket{Name: "music", DeletionPolicy: platformv1.EntityDelete})
	})
	here.wantPictures(root)

	t.Log("a bucket with an object stays")
	here.puts(root, "pictures", "a", "text")
	here.keepsWhatIsNotEmpty(root)
}

// wantPictures waits until the bucket is as it was asked for, as a client of the storage reads it.
func (o *objectStorage) wantPictures(s3 *minio.Client) {
	o.Helper()
	o.eventually(settleIn, "the bucket is as asked", func() error {
		versioning, err := s3.GetBucketVersioning(o.ctx, "pictures")
		if err != nil {
			return err
		}
		policy, err := s3.GetBucketPolicy(o.ctx, "pictures")
		if err != nil {
			return err
		}
		rules, err := s3.GetBucketLifecycle(o.ctx, "pictures")
		if err != nil {
			return err
		}
		if !versioning.Enabled() || !strings.Contains(policy, "s3:GetObject") || len(rules.Rules) != 1 || rules.Rules[0].RuleFilter.Prefix != "old/" || rules.Rules[0].Expiration.Days != 30 {
			return fmt.Errorf("it has %+v, the policy %q and the rules %+v", versioning, policy, rules.Rules)
		}
		return nil
	})
}

// changesKey has a user log in with another key once its Secret has it.
func (o *objectStorage) changesKey() {
	o.Helper()
	o.changesSecret("writer", "another-key-of-it")
	writer := o.as(o.pod("main", 0), "writer", "another-key-of-it")
	o.eventually(settleIn, "the user has the other key", func() error { return putObject(o.ctx, writer, "pictures", "c", "text") })
	o.refuses(o.as(o.pod("main", 0), "writer", "key-of-the-writer"), "pictures", "c", "SignatureDoesNotMatch")
}

// putsRight opens a bucket by hand to everybody, and has another one made, which brings the next look at once.
func (o *objectStorage) putsRight(pod string) {
	o.Helper()
	root := o.root(pod)
	const open = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::pictures/*"]}]}`
	o.does("the bucket is opened", func() error { return root.SetBucketPolicy(o.ctx, "pictures", open) })
	o.change(func(spec *storagev1.ObjectStorageSpec) {
		spec.Buckets = append(spec.Buckets, storagev1.ObjectStorageBucket{Name: "music", DeletionPolicy: platformv1.EntityDelete})
	})
	o.ready()
	o.eventually(settleIn, "the bucket is put right, and that is counted", func() error {
		policy, err := root.GetBucketPolicy(o.ctx, "pictures")
		if err != nil {
			return err
		}
		entity := o.inside("bucket", "pictures")
		if policy != "" || entity == nil || entity.Status.DriftRepairs != 1 {
			return fmt.Errorf("its policy is %q, and the Entity says %+v", policy, entity)
		}
		return nil
	})
}

// keepsWhatIsNotEmpty takes both buckets out of the spec: the empty one goes, the other one only when nothing is in it.
func (o *objectStorage) keepsWhatIsNotEmpty(root *minio.Client) {
	o.Helper()
	o.change(func(spec *storagev1.ObjectStorageSpec) { spec.Buckets = nil })
	o.eventually(settleIn, "the empty bucket goes, and the other one says why it does not", func() error {
		if there, err := root.BucketExists(o.ctx, "music"); err != nil || there {
			return fmt.Errorf("bucket music is there: %v, %v", there, err)
		}
		entity := o.inside("bucket", "pictures")
		if entity == nil {
			o.Fatal("the Entity of a bucket with objects is gone")
		}
		if ready := meta.FindStatusCondition(entity.Status.Conditions, platformv1.ReadyCondition); ready == nil || !strings.Contains(ready.Message, "it is not empty") {
			return fmt.Errorf("it says: %s", describe(entity.Status.Conditions))
		}
		return nil
	})
	o.does("the bucket is emptied", func() error { return empty(o.ctx, root, "pictures") })
	o.eventually(settleIn, "the bucket goes once it is empty", func() error {
		if there, err := root.BucketExists(o.ctx, "pictures"); err != nil || there || o.inside("bucket", "pictures") != nil {
			return fmt.Errorf("it is there: %v, %v", there, err)
		}
		return nil
	})
}

// empty removes all versions of all objects of a bucket.
func empty(ctx context.Context, s3 *minio.Client, bucket string) error {
	// What lists goes on until it is told that nobody reads on.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range s3.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		if object.Err != nil {
			return object.Err
		}
		if err := s3.RemoveObject(ctx, bucket, object.Key, minio.RemoveObjectOptions{VersionID: object.VersionID}); err != nil {
			return err
		}
	}
	return nil
}

// TestObjectStoragePools kills a server of a pool under load and adds a pool: no object is lost that was acknowledged.
func TestObjectStoragePools(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "pools")
	s.storageOperatorServes()
	o := s.objectStorage("lake", func(spec *storagev1.ObjectStorageSpec) {
		spec.Pools = []storagev1.ObjectStoragePool{{Name: "first", Servers: 4}}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: "data"}}
	})
	t.Logf("ready after %s", o.ready())
	before := o.application().uids()
	if len(before) != 4 {
		t.Fatalf("it has pods %v", before)
	}

	t.Log("a server is killed")
	w := o.startWriter(o.pod("first", 1), "data", "while-one-is-killed")
	o.goes(o.pod("first", 0))
	o.ready()
	w.end(o.pod("first", 0))

	t.Log("a pool is added")
	before = o.application().uids()
	w = o.startWriter(o.pod("first", 1), "data", "while-a-pool-comes")
	o.change(func(spec *storagev1.ObjectStorageSpec) {
		spec.Pools = append(spec.Pools, storagev1.ObjectStoragePool{Name: "second", Servers: 4})
	})
	t.Logf("ready with another pool after %s", o.ready())
	if status := o.object().Status; len(status.Pools) != 2 || status.Pools[1].Ready != 4 || status.Ready != "8/8" {
		t.Errorf("the status says %+v", status)
	}
	// Processes were restarted, and no pod.
	for pod, uid := range before {
		if after := o.application().uids()[pod]; after != uid {
			t.Errorf("pod %s was replaced", pod)
		}
	}
	o.puts(o.root(o.pod("second", 0)), "data", "later", "text")
	w.end(o.pod("second", 3))
}
