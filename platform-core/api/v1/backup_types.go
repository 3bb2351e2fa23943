// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BackupSpec says what a Backup is of, and where it is kept. Operations make it; of a Backup that is there only
// deletionPolicy, retention and cancel change.
// +kubebuilder:validation:XValidation:rule="has(self.repositoryRef) != (has(self.type) && self.type == 'Snapshot')",message="a Backup whose type is Snapshot keeps its data as VolumeSnapshots and has no repositoryRef; any other one needs one"
// +kubebuilder:validation:XValidation:rule="self.applicationRef == oldSelf.applicationRef && has(self.repositoryRef) == has(oldSelf.repositoryRef) && (!has(self.repositoryRef) || self.repositoryRef == oldSelf.repositoryRef) && has(self.type) == has(oldSelf.type) && (!has(self.type) || self.type == oldSelf.type) && self.method == oldSelf.method && self.timeout == oldSelf.timeout && has(self.compression) == has(oldSelf.compression) && (!has(self.compression) || self.compression == oldSelf.compression)",message="a Backup is of one instance by one method: of its spec only deletionPolicy, retention and cancel can be changed"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.cancel) || !oldSelf.cancel || has(self.cancel) && self.cancel",message="a cancel cannot be taken back"
// +kubebuilder:validation:XValidation:rule="has(self.imported) == has(oldSelf.imported)",message="what was imported is immutable"
type BackupSpec struct {
	// applicationRef names the Application, in the same namespace, that it is a backup of.
	// +required
	ApplicationRef ApplicationReference `json:"applicationRef"`
	// type says how the data is kept: as a Stream in a BackupRepository, which is so when left out, as Files in one, which
	// restic keeps there, or as a Snapshot of the volume, in the storage of the cluster.
	// +optional
	Type BackupType `json:"type,omitempty"`
	// repositoryRef names the BackupRepository, in the same namespace, that it is kept in. A Snapshot has none.
	// +optional
	RepositoryRef RepositoryReference `json:"repositoryRef,omitzero"`
	// method of the Application's plugin.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Method string `json:"method"`
	// compression of what is kept: Zstd, or Gzip for who has to read it with tools that know nothing else. Zstd when left
	// out.
	// +optional
	Compression BackupCompression `json:"compression,omitempty"`
	// deletionPolicy says what becomes of what is kept when the Backup is deleted: Delete removes it from the repository
	// first, Retain leaves it there. Default Delete.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	// +kubebuilder:default=Delete
	DeletionPolicy BackupDeletionPolicy `json:"deletionPolicy,omitempty"`
	// retention says when the operator deletes it; never when left out. It has no say over a Backup that is to be left in
	// the repository (deletionPolicy Retain).
	// +optional
	Retention *BackupRetention `json:"retention,omitempty"`
	// timeout is how long it may take from its creation on.
	// +required
	Timeout metav1.Duration `json:"timeout"`
	// imported is what its repository said of it, where the operator made this object of what is kept (spec.import of a
	// BackupRepository). Immutable.
	// +optional
	Imported *ImportedBackup `json:"imported,omitempty"`
	// cancel ends it. It cannot be taken back.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
}

// BackupType says how the data of a Backup is kept.
// +kubebuilder:validation:Enum=Stream;Snapshot;Files
type BackupType string

// Values of BackupType.
const (
	// BackupStream: a mover carries it into a BackupRepository.
	BackupStream BackupType = "Stream"
	// BackupSnapshot: it is VolumeSnapshots.
	BackupSnapshot BackupType = "Snapshot"
	// BackupFiles: restic keeps the files of a volume in a BackupRepository.
	BackupFiles BackupType = "Files"
)

// IsSnapshot says whether the data is kept as VolumeSnapshots.
func (s *BackupSpec) IsSnapshot() bool { return s.Type == BackupSnapshot }

// IsFiles says whether restic keeps the data.
func (s *BackupSpec) IsFiles() bool { return s.Type == BackupFiles }

// BackupRetention says when a Backup is deleted: as soon as one of its rules has it go. Backups are counted with those
// of their series: of the same instance, repository, method and schedule, with a retention. The last one of a series
// that can be restored is kept whatever the rules say.
// +kubebuilder:validation:XValidation:rule="has(self.maxCount) || has(self.maxAge)",message="a retention has maxCount, maxAge or both"
type BackupRetention struct {
	// maxCount is how many of the series are kept: it goes once there are as many newer ones that are whole. Without a
	// bound when left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxCount *int32 `json:"maxCount,omitempty"`
	// maxAge is how long it is kept from when it was whole, for example 720h. Without a bound when left out.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="maxAge is a minute at least"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
}

