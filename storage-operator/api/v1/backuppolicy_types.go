// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// BackupPolicySpec says which instances are backed up, when, and for how long that is kept.
// +kubebuilder:validation:XValidation:rule="has(self.repositoryRef) || has(self.method)",message="name a repositoryRef, or the method of the instances' plugins that keeps its data as VolumeSnapshots and needs none"
type BackupPolicySpec struct {
	// selector of the instances, of whatever domain; all that there are when left out.
	// +optional
	Selector BackupSelector `json:"selector,omitzero"`
	// schedule is when each of them is backed up, as a cron line of five fields, for example "0 2 * * *".
	// +required
	Schedule platformv1.CronLine `json:"schedule"`
	// timeZone of the schedule by its IANA name, for example Europe/Berlin.
	// +required
	TimeZone platformv1.TimeZone `json:"timeZone"`
	// repositoryRef names a BackupRepository, which has to be in the namespace of each instance. Left out for a method
	// that keeps its data as VolumeSnapshots.
	// +optional
	RepositoryRef platformv1.RepositoryReference `json:"repositoryRef,omitzero"`
	// method of the instances' plugin; its default when left out.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Method string `json:"method,omitempty"`
	// compression of what is kept: Zstd when left out.
	// +optional
	Compression platformv1.BackupCompression `json:"compression,omitempty"`
	// retention of the Backups that are made; they are kept for ever when left out. Those that are there keep theirs.
	// +optional
	Retention *platformv1.BackupRetention `json:"retention,omitempty"`
	// timeout of one backup, its turn at the repository included. Default 6h.
	// +optional
	// +kubebuilder:default="6h"
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="timeout must be greater than 0"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// ttlSecondsAfterFinished is how long the Operation of a backup is kept after its end; as the instance says when left
	// out. The Backup is none of that.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// suspend lets the times pass. They are not made up for afterwards.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// drill has the newest backup of each instance verified at set times, in an instance of its own that is removed at
	// once. Not at all when left out.
	// +optional
	Drill *BackupDrill `json:"drill,omitempty"`
}

// BackupDrill says when backups are verified.
type BackupDrill struct {
	// schedule is when the newest backup of each instance is restored and verified, as a cron line of five fields, for
	// example "0 4 * * 0".
	// +required
	Schedule platformv1.CronLine `json:"schedule"`
	// timeZone of the schedule by its IANA name; that of the backups when left out.
	// +optional
	TimeZone platformv1.TimeZone `json:"timeZone,omitempty"`
	// timeout of one drill. Default 6h.
	// +optional
	// +kubebuilder:default="6h"
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="timeout must be greater than 0"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// BackupSelector chooses instances. What is left out chooses nothing off.
type BackupSelector struct {
	// namespaces that they are in; all when empty.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=500
	Namespaces []string `json:"namespaces,omitempty"`
	// kinds that declare them, such as Redis or PostgreSQL; Application for those that nothing else declares. All when
	// empty.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Kinds []string `json:"kinds,omitempty"`
	// labels of the objects that declare them.
	// +optional
	Labels *metav1.LabelSelector `json:"labels,omitempty"`
}

// BackupPolicyStatus is what has come of a policy.
type BackupPolicyStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready (every instance is covered, and its last backup is whole), Reconciling and Stalled; with drill
	// BackupsVerified (the last drill of each instance that one is possible of found its backup good).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// selected is how many instances the selector chooses.
	// +optional
	Selected int32 `json:"selected"`
	// uncovered is how many of them no backup will be made of.
	// +optional
	Uncovered int32 `json:"uncovered"`
	// failing is how many of them are covered and have no backup of the last time.
	// +optional
	Failing int32 `json:"failing"`
	// unverified is how many of them had a last drill, or were to have it, that did not find the backup good.
	// +optional
	Unverified int32 `json:"unverified,omitempty"`
	// undrillable is how many of them no drill is possible of; they count neither as verified nor as unverified.
	// +optional
	Undrillable int32 `json:"undrillable,omitempty"`
	// nextTime is when the first of them is backed up next.
	// +optional
	NextTime *metav1.Time `json:"nextTime,omitempty"`
	// lastSuccessTime is when the latest backup of any of them was whole.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`
	// sources are the instances: those that are uncovered, then those that fail, then the others, by namespace and name;
	// 500 at most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Sources []BackupPolicySource `json:"sources,omitempty"`
}

