// SPDX-License-Identifier: Apache-2.0

package v1

import platformv1 "github.com/zeroinfra/platform-core/api/v1"

// ObjectStorageReplication is a rule by which what is written to a bucket goes to one elsewhere: another ObjectStorage,
// or a MinIO that is not in this cluster. Before anything is set it is checked that the target is there and takes the
// account, that it is another bucket, and that both have versions and the same object lock and encryption. What
// somebody changes of the rule is put right; when it is taken out, the copies stay.
// +kubebuilder:validation:XValidation:rule="has(self.objectStorageRef) != has(self.endpoint)",message="a replication needs one target: set either objectStorageRef or endpoint"
// +kubebuilder:validation:XValidation:rule="self.bucket == oldSelf.bucket",message="bucket of a replication is immutable, since the copies are there: take the replication out, and add one of another name"
type ObjectStorageReplication struct {
	// name of the rule within the bucket.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.-]*$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// objectStorageRef names the ObjectStorage in the same namespace that is the target. One of the backend External
	// stands for its endpoint, and must be a MinIO.
	// +optional
	ObjectStorageRef *ObjectStorageReference `json:"objectStorageRef,omitempty" parameter:"-"`
	// endpoint of the target in place of objectStorageRef: the URL of a MinIO with its scheme and without a path. The
	// servers must reach it. No two replications of a bucket have the same.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[1-9][0-9]{0,4})?$')",message="endpoint of a replication must be a URL of a scheme and a host, such as https://s3.example.com:9000, without a path"
	Endpoint string `json:"endpoint,omitempty"`
	// bucket at the target. It has to be there, with versioning. Immutable.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket" parameter:"target-bucket"`
	// accessKey names the account at the target that objects are put there with.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._@-]{2,127}$`
	// +kubebuilder:validation:MaxLength=128
	AccessKey string `json:"accessKey"`
	// secretKeyFrom names a Secret in the same namespace and the key in it, password when left out, that holds the secret
	// key of the account. A change of it is followed.
	// +required
	SecretKeyFrom platformv1.SecretKeyReference `json:"secretKeyFrom"`
	// prefix of the names of the objects that are replicated; all of them when left out.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[^?*\x00-\x1f]*$`
	Prefix string `json:"prefix,omitempty"`
	// deleteMarkers has an object that is deleted here be deleted there: its versions stay at both ends.
	// +optional
	DeleteMarkers bool `json:"deleteMarkers,omitempty"`
	// deletes has a version that is removed here be removed there, for good.
	// +optional
	Deletes bool `json:"deletes,omitempty"`
	// existingObjects has what was in the bucket before the rule be copied too.
	// +optional
	ExistingObjects bool `json:"existingObjects,omitempty"`
	// bandwidth that all servers together take at most for this target, in bytes for each second, such as 200M; at least
	// 100M. Any when left out.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('100M')) >= 0",message="bandwidth of a replication is at least 100M, the least that MinIO takes: set more, or take it out"
	Bandwidth platformv1.ByteSize `json:"bandwidth,omitempty"`
	// synchronous has who writes wait until the target has the object, or has failed to take it: then the write succeeds
	// all the same, and the object goes there later. Default: objects follow.
	// +optional
	Synchronous bool `json:"synchronous,omitempty"`
}

// ObjectStorageReference names an ObjectStorage in the same namespace.
type ObjectStorageReference struct {
	// name of the ObjectStorage.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// ObjectStorageReplicationStatus is how far a replication is, as the servers tell it. Counts are since the servers were
// started.
type ObjectStorageReplicationStatus struct {
	// bucket that is replicated.
	Bucket string `json:"bucket"`
	// name of the replication.
	Name string `json:"name"`
	// online says whether the target answers.
	Online bool `json:"online"`
	// queuedObjects wait for any of the bucket's targets: how far these are behind.
	QueuedObjects int64 `json:"queuedObjects"`
	// queuedBytes of these.
	QueuedBytes int64 `json:"queuedBytes"`
	// replicatedObjects went there.
	ReplicatedObjects int64 `json:"replicatedObjects"`
	// replicatedBytes of these.
	ReplicatedBytes int64 `json:"replicatedBytes"`
	// failedAttempts to put an object there. What failed is tried again until it is there.
	FailedAttempts int64 `json:"failedAttempts"`
	// failedBytes of these.
	FailedBytes int64 `json:"failedBytes"`
	// failedLastHour of the attempts.
	FailedLastHour int64 `json:"failedLastHour"`
	// existingObjects is how far the copy of what was there before is, for example Ongoing, Completed or Failed; empty
	// where nobody asked for it.
	// +optional
	ExistingObjects string `json:"existingObjects,omitempty"`
}
