// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// replicationType is what the plugin minio calls a rule; its name is that of the bucket, a slash, and that of the rule.
const replicationType = "replication"

// storageKind is the kind of the targets of replications.
var storageKind = storagev1.GroupVersion.WithKind("ObjectStorage")

// ReferredKinds implements typed.Referrer.
func (Kind) ReferredKinds() []schema.GroupVersionKind { return []schema.GroupVersionKind{storageKind} }

// References implements typed.Referrer: the targets of replications.
func (Kind) References(o *storagev1.ObjectStorage) []typed.Reference {
	var targets []typed.Reference
	for _, b := range o.Spec.Buckets {
		for _, r := range b.Replication {
			if r.ObjectStorageRef != nil && !slices.Contains(targets, targetOf(&r)) {
				targets = append(targets, targetOf(&r))
			}
		}
	}
	return targets
}

// targetOf refers to the storage that a rule replicates to. The rest of the object does not wait for it.
func targetOf(r *storagev1.ObjectStorageReplication) typed.Reference {
	const field = "spec.buckets[].replication[].objectStorageRef"
	return typed.Reference{GVK: storageKind, Name: r.ObjectStorageRef.Name, Field: field, Optional: true}
}

// replication is a rule in the words of the plugin. It is adopted where it is there: its name is this object's to give,
// and it holds nothing.
func replication(bucket string, r *storagev1.ObjectStorageReplication,
	referents typed.Referents) platformv1.EntitySpec {
	entity := typed.EntityOf(replicationType, r)
	entity.Name, entity.Adopt = bucket+"/"+r.Name, true
	entity.Parameters["bandwidth"] = bytes(r.Bandwidth)
	if r.ObjectStorageRef != nil {
		target, _ := referents[targetOf(r)].(*storagev1.ObjectStorage)
		entity.Parameters["endpoint"] = platformv1.ParameterValue(endpointFor(target))
	}
	return entity
}

// endpointFor is the URL of another storage; empty where it is not there or has none yet, which the driver refuses
// until it has.
func endpointFor(other *storagev1.ObjectStorage) string {
	switch {
	case other == nil:
		return ""
	case other.Spec.External != nil:
		return other.Spec.External.Endpoint
	case other.Status.Endpoint == "":
		return ""
	case other.Spec.TLS != nil && other.Spec.TLS.Enabled:
		return "https://" + other.Status.Endpoint
	}
	return "http://" + other.Status.Endpoint
}

// ReportEntities implements typed.EntityReporter: how far replications are.
func (Kind) ReportEntities(o *storagev1.ObjectStorage, entities []platformv1.Entity) {
	o.Status.Replications = nil
	for _, entity := range entities {
		bucket, name, ok := strings.Cut(entity.Spec.Name, "/")
		facts := entity.Status.Facts
		if !ok || entity.Spec.Type != replicationType || len(facts) == 0 || !entity.DeletionTimestamp.IsZero() {
			continue
		}
		status := storagev1.ObjectStorageReplicationStatus{Bucket: bucket, Name: name}
		typed.FillStatus(&status, facts)
		o.Status.Replications = append(o.Status.Replications, status)
	}
	slices.SortFunc(o.Status.Replications, func(a, b storagev1.ObjectStorageReplicationStatus) int {
		return cmp.Or(strings.Compare(a.Bucket, b.Bucket), strings.Compare(a.Name, b.Name))
	})
}
