// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

func TestTargetsAreWhereTheOtherStorageIs(t *testing.T) {
	minio := func(endpoint string, tls *platformv1.TLS) *storagev1.ObjectStorage {
		return &storagev1.ObjectStorage{Spec: storagev1.ObjectStorageSpec{
			InstanceSpec: platformv1.InstanceSpec{TLS: tls},
		}, Status: storagev1.ObjectStorageStatus{InstanceStatus: platformv1.InstanceStatus{Endpoint: endpoint}}}
	}
	o := &storagev1.ObjectStorage{Spec: storagev1.ObjectStorageSpec{Buckets: []storagev1.ObjectStorageBucket{
		{Name: "a", Replication: []storagev1.ObjectStorageReplication{
			{Name: "r", ObjectStorageRef: &storagev1.ObjectStorageReference{Name: "vault"}}}},
		{Name: "b", Replication: []storagev1.ObjectStorageReplication{
			{Name: "r", ObjectStorageRef: &storagev1.ObjectStorageReference{Name: "vault"}},
			{Name: "s", Endpoint: "https://x"}}},
	}}}
	vault := targetOf(&o.Spec.Buckets[0].Replication[0])
	if !vault.Optional || vault.Name != "vault" {
		t.Errorf("the target is %+v", vault)
	}
	if got := (Kind{}).References(o); !slices.Equal(got, []typed.Reference{vault, vault}) {
		t.Errorf("it names %v", got)
	}
	for want, other := range map[string]*storagev1.ObjectStorage{
		"":                                      nil,
		"http://objectstorage-v.shop.svc:9000":  minio("objectstorage-v.shop.svc:9000", nil),
		"https://objectstorage-v.shop.svc:9000": minio("objectstorage-v.shop.svc:9000", &platformv1.TLS{Enabled: true}),
		"https://s3.example.com": {Spec: storagev1.ObjectStorageSpec{Backend: storagev1.BackendExternal,
			External: &storagev1.ObjectStorageExternal{Endpoint: "https://s3.example.com"}},
			Status: storagev1.ObjectStorageStatus{
				InstanceStatus: platformv1.InstanceStatus{Endpoint: "s3.example.com:443"},
			}},
	} {
		referents := typed.Referents{}
		if other != nil {
			referents[vault] = other
		}
		for _, spec := range entities(o, referents) {
			if spec.Name == "a/r" && string(spec.Parameters["endpoint"]) != want {
				t.Errorf("got %q, want %q", spec.Parameters["endpoint"], want)
			}
			if spec.Name == "b/s" && spec.Parameters["endpoint"] != "https://x" {
				t.Errorf("got %q", spec.Parameters["endpoint"])
			}
		}
	}
	// One that has not been made yet has no endpoint.
	if got := endpointFor(minio("", nil)); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestReplicationsAreReported(t *testing.T) {
	entity := func(kind, name string, facts map[string]string) platformv1.Entity {
		return platformv1.Entity{Spec: platformv1.EntitySpec{Type: kind, Name: name},
			Status: platformv1.EntityStatus{Facts: facts}}
	}
	facts := map[string]string{"online": "yes", "queued-objects": "1", "queued-bytes": "2", "replicated-objects": "3",
		"replicated-bytes": "4", "failed-attempts": "5",
		"failed-bytes": "6", "failed-last-hour": "7", "existing-objects": "Completed"}
	gone := entity(replicationType, "a/gone", facts)
	gone.DeletionTimestamp = new(metav1.Now())
	o := &storagev1.ObjectStorage{Status: storagev1.ObjectStorageStatus{
		Replications: []storagev1.ObjectStorageReplicationStatus{{Bucket: "before"}}}}
	Kind{}.ReportEntities(o, []platformv1.Entity{entity("bucket", "a", facts), gone,
		entity(replicationType, "a/new", nil), entity(replicationType, "a/second", facts),
		entity(replicationType, "b/first", map[string]string{"online": "no"})})
	want := []storagev1.ObjectStorageReplicationStatus{
		{Bucket: "a", Name: "second", Online: true, QueuedObjects: 1, QueuedBytes: 2, ReplicatedObjects: 3,
			ReplicatedBytes: 4, FailedAttempts: 5, FailedBytes: 6, FailedLastHour: 7,
			ExistingObjects: "Completed"},
		{Bucket: "b", Name: "first"},
	}
	if !slices.Equal(o.Status.Replications, want) {
		t.Errorf("got %+v", o.Status.Replications)
	}
}
