// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupImport has Backups made of what is kept in a repository and no Backup speaks of, with the first inventory from
// then on and with each one after it.
// +kubebuilder:validation:XValidation:rule="!has(self.retention) || self.deletionPolicy == 'Delete'",message="a retention has Backups deleted with what is kept: set deletionPolicy to Delete, or leave the retention out"
type BackupImport struct {
	// deletionPolicy of the Backups that are made. Retain leaves what is kept there when one of them is deleted; Delete
	// removes it first. Default Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	// +kubebuilder:default=Retain
	DeletionPolicy BackupDeletionPolicy `json:"deletionPolicy,omitempty"`
	// retention of the Backups that are made; none when left out, whatever they had before: nothing that was found again
	// is deleted before somebody says so.
	// +optional
	Retention *BackupRetention `json:"retention,omitempty"`
}

// ImportedBackup is what a repository says of a backup whose object was lost.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="what was imported is immutable"
type ImportedBackup struct {
	// key is its folder within the repository.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Key string `json:"key"`
	// digest of its manifest: "sha256:" and 64 hexadecimal digits.
	// +required
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{1,64}$`
	Digest string `json:"digest"`
	// size of what is kept, in bytes.
	// +optional
	Size int64 `json:"size,omitempty"`
	// rawSize of the data before it was compressed, in bytes.
	// +optional
	RawSize int64 `json:"rawSize,omitempty"`
	// startTime is when its mover began.
	// +required
	StartTime metav1.Time `json:"startTime"`
	// completionTime is when it was whole.
	// +required
	CompletionTime metav1.Time `json:"completionTime"`
	// plugin that the method is of.
	// +required
	Plugin PluginReference `json:"plugin"`
	// version of the middleware.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`
	// facts that the method told.
	// +optional
	// +kubebuilder:validation:MaxProperties=4096
	Facts map[string]string `json:"facts,omitempty"`
	// source is the pod that the data was taken from; absent where each set has a part of the data.
	// +optional
	Source *BackupSource `json:"source,omitempty"`
	// sources are the pods that the data of each set was taken from, where each set has a part of the data.
	// +optional
	// +listType=map
	// +listMapKey=set
	// +kubebuilder:validation:MaxItems=256
	Sources []BackupSource `json:"sources,omitempty"`
}

// RepositoryImport is how far the import of what an inventory has found no Backup of is.
type RepositoryImport struct {
	// time at which it ended; absent while it goes on.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// after is the folder up to which it has looked.
	// +optional
	After string `json:"after,omitempty"`
	// imported is how many Backups of the repository there are that were imported, then or before.
	// +optional
	Imported int32 `json:"imported,omitempty"`
	// failed is how many folders there are of which no Backup could be made.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// failures are the first 50 of those.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Failures []ImportFailure `json:"failures,omitempty"`
	// tried is when it last came to nothing, and message why; it goes on five minutes later.
	// +optional
	Tried *metav1.Time `json:"tried,omitempty"`
	// message says why it came to nothing when it was last tried; empty when it did not.
	// +optional
	Message string `json:"message,omitempty"`
}

// ImportFailure is a folder of which no Backup could be made.
type ImportFailure struct {
	// key is the folder within the repository.
	Key string `json:"key"`
	// reason is one word for machines: BackupDamaged, BackupNotFound (there is no manifest), WrongPassphrase,
	// FormatUnsupported or NotImported.
	Reason string `json:"reason"`
	// message says what was found.
	// +optional
	Message string `json:"message,omitempty"`
}

// Reasons of imports. BackupRepository has them in status.import.failures, beside those of movers.
const (
	// ReasonNotImported: the backup in the folder is good, and no Backup was created of it; the message says why.
	// Do what the message says, and import again.
	ReasonNotImported = "NotImported"
)
