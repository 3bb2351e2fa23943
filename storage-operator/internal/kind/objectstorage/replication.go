// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
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
			if r.ObjectStorageRef != nil {
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

// endpointFor is the URL of another storage; empty where it is not there or has none yet, which the driver refuses
// until it has.
func endpointFor(other *storagev1.ObjectStorage) platformv1.ParameterValue {
	switch {
	case other == nil || other.Status.Endpoint == "":
		return ""
	case other.Spec.External != nil:
		return platformv1.ParameterValue(other.Spec.External.Endpoint)
	case other.Spec.TLS.On():
		return platformv1.ParameterValue("https://" + other.Status.Endpoint)
	}
	return platformv1.ParameterValue("http://" + other.Status.Endpoint)
}

// ReportEntities implements typed.EntityReporter: how far replications are.
func (Kind) ReportEntities(o *storagev1.ObjectStorage, entities []platformv1.Entity) {
	o.Status.Replications = nil
	for _, entity := range entities {
		if entity.Spec.Type != replicationType || len(entity.Status.Facts) == 0 || !entity.DeletionTimestamp.IsZero() {
			continue
		}
		var status storagev1.ObjectStorageReplicationStatus
		status.Bucket, status.Name, _ = strings.Cut(entity.Spec.Name, "/")
		typed.FillStatus(&status, entity.Status.Facts)
		o.Status.Replications = append(o.Status.Replications, status)
	}
}
