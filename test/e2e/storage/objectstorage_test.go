// SPDX-License-Identifier: Apache-2.0

package storage

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
	"github.com/zeroinfra/test/e2e/framework"
)

// TestObjectStorage has one server that speaks TLS, with buckets and users inside, used by a real client.
func TestObjectStorage(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "objects")
	s.EnsureStorageOperator()
	issuer := s.CreateClusterIssuer()
	s.CreateSecret("writer", "password", "key-of-the-writer")
	s.CreateSecret("reader", "password", "key-of-the-reader")
	o := s.CreateObjectStorage("media", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{
			{Name: "pictures", Versioning: "Enabled", Quota: "64Mi", DeletionPolicy: platformv1.EntityDelete,
				Lifecycle: []storagev1.ObjectStorageRule{{Name: "old", Prefix: "old/", ExpireDays: 30}}},
		}
		spec.Users = []storagev1.ObjectStorageUser{
			{Name: "writer", SecretKeyFrom: platformv1.SecretKeyReference{Name: "writer"},
				Grants: []storagev1.ObjectStorageGrant{{Bucket: "pictures", Access: "ReadWrite"}}},
			{Name: "reader", SecretKeyFrom: platformv1.SecretKeyReference{Name: "reader"},
				Grants: []storagev1.ObjectStorageGrant{{Bucket: "pictures", Access: "Read"}}},
		}
	})
	t.Logf("ready after %s", o.WaitReady())
	s.ExpectTableColumns(storagev1.GroupVersion.WithResource("objectstorages"), "media", "Backend", "Version", "Servers",
		"Phase", "Endpoint", "Age")
	bound := o.Binding()
	if bound["type"] != "s3" || !strings.HasPrefix(bound["endpoint"], "https://") || bound["accessKey"] == "" ||
		len(bound["secretKey"]) != 40 || bound["ca.crt"] == "" {
		t.Fatalf("the binding has the keys %v, and speaks of %q", framework.SortedKeys(bound), bound["endpoint"])
	}
	server := o.Pod("main", 0)
	writer, reader := o.ClientAs(server, "writer", "key-of-the-writer"), o.ClientAs(server, "reader", "key-of-the-reader")
	o.Put(writer, "pictures", "a", "first")
	o.WaitForObject(reader, "pictures", "a", "first")
	o.ExpectPutRefused(reader, "pictures", "b", "AccessDenied")

	t.Log("the pod goes, and its data is there")
	goes(o, server)
	o.WaitReady()
	o.WaitForObject(reader, "pictures", "a", "first")
	o.Put(writer, "pictures", "a", "second")
	o.WaitForObject(reader, "pictures", "a", "second")

	t.Log("another key")
	changesKey(o)
	putsRight(o, server)
	keepsWhatIsNotEmpty(o, o.RootClient(server))
}

// TestObjectStorageExternal has the buckets of a storage looked after that is only referenced: another ObjectStorage,
// that knows nothing of it.
func TestObjectStorageExternal(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "elsewhere")
	s.EnsureStorageOperator()
	issuer := s.CreateClusterIssuer()
	there := s.CreateObjectStorage("there", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
	})
	there.WaitReady()
	of, bound := there.Object().Status.BindingName, there.Binding()
	here := &framework.ObjectStorage{Namespace: s, Name: "here", PortForwards: there.PortForwards}
	s.Create(&storagev1.ObjectStorage{ObjectMeta: metav1.ObjectMeta{Name: here.Name}, Spec: storagev1.ObjectStorageSpec{
		Backend: storagev1.BackendExternal,
		External: &storagev1.ObjectStorageExternal{
			Endpoint: bound["endpoint"], CredentialsSecretRef: platformv1.SecretReference{Name: of},
			CASecretRef: &platformv1.AuthorityReference{Name: of},
		},
		Buckets: []storagev1.ObjectStorageBucket{
			{Name: "pictures", Versioning: "Enabled", Access: "Download",
				DeletionPolicy: platformv1.EntityDelete,
				Lifecycle:      []storagev1.ObjectStorageRule{{Name: "old", Prefix: "old/", ExpireDays: 30}}}},
	}})
	t.Logf("ready after %s", here.WaitReady())
	if got := here.Binding(); got["endpoint"] != bound["endpoint"] || got["accessKey"] != bound["accessKey"] ||
		got["secretKey"] != bound["secretKey"] || got["ca.crt"] != bound["ca.crt"] {
		t.Errorf("the binding has the keys %v, and speaks of %q", framework.SortedKeys(got), got["endpoint"])
	}

	t.Log("what was asked for is there, and comes back when it goes")
	root := there.RootClient(there.Pod("main", 0))
	wantPictures(here, root)
	here.Retry("the bucket is closed", func() error { return root.SetBucketPolicy(s.Ctx, "pictures", "") })
	here.Retry("its versions are suspended", func() error { return root.SuspendVersioning(s.Ctx, "pictures") })
	here.Update(func(spec *storagev1.ObjectStorageSpec) {
		spec.Buckets = append(spec.Buckets,
			storagev1.ObjectStorageBucket{Name: "music", DeletionPolicy: platformv1.EntityDelete})
	})
	wantPictures(here, root)

	t.Log("a bucket with an object stays")
	here.Put(root, "pictures", "a", "text")
	keepsWhatIsNotEmpty(here, root)
}

