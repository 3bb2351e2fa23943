// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RestoreFrom says what data an instance begins with.
type RestoreFrom struct {
	// backup names a Backup in the same namespace: of the same plugin and major version of the middleware, of a minor version that is no later.
	// The instance waits until it is Completed. Passwords are those of the new instance.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Backup string `json:"backup"`
}

// ComponentRestore is the Backup whose data a component begins with.
type ComponentRestore struct {
	// backup by name.
	// +required
	Backup string `json:"backup"`
	// uid tells it from another Backup of this name.
	// +required
	UID types.UID `json:"uid"`
	// method that the data was taken by.
	// +required
	Method string `json:"method"`
	// sets are those that have a part of the data each; empty where it is in one part. It goes when all of the data is there: a set that is made
	// later begins without.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Sets []string `json:"sets,omitempty"`
}

// SetRestore says how the volumes of the first pod of a set are filled.
type SetRestore struct {
	// from is the Backup.
	// +required
	From ComponentRestore `json:"from"`
	// part of the data, by the set that it was of; empty where it is in one part.
	// +optional
	Part string `json:"part,omitempty"`
	// container that the command runs like: in its image, as its user.
	// +required
	Container string `json:"container"`
	// folder of the volume that is filled, where the container has it.
	// +required
	Folder string `json:"folder"`
	// command that reads the data from its standard input and makes of it, in the folder that it runs in, what folder is to have.
	// +required
	// +listType=atomic
	Command []string `json:"command"`
	// env of the command.
	// +optional
	// +listType=atomic
	Env []RestoreVariable `json:"env,omitempty"`
}

// RestoreVariable is one variable of the environment.
type RestoreVariable struct {
	// name of it.
	// +required
	Name string `json:"name"`
	// value of it.
	// +optional
	Value string `json:"value,omitempty"`
}

// RestoreState is how far a restore is.
type RestoreState struct {
	// attempt counts the movers, from 1.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// startTime of the first attempt.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// retryTime is when the next attempt begins, after one that failed.
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
	// completionTime is when all of the data was there; absent before.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// size of the data as the Backup has it, in bytes.
	// +optional
	Size int64 `json:"size,omitempty"`
	// digest of the Backup's manifest.
	// +optional
	Digest string `json:"digest,omitempty"`
	// final says that an attempt failed for a reason that another one cannot mend.
	// +optional
	Final bool `json:"final,omitempty"`
	// message says what the last attempt that failed came to.
	// +optional
	Message string `json:"message,omitempty"`
}

// RestoredFrom is the Backup whose data an instance began with.
type RestoredFrom struct {
	// backup by name.
	Backup string `json:"backup"`
	// uid of it.
	UID types.UID `json:"uid"`
	// digest of its manifest.
	// +optional
	Digest string `json:"digest,omitempty"`
	// size of the data, in bytes.
	// +optional
	Size int64 `json:"size,omitempty"`
	// completionTime is when all of the data was there.
	CompletionTime metav1.Time `json:"completionTime"`
}

// Done says whether the data is there.
func (r *RestoreState) Done() bool { return r != nil && r.CompletionTime != nil }
