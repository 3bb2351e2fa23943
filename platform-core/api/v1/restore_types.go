// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RestoreFrom says what data an instance begins with.
type RestoreFrom struct {
	// backup names a Backup in the same namespace: of the same plugin and major version of the middleware, of a minor
	// version that is no later. The instance waits until it is Completed. Passwords are those of the new instance.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Backup string `json:"backup"`
	// target has the instance begin at a later time than that of the Backup, by logs that were archived since. The data is
	// as the Backup has it when left out.
	// +optional
	Target *RestoreTarget `json:"target,omitempty"`
}

// RestoreTarget is a point in time, and where the logs are that lead to it.
type RestoreTarget struct {
	// time up to which all that was committed is there, and nothing that was committed later: after RFC 3339, with up to
	// six digits of a second. Not before the Backup was whole, and before the last transaction that is archived.
	// +required
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +kubebuilder:validation:MaxLength=40
	Time string `json:"time"`
	// repositoryRef names the BackupRepository, in the same namespace, that has the logs of the instance that was backed
	// up: the one of its archive. Parameters and credentials say nothing of the place then.
	// +optional
	RepositoryRef *RepositoryReference `json:"repositoryRef,omitempty"`
	// parameters say where the logs are of the instance that was backed up, by the names that the method of the plugin
	// has. Those of the instance itself say where its own go.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`
	// credentials open that place, by the names that the method has. They are needed until the data is there.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Credentials []Credential `json:"credentials,omitempty"`
}

// Moment is the time that is meant.
func (t *RestoreTarget) Moment() (time.Time, error) { return time.Parse(time.RFC3339Nano, t.Time) }

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
	// sets are those that have a part of the data each; empty where it is in one part. It goes when all of the data is
	// there: a set that is made later begins without.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Sets []string `json:"sets,omitempty"`
	// target is the point in time that it begins at; that of the Backup when left out.
	// +optional
	Target *RestoreTarget `json:"target,omitempty"`
	// archive is where the logs are, where target names a BackupRepository.
	// +optional
	Archive *ComponentArchive `json:"archive,omitempty"`
}

// RestoreDestination says where the data of a Backup goes.
// +kubebuilder:validation:Enum=Volume;Servers
type RestoreDestination string

// Values of RestoreDestination.
const (
	// RestoreToVolume is the volume of the first pod, before there is one.
	RestoreToVolume RestoreDestination = "Volume"
	// RestoreToServers are the servers of all pods, when these run: objects are put there by S3.
	RestoreToServers RestoreDestination = "Servers"
)

// SetRestore says how the volumes of the first pod of a set are filled, or how objects are put into its servers.
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
	// destination is where the data goes; Volume when left out.
	// +optional
	Destination RestoreDestination `json:"destination,omitempty"`
	// folder of the volume that is filled, where the container has it; none with Servers.
	// +optional
	Folder string `json:"folder,omitempty"`
	// command that reads the data from its standard input and makes of it, in the folder that it runs in, what folder is
	// to have; none with Servers.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// env of the command.
	// +optional
	// +listType=atomic
	Env []RestoreVariable `json:"env,omitempty"`
	// logs is the claim of the volume that has the logs which lead to the target; empty where there is no target, or they
	// are elsewhere.
	// +optional
	Logs string `json:"logs,omitempty"`
}

// RestoreVariable is one variable of the environment.
type RestoreVariable struct {
	// name of it.
	// +required
	Name string `json:"name"`
	// value of it.
	// +optional
	Value string `json:"value,omitempty"`
	// credential of the instance that it is of, in place of a value.
	// +optional
	Credential string `json:"credential,omitempty"`
	// key of the credential: username or password, which it is when left out.
	// +optional
	Key string `json:"key,omitempty"`
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
	// reason of it, where it is one of its own.
	// +optional
	Reason string `json:"reason,omitempty"`
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
	// time that the data is of, where a target was asked for.
	// +optional
	Time string `json:"time,omitempty"`
	// completionTime is when all of the data was there.
	CompletionTime metav1.Time `json:"completionTime"`
}

// ToServers says whether the data goes into servers that run, and not onto a volume before there is a pod.
func (r *SetRestore) ToServers() bool { return r.Destination == RestoreToServers }

// Done says whether the data is there.
func (r *RestoreState) Done() bool { return r != nil && r.CompletionTime != nil }

// SetData says which volumes the pods of a set have. A change has all of them end before one begins on others, and who
// may write is found anew.
type SetData struct {
	// generation of the volumes, which their claims have in their names and as a label. Empty for those that the set was
	// made with.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[a-z0-9]*$`
	Generation string `json:"generation,omitempty"`
	// access that clients have: Closed gives no pod the label of a role that takes writes. Default Open.
	// +optional
	Access DataAccess `json:"access,omitempty"`
}

// DataAccess says whether clients are led to the pod that takes writes.
// +kubebuilder:validation:Enum=Open;Closed
type DataAccess string

// Accesses; none is Open.
const (
	// DataOpen: clients are.
	DataOpen DataAccess = "Open"
	// DataClosed: pods run, and clients are not, so that there is a way back.
	DataClosed DataAccess = "Closed"
)
