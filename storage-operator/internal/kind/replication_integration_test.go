// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/storage-operator/internal/kind/objectstorage"
)

// A replication follows the storage that it names, as that comes, gets an address, and goes, and the status of the
// source tells how far it is.
func TestReplicationFollowsTheStorageThatItNames(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, typed.Register[*storagev1.ObjectStorage](objectstorage.Kind{}))
	storage := func(name string, buckets ...storagev1.ObjectStorageBucket) *storagev1.ObjectStorage {
		obj := &storagev1.ObjectStorage{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: storagev1.ObjectStorageSpec{
				InstanceSpec: platformv1.InstanceSpec{Version: "2026.2"},
				Backend:      storagev1.BackendMinio,
				Buckets:      buckets,
			}}
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
		return obj
	}
	source := storage("source", storagev1.ObjectStorageBucket{Name: "abc", Versioning: "Enabled",
		Replication: []storagev1.ObjectStorageReplication{{
			Name: "beside", ObjectStorageRef: &storagev1.ObjectStorageReference{Name: "vault"}, Bucket: "copy",
			AccessKey:     "replicator",
			SecretKeyFrom: platformv1.SecretKeyReference{Name: "replicator"},
		}}})
	rule := &platformv1.Entity{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: platformv1.EntityNameFor(platformv1.ApplicationNameFor("ObjectStorage", source.Name), "replication",
			"abc/beside")}}
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
	// The storage has the address that its Application has, once that speaks of what it was asked for.
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: platformv1.ApplicationNameFor("ObjectStorage", vault.Name)}}
	at := func(host string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, app, "is made", nil)
		before := app.DeepCopy()
		app.Status.ObservedGeneration = app.Generation
		app.Status.Endpoints = []platformv1.Endpoint{{Name: "api", Host: host, Port: 9000}}
		if err := patch.Status(t.Context(), env.Client, before, app); err != nil {
			t.Fatal(err)
		}
	}
	at("objectstorage-vault.shop.svc")
	goesTo("http://objectstorage-vault.shop.svc:9000")
	at("objectstorage-vault.shop.svc.corp.example")
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

	onlyTheRuleGoes(t, source)
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}

// onlyTheRuleGoes takes rules out, one at a time, and wants each to go alone: what else is declared keeps its Entity.
func onlyTheRuleGoes(t *testing.T, source *storagev1.ObjectStorage) {
	t.Helper()
	entities := func() map[string]types.UID {
		list := &platformv1.EntityList{}
		if err := env.Client.List(t.Context(), list, client.InNamespace(source.Namespace)); err != nil {
			t.Fatal(err)
		}
		uids := map[string]types.UID{}
		for _, entity := range list.Items {
			// No engine runs that would let go of one that is deleted.
			if metav1.IsControlledBy(&entity, source) && entity.DeletionTimestamp.IsZero() {
				uids[entity.Spec.Type+" "+entity.Spec.Name] = entity.UID
			}
		}
		return uids
	}
	change := func(rules int) map[string]types.UID {
		before := source.DeepCopy()
		source.Spec.Buckets = nil
		for _, name := range []string{"abc", "logs", "media"} {
			b := storagev1.ObjectStorageBucket{Name: name, Versioning: "Enabled"}
			for i := range rules {
				b.Replication = append(b.Replication,
					storagev1.ObjectStorageReplication{Name: fmt.Sprintf("to-%d", i),
						Endpoint: fmt.Sprintf("https://s%d.example.com", i), Bucket: "copy",
						AccessKey: "replicator", SecretKeyFrom: platformv1.SecretKeyReference{Name: "replicator"}})
			}
			source.Spec.Buckets = append(source.Spec.Buckets, b)
		}
		if err := env.Client.Patch(t.Context(), source, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		const perBucket = 1
		testkit.WaitFor(t, env.Client, source, fmt.Sprintf("has %d rules for each bucket", rules), func() error {
			if got, want := len(entities()), len(source.Spec.Buckets)*(perBucket+rules); got != want {
				return fmt.Errorf("it has %d Entities, want %d", got, want)
			}
			return nil
		})
		return entities()
	}
	const most = 4
	for before, rules := change(most), most-1; rules >= 0; rules-- {
		after := change(rules)
		for name, uid := range after {
			if before[name] != uid {
				t.Errorf("with %d rules, %s was made anew", rules, name)
			}
		}
		before = after
	}
}
