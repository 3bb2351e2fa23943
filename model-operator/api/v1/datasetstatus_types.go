// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// DatasetPhase is where a version stands.
type DatasetPhase string

// Phases of a version.
const (
	// DatasetPending: something has to come first, which the message names.
	DatasetPending DatasetPhase = "Pending"
	// DatasetPreparing: an Operation brings the files there, or verifies them.
	DatasetPreparing DatasetPhase = "Preparing"
	// DatasetReady: every file is there, and its digest is right.
	DatasetReady DatasetPhase = "Ready"
	// DatasetFailed: the Operation failed. Nothing is tried again until somebody asks for it.
	DatasetFailed DatasetPhase = "Failed"
	// DatasetExpired: its claim was deleted by retention. It is not prepared again.
	DatasetExpired DatasetPhase = "Expired"
	// DatasetRemoving: it was taken out of the spec, and its claim is still there.
	DatasetRemoving DatasetPhase = "Removing"
)

// DatasetStatus is what is known of a dataset.
type DatasetStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase in one word, for printing: Pending, Ready, Stalled or Deleting.
	// +optional
	Phase platformv1.Phase `json:"phase,omitempty"`
	// conditions: Ready (every version can be read, or has expired), Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// versions as in the spec, and after them those that were taken out and whose claims are still to go.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Versions []DatasetVersionStatus `json:"versions,omitempty"`
	// ready is how many versions can be read, of all in the spec, such as 1/2.
	// +optional
	Ready string `json:"ready,omitempty"`
	// latest is the version that was prepared last, of those that can be read.
	// +optional
	Latest DatasetVersionName `json:"latest,omitempty"`
	// pastAttempts is the most attempts that a version had which was taken out. One that is added counts on from there, so
	// that what prepared an earlier version of its name is not taken for its own.
	// +optional
	PastAttempts int32 `json:"pastAttempts,omitempty"`
	// lastRetry is the value of the annotation that failed versions were last tried again for, or that came when there was
	// nothing to try again.
	// +optional
	LastRetry string `json:"lastRetry,omitempty"`
}

// DatasetVersionStatus is what is known of a version.
type DatasetVersionStatus struct {
	// name of the version.
	// +required
	Name DatasetVersionName `json:"name"`
	// phase: Pending, Preparing, Ready, Failed, Expired or Removing.
	// +optional
	Phase DatasetPhase `json:"phase,omitempty"`
	// message says what is waited for, how far it is, or why it failed.
	// +optional
	Message string `json:"message,omitempty"`
	// claim is the PersistentVolumeClaim to mount read-only; absent unless the version is Ready.
	// +optional
	Claim string `json:"claim,omitempty"`
	// path of the version on the claim, for subPath of a mount; absent for the root of the volume.
	// +optional
	Path string `json:"path,omitempty"`
	// digest of the version, as sha256:<hex>: that of the list of its files as sha256sum prints it, in the order of the
	// paths. Equal digests are equal files under equal paths.
	// +optional
	Digest string `json:"digest,omitempty"`
	// files that the version has.
	// +optional
	Files int64 `json:"files,omitempty"`
	// bytes that the files have together.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// preparedTime is when the version became Ready.
	// +optional
	PreparedTime *metav1.Time `json:"preparedTime,omitempty"`
	// attempt is the number of the last attempt to prepare the version. It begins with 1, or behind those of versions that
	// were taken out.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// specDigest is a digest of what the spec said of the version when that attempt was begun. Where it says something
	// else by now, the version was taken out and another one of its name was added.
	// +optional
	SpecDigest string `json:"specDigest,omitempty"`
	// operation is the Operation of the last attempt.
	// +optional
	Operation string `json:"operation,omitempty"`
	// inUse is how many Inferences mount the version, or are to mount it. While it is not 0 the version cannot be taken
	// out of the spec, and keeps its claim.
	// +optional
	InUse int32 `json:"inUse"`
	// provenance of a version that is made from another one.
	// +optional
	Provenance *DatasetProvenance `json:"provenance,omitempty"`
}

// DatasetProvenance says what a version was made of.
type DatasetProvenance struct {
	// version that was read.
	// +required
	Version DatasetVersionName `json:"version"`
	// digest of that version.
	// +required
	Digest string `json:"digest"`
	// images of the steps, in their order, as they were given.
	// +optional
	// +listType=atomic
	Images []string `json:"images,omitempty"`
}

// Dataset is a set of files in versions that never change, each on a claim that pods mount for reading.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=datasets,singular=dataset,categories=zeroinfra
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Latest",type=string,JSONPath=`.status.latest`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.versions) || self.status.versions.all(known, !has(known.inUse) || known.inUse == 0 || self.spec.versions.exists(version, version.name == known.name))",message="a version that an Inference uses cannot be taken out of spec.versions: have the Inferences that status.versions counts name another one, or delete them, and wait until it has inUse 0"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && !self.metadata.name.contains('.')",message="the name of a Dataset has at most 40 characters and no dots: names of its claims begin with it"
type Dataset struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want.
	// +required
	Spec DatasetSpec `json:"spec"`
	// status is what there is; the operator writes it.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status DatasetStatus `json:"status,omitzero"`
}

// DatasetList is a list of datasets.
// +kubebuilder:object:root=true
type DatasetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Dataset `json:"items"`
}

// Labels and annotations of what a Dataset makes.
const (
	// DatasetLabel names the Dataset that an Operation or a claim is of.
	DatasetLabel = "ai.zeroinfra.github.com/dataset"
	// DatasetVersionLabel names the version.
	DatasetVersionLabel = "ai.zeroinfra.github.com/dataset-version"
	// DatasetUIDLabel of a claim is the UID of its Dataset.
	DatasetUIDLabel = "ai.zeroinfra.github.com/dataset-uid"
	// DatasetDigestAnnotation of a claim is a digest of what the spec says of the version: nothing else is prepared on it.
	DatasetDigestAnnotation = "ai.zeroinfra.github.com/dataset-version-digest"
	// DatasetRetryAnnotation of a Dataset has versions that failed prepared again: each new value once.
	DatasetRetryAnnotation = "ai.zeroinfra.github.com/retry"
	// DatasetClaimsFinalizer keeps a Dataset that is to take its claims with it. It is there only with the deletion policy
	// Delete.
	DatasetClaimsFinalizer = "ai.zeroinfra.github.com/dataset-claims"
)