// RepositoryReference names a BackupRepository in the same namespace.
type RepositoryReference struct {
	// name of the BackupRepository.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// BackupDeletionPolicy says what becomes of what is kept when a Backup is deleted.
type BackupDeletionPolicy string

// Values of BackupDeletionPolicy.
const (
	// BackupRetain leaves it in the repository.
	BackupRetain BackupDeletionPolicy = "Retain"
	// BackupDelete removes it before the Backup goes.
	BackupDelete BackupDeletionPolicy = "Delete"
)

// BackupCompression is how what is kept is compressed.
// +kubebuilder:validation:Enum=Zstd;Gzip
type BackupCompression string

// Values of BackupCompression.
const (
	// CompressionZstd is fast, and small.
	CompressionZstd BackupCompression = "Zstd"
	// CompressionGzip is what every tool reads.
	CompressionGzip BackupCompression = "Gzip"
)

// BackupPhase is where a Backup is.
type BackupPhase string

// Phases of a Backup.
const (
	// BackupPending: it waits for its turn, or for a pod to take the data from.
	BackupPending BackupPhase = "Pending"
	// BackupRunning: a mover carries the data.
	BackupRunning BackupPhase = "Running"
	// BackupCompleted: it is whole, and can be restored.
	BackupCompleted BackupPhase = "Completed"
	// BackupFailed: there is none; the message says why.
	BackupFailed BackupPhase = "Failed"
	// BackupDeleting: it is being removed.
	BackupDeleting BackupPhase = "Deleting"
)

// BackupStatus is what is known of a Backup.
type BackupStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase: Pending, Running, Completed, Failed or Deleting.
	// +optional
	Phase BackupPhase `json:"phase,omitempty"`
	// conditions: Ready (it is whole), Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// method that the data was taken by.
	// +optional
	Method string `json:"method,omitempty"`
	// snapshots have the data of a Backup whose type is Snapshot.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Snapshots []VolumeSnapshotRecord `json:"snapshots,omitempty"`
	// hold says how the source kept still for the snapshots; absent where the method asks for nothing of the kind.
	// +optional
	Hold *BackupHold `json:"hold,omitempty"`
	// key is its folder within the repository.
	// +optional
	Key string `json:"key,omitempty"`
	// digest of its manifest: "sha256:" and 64 hexadecimal digits. Snapshots have none: what is in them is their driver's
	// to keep.
	// +optional
	Digest string `json:"digest,omitempty"`
	// startTime is when its mover, or its snapshots, were asked for.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when it was whole, or had failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// duration is how long it took from startTime to completionTime, in whole seconds; absent where there was no mover.
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// expiryTime is when its retention has it deleted by age, unless it is the last of its series that can be restored.
	// +optional
	ExpiryTime *metav1.Time `json:"expiryTime,omitempty"`
	// size of what is kept, in bytes; of snapshots what a volume takes that is made of them.
	// +optional
	Size int64 `json:"size,omitempty"`
	// rawSize of the data before it was compressed, in bytes.
	// +optional
	RawSize int64 `json:"rawSize,omitempty"`
	// facts that the method tells, such as the timeline and the position in the log.
	// +optional
	Facts map[string]string `json:"facts,omitempty"`
	// message says why it failed, or what is waited for.
	// +optional
	Message string `json:"message,omitempty"`
	// source is the pod that the data was taken from; absent where each set has a part of the data, see sources.
	// +optional
	Source *BackupSource `json:"source,omitempty"`
	// sources are the pods that the data of each set was taken from, where each set has a part of the data.
	// +optional
	// +listType=map
	// +listMapKey=set
	// +kubebuilder:validation:MaxItems=256
	Sources []BackupSource `json:"sources,omitempty"`
	// sourcePods names the pods of source or sources in one text; of many the first ones, and how many others.
	// +optional
	SourcePods string `json:"sourcePods,omitempty"`
	// plugin that the method is of.
	// +optional
	Plugin *PluginReference `json:"plugin,omitempty"`
	// version of the middleware.
	// +optional
	Version string `json:"version,omitempty"`
	// mover is the UID of the Job that carries the data.
	// +optional
	Mover string `json:"mover,omitempty"`
	// leftovers says whether a Backup that failed may have left data in the repository: Possible until that is removed,
	// None after that.
	// +optional
	Leftovers BackupLeftovers `json:"leftovers,omitempty"`
	// removals is how often its removal from the repository was tried and failed.
	// +optional
	Removals int32 `json:"removals,omitempty"`
	// verified is what the last restore drill came to; absent when there was none.
	// +optional
	Verified *BackupVerification `json:"verified,omitempty"`
}

// VolumeSnapshotRecord is a VolumeSnapshot that has a part of the data.
type VolumeSnapshotRecord struct {
	// name of the VolumeSnapshot.
	Name string `json:"name"`
	// volume of the component that it is of, and claim that was the source's.
	Volume string `json:"volume"`
	// claim by name.
	Claim string `json:"claim"`
	// driver that has the data.
	// +optional
	Driver string `json:"driver,omitempty"`
	// class that it was made after.
	// +optional
	Class string `json:"class,omitempty"`
	// creationTime is the moment that the data is of, by the clock of the driver.
	// +optional
	CreationTime *metav1.Time `json:"creationTime,omitempty"`
	// size that a volume has at least that is made of it, in bytes.
	// +optional
	Size int64 `json:"size,omitempty"`
}