// BackupSourceState says whether an instance is backed up.
// +kubebuilder:validation:Enum=Covered;Failing;Uncovered
type BackupSourceState string

// States of a source.
const (
	// SourceCovered: it is backed up when its time comes.
	SourceCovered BackupSourceState = "Covered"
	// SourceFailing: it is backed up, and the last time it did not succeed.
	SourceFailing BackupSourceState = "Failing"
	// SourceUncovered: no backup will be made of it.
	SourceUncovered BackupSourceState = "Uncovered"
)

// BackupPolicySource is one instance that a policy chooses.
type BackupPolicySource struct {
	// namespace of it.
	Namespace string `json:"namespace"`
	// application is the name of its Application.
	Application string `json:"application"`
	// kind that declares it.
	Kind string `json:"kind"`
	// state: Covered, Failing or Uncovered.
	State BackupSourceState `json:"state"`
	// nextTime is when it is backed up next.
	// +optional
	NextTime *metav1.Time `json:"nextTime,omitempty"`
	// lastTime is the time of the schedule that it was last to be backed up for.
	// +optional
	LastTime *metav1.Time `json:"lastTime,omitempty"`
	// lastSuccessTime is when its last backup was whole.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`
	// lastBackup is the name of the Backup that was whole then.
	// +optional
	LastBackup string `json:"lastBackup,omitempty"`
	// message says why it is not covered, or fails.
	// +optional
	Message string `json:"message,omitempty"`
	// nextDrillTime is when its newest backup is verified next.
	// +optional
	NextDrillTime *metav1.Time `json:"nextDrillTime,omitempty"`
	// verifiedTime is when a drill came to something last.
	// +optional
	VerifiedTime *metav1.Time `json:"verifiedTime,omitempty"`
	// verified is what that drill came to.
	// +optional
	Verified platformv1.VerificationOutcome `json:"verified,omitempty"`
	// verifiedBackup is the name of the Backup that it was of.
	// +optional
	VerifiedBackup string `json:"verifiedBackup,omitempty"`
	// drillMessage says why the last drill did not find the backup good, or why no drill is possible.
	// +optional
	DrillMessage string `json:"drillMessage,omitempty"`
	// drillReason is NotPossible where the plugin of the instance does not say how its backups are verified; absent
	// otherwise.
	// +optional
	DrillReason string `json:"drillReason,omitempty"`
}

// BackupPolicy has instances of all domains backed up at set times.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=zbp,categories=zeroinfra
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Repository",type=string,JSONPath=`.spec.repositoryRef.name`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.selected`
// +kubebuilder:printcolumn:name="Uncovered",type=integer,JSONPath=`.status.uncovered`
// +kubebuilder:printcolumn:name="Failing",type=integer,JSONPath=`.status.failing`
// +kubebuilder:printcolumn:name="Unverified",type=integer,JSONPath=`.status.unverified`,priority=1
// +kubebuilder:printcolumn:name="Last-Success",type=date,JSONPath=`.status.lastSuccessTime`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.nextTime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Time-Zone",type=string,JSONPath=`.spec.timeZone`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.drill) || size(self.metadata.name) <= 18",message="the name of a BackupPolicy with a drill has at most 18 characters: it has a second schedule, with -drill after its name"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,22}[a-z0-9])?$')",message="the name of a BackupPolicy is that of a schedule: at most 24 lower-case letters, digits and hyphens, with a letter first"
type BackupPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec BackupPolicySpec `json:"spec"`
	// +optional
	Status BackupPolicyStatus `json:"status,omitzero"`
}

// BackupPolicyList is a list of BackupPolicies.
// +kubebuilder:object:root=true
type BackupPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupPolicy `json:"items"`
}
