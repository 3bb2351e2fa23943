// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/storage-operator/internal/kind/objectstorage"
)

// A replication follows the storage that it names, as that comes, gets an address, and goes, and the status of the source tells how far it is.
func TestReplicationFollowsTheStorageThatItNames(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, typed.Register[*storagev1.ObjectStorage](objectstorage.Kind{}))
	storage := func(name string, buckets ...storagev1.ObjectStorageBucket) *storagev1.ObjectStorage {
		obj := &storagev1.ObjectStorage{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: storagev1.ObjectStorageSpec{Backend: storagev1.BackendMinio, Version: "2026.2", Buckets: buckets}}
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
		return obj
	}
	source := storage("source", storagev1.ObjectStorageBucket{Name: "abc", Versioning: storagev1.VersioningEnabled, Replication: []storagev1.ObjectStorageReplication{{
		Name: "beside", ObjectStorageRef: &storagev1.ObjectStorageReference{Name: "vault"}, Bucket: "copy", AccessKey: "replicator",
		SecretKeyFrom: platformv1.SecretKeyReference{Name: "replicator"},
	}}})
	rule := &platformv1.Entity{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: platformv1.EntityNameFor(platformv1.ApplicationNameFor("ObjectStorage", source.Name), "replication", "abc/beside")}}
	goesTo := func(want string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, rule, fmt.Sprintf("goes to %q", want), func() error {
			if got := string(rule.Spec.Parameters["endpoint"]); got != want {
				return fmt.Errorf("it goes to %q", got)
			}
			return nil
		})
	}
	goesTo("")
	vault := storage("vault")
	at := func(endpoint string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, vault, "is made", nil)
		before := vault.DeepCopy()
		vault.Status.Endpoint = endpoint
		if err := patch.Status(t.Context(), env.Client, before, vault); err != nil {
			t.Fatal(err)
		}
	}
	at("objectstorage-vault.shop.svc:9000")
	goesTo("http://objectstorage-vault.shop.svc:9000")
	at("objectstorage-vault.shop.svc.corp.example:9000")
	goesTo("http://objectstorage-vault.shop.svc.corp.example:9000")

	before := rule.DeepCopy()
	rule.Status.Facts = map[string]string{"online": "yes", "replicated-objects": "7"}
	if err := patch.Status(t.Context(), env.Client, before, rule); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, source, "tells how far it is", func() error {
		want := storagev1.ObjectStorageReplicationStatus{Bucket: "abc", Name: "beside", Online: true, ReplicatedObjects: 7}
		if got := source.Status.Replications; len(got) != 1 || got[0] != want {
			return fmt.Errorf("it tells %+v", got)
		}
		return nil
	})

	if err := env.Client.Delete(t.Context(), vault); err != nil {
		t.Fatal(err)
	}
	goesTo("")
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}