// wantPictures waits until the bucket is as it was asked for, as a client of the storage reads it.
func wantPictures(o *framework.ObjectStorage, s3 *minio.Client) {
	o.Helper()
	o.Eventually(framework.SettleTimeout, "the bucket is as asked", func() error {
		versioning, err := s3.GetBucketVersioning(o.Ctx, "pictures")
		if err != nil {
			return err
		}
		policy, err := s3.GetBucketPolicy(o.Ctx, "pictures")
		if err != nil {
			return err
		}
		rules, err := s3.GetBucketLifecycle(o.Ctx, "pictures")
		if err != nil {
			return err
		}
		if !versioning.Enabled() || !strings.Contains(policy, "s3:GetObject") || len(rules.Rules) != 1 ||
			rules.Rules[0].RuleFilter.Prefix != "old/" || rules.Rules[0].Expiration.Days != 30 {
			return fmt.Errorf("it has %+v, the policy %q and the rules %+v", versioning, policy, rules.Rules)
		}
		return nil
	})
}

// changesKey has a user log in with another key once its Secret has it.
func changesKey(o *framework.ObjectStorage) {
	o.Helper()
	changesSecret(o.Namespace, "writer", "another-key-of-it")
	writer := o.ClientAs(o.Pod("main", 0), "writer", "another-key-of-it")
	o.Eventually(framework.SettleTimeout, "the user has the other key",
		func() error { return framework.PutObject(o.Ctx, writer, "pictures", "c", "text") })
	o.ExpectPutRefused(o.ClientAs(o.Pod("main", 0), "writer", "key-of-the-writer"), "pictures", "c",
		"SignatureDoesNotMatch")
}

// putsRight opens a bucket by hand to everybody, and has another one made, which brings the next look at once.
func putsRight(o *framework.ObjectStorage, pod string) {
	o.Helper()
	root := o.RootClient(pod)
	const open = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["*"]},` +
		`"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::pictures/*"]}]}`
	o.Retry("the bucket is opened", func() error { return root.SetBucketPolicy(o.Ctx, "pictures", open) })
	o.Update(func(spec *storagev1.ObjectStorageSpec) {
		spec.Buckets = append(spec.Buckets,
			storagev1.ObjectStorageBucket{Name: "music", DeletionPolicy: platformv1.EntityDelete})
	})
	o.WaitReady()
	o.Eventually(framework.SettleTimeout, "the bucket is put right, and that is counted", func() error {
		policy, err := root.GetBucketPolicy(o.Ctx, "pictures")
		if err != nil {
			return err
		}
		entity := inside(o, "bucket", "pictures")
		if policy != "" || entity == nil || entity.Status.DriftRepairs != 1 {
			return fmt.Errorf("its policy is %q, and the Entity says %+v", policy, entity)
		}
		return nil
	})
}

// keepsWhatIsNotEmpty takes both buckets out of the spec: the empty one goes, the other one only when nothing is in it.
func keepsWhatIsNotEmpty(o *framework.ObjectStorage, root *minio.Client) {
	o.Helper()
	o.Update(func(spec *storagev1.ObjectStorageSpec) { spec.Buckets = nil })
	o.Eventually(framework.SettleTimeout, "the empty bucket goes, and the other one says why it does not", func() error {
		if there, err := root.BucketExists(o.Ctx, "music"); err != nil || there {
			return fmt.Errorf("bucket music is there: %v, %v", there, err)
		}
		entity := inside(o, "bucket", "pictures")
		if entity == nil {
			o.Fatal("the Entity of a bucket with objects is gone")
		}
		if ready := meta.FindStatusCondition(entity.Status.Conditions, platformv1.ReadyCondition); ready == nil ||
			!strings.Contains(ready.Message, "it is not empty") {
			return fmt.Errorf("it says: %s", framework.Describe(entity.Status.Conditions))
		}
		return nil
	})
	o.Retry("the bucket is emptied", func() error { return empty(o.Ctx, root, "pictures") })
	o.Eventually(framework.SettleTimeout, "the bucket goes once it is empty", func() error {
		if there, err := root.BucketExists(o.Ctx, "pictures"); err != nil || there || inside(o, "bucket", "pictures") != nil {
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
		err := s3.RemoveObject(ctx, bucket, object.Key, minio.RemoveObjectOptions{VersionID: object.VersionID})
		if err != nil {
			return err
		}
	}
	return nil
}

// TestObjectStoragePools kills a server of a pool under load and adds a pool: no object is lost that was acknowledged.
func TestObjectStoragePools(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pools")
	s.EnsureStorageOperator()
	o := s.CreateObjectStorage("lake", func(spec *storagev1.ObjectStorageSpec) {
		spec.Pools = []storagev1.ObjectStoragePool{{Name: "first", Servers: 4}}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: "data"}}
	})
	t.Logf("ready after %s", o.WaitReady())
	before := o.Application().UIDs()
	if len(before) != 4 {
		t.Fatalf("it has pods %v", before)
	}

	t.Log("a server is killed")
	w := startWriter(o, o.Pod("first", 1), "data", "while-one-is-killed")
	goes(o, o.Pod("first", 0))
	o.WaitReady()
	w.end(o.Pod("first", 0))

	t.Log("a pool is added")
	before = o.Application().UIDs()
	w = startWriter(o, o.Pod("first", 1), "data", "while-a-pool-comes")
	o.Update(func(spec *storagev1.ObjectStorageSpec) {
		spec.Pools = append(spec.Pools, storagev1.ObjectStoragePool{Name: "second", Servers: 4})
	})
	t.Logf("ready with another pool after %s", o.WaitReady())
	if status := o.Object().Status; len(status.Pools) != 2 || status.Pools[1].Ready != 4 || status.Ready != "8/8" {
		t.Errorf("the status says %+v", status)
	}
	// Processes were restarted, and no pod.
	for pod, uid := range before {
		if after := o.Application().UIDs()[pod]; after != uid {
			t.Errorf("pod %s was replaced", pod)
		}
	}
	o.Put(o.RootClient(o.Pod("second", 0)), "data", "later", "text")
	w.end(o.Pod("second", 3))
}