// BackupHold is how a source kept still.
type BackupHold struct {
	// phase: Wanted, Held, Released (it kept still until all snapshots were of their moment) or Ended (it did not, or
	// nobody knows).
	Phase BackupHoldPhase `json:"phase"`
	// podUID tells the source from a later pod of its name.
	PodUID types.UID `json:"podUID"`
	// startTime is when it was known to keep still.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is when that was ended.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
}

// BackupHoldPhase is where a hold stands.
// +kubebuilder:validation:Enum=Wanted;Held;Released;Ended
type BackupHoldPhase string

// Values of BackupHoldPhase.
const (
	HoldWanted   BackupHoldPhase = "Wanted"
	HoldHeld     BackupHoldPhase = "Held"
	HoldReleased BackupHoldPhase = "Released"
	HoldEnded    BackupHoldPhase = "Ended"
)

// Over says whether nothing is held any more; so it is where nothing was.
func (h *BackupHold) Over() bool { return h == nil || h.Phase == HoldReleased || h.Phase == HoldEnded }

// BackupVerification is what a restore drill came to.
type BackupVerification struct {
	// outcome: Passed, Failed or Unfinished.
	Outcome VerificationOutcome `json:"outcome"`
	// time at which that was known.
	Time metav1.Time `json:"time"`
	// message says what was found, or why it is not known whether the data is good.
	// +optional
	Message string `json:"message,omitempty"`
	// operation is the name of the Operation that was the drill, and operationUID its UID.
	Operation string `json:"operation"`
	// operationUID tells it from another Operation of this name.
	OperationUID types.UID `json:"operationUID"`
}

// VerificationOutcome says what a restore drill came to.
// +kubebuilder:validation:Enum=Passed;Failed;Unfinished
type VerificationOutcome string

// Values of VerificationOutcome.
const (
	// VerificationPassed: an instance began with the data, and the verification of its plugin found it good.
	VerificationPassed VerificationOutcome = "Passed"
	// VerificationFailed: the data cannot be restored, or is not good.
	VerificationFailed VerificationOutcome = "Failed"
	// VerificationUnfinished: the drill came to no end, so that nobody knows.
	VerificationUnfinished VerificationOutcome = "Unfinished"
)

// BackupLeftovers says whether a Backup that failed may have left data in the repository.
type BackupLeftovers string

// Values of BackupLeftovers.
const (
	LeftoversPossible BackupLeftovers = "Possible"
	LeftoversNone     BackupLeftovers = "None"
)

// BackupSource is the pod that data was taken from.
type BackupSource struct {
	// pod by name.
	Pod string `json:"pod"`
	// component of the pod.
	Component string `json:"component"`
	// set of the pod.
	Set string `json:"set"`
	// role that the pod had.
	// +optional
	Role string `json:"role,omitempty"`
	// rawSize of what was taken from it, before it was compressed, in bytes; for one of several sources, once the backup
	// is whole.
	// +optional
	RawSize int64 `json:"rawSize,omitempty"`
}

// From are the pods that the data is taken from, whether it is in one part or in several.
func (s *BackupStatus) From() []BackupSource {
	if s.Source != nil {
		return []BackupSource{*s.Source}
	}
	return s.Sources
}

// Backup is one point that an Application can be restored to.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=zbk,categories=zeroinfra
// +kubebuilder:printcolumn:name="Application",type=string,JSONPath=`.spec.applicationRef.name`
// +kubebuilder:printcolumn:name="Repository",type=string,JSONPath=`.spec.repositoryRef.name`
// +kubebuilder:printcolumn:name="Method",type=string,JSONPath=`.spec.method`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Duration",type=string,JSONPath=`.status.duration`
// +kubebuilder:printcolumn:name="Completed",type=date,JSONPath=`.status.completionTime`
// +kubebuilder:printcolumn:name="Verified",type=string,JSONPath=`.status.verified.outcome`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expiryTime`,priority=1
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.status.sourcePods`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec BackupSpec `json:"spec"`
	// +optional
	Status BackupStatus `json:"status,omitzero"`
}

// BackupList is a list of Backups.
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Backup `json:"items"`
}

// Ended says whether a Backup is whole or has failed.
func (b *Backup) Ended() bool {
	return b.Status.Phase == BackupCompleted || b.Status.Phase == BackupFailed
}

// Deadline is when a Backup has to be whole.
func (b *Backup) Deadline() time.Time { return b.CreationTimestamp.Add(b.Spec.Timeout.Duration) }
