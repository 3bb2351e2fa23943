// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"cmp"
	"slices"
	"strconv"
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
	endpoint := r.Endpoint
	if r.ObjectStorageRef != nil {
		target, _ := referents[targetOf(r)].(*storagev1.ObjectStorage)
		endpoint = endpointFor(target)
	}
	parameters := platformv1.Parameters{
		"endpoint": platformv1.ParameterValue(endpoint), "target-bucket": platformv1.ParameterValue(r.Bucket),
		"access-key": platformv1.ParameterValue(r.AccessKey),
		"prefix":     platformv1.ParameterValue(r.Prefix), "delete-markers": yesOrNo[r.DeleteMarkers],
		"deletes":          yesOrNo[r.Deletes],
		"existing-objects": yesOrNo[r.ExistingObjects], "synchronous": yesOrNo[r.Synchronous],
		"bandwidth": platformv1.ParameterValue(strconv.FormatInt(quantity(r.Bandwidth), 10)),
	}
	return platformv1.EntitySpec{
		Type: replicationType, Name: bucket + "/" + r.Name, Parameters: parameters, DeletionPolicy: platformv1.EntityDelete,
		Adopt:        true,
		PasswordFrom: typed.PasswordFrom(&r.SecretKeyFrom),
	}
}

var yesOrNo = map[bool]platformv1.ParameterValue{true: "yes", false: "no"}

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
		count := func(fact string) int64 {
			// What is no number, an agent of another version says in other words.
			n, _ := strconv.ParseInt(facts[fact], 10, 64)
			return n
		}
		o.Status.Replications = append(o.Status.Replications, storagev1.ObjectStorageReplicationStatus{
			Bucket: bucket, Name: name, Online: facts["online"] == "yes", ExistingObjects: facts["existing-objects"],
			QueuedObjects: count("queued-objects"), QueuedBytes: count("queued-bytes"),
			ReplicatedObjects: count("replicated-objects"), ReplicatedBytes: count("replicated-bytes"),
			FailedAttempts: count("failed-attempts"), FailedBytes: count("failed-bytes"),
			FailedLastHour: count("failed-last-hour"),
		})
	}
	slices.SortFunc(o.Status.Replications, func(a, b storagev1.ObjectStorageReplicationStatus) int {
		return cmp.Or(strings.Compare(a.Bucket, b.Bucket), strings.Compare(a.Name, b.Name))
	})
}
