// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupRepositorySpec says where backups are kept.
// +kubebuilder:validation:XValidation:rule="[has(self.s3), has(self.persistentVolumeClaim), has(self.nfs)].filter(x, x).size() == 1",message="exactly one of s3, persistentVolumeClaim and nfs says where backups are kept"
// +kubebuilder:validation:XValidation:rule="has(self.s3) == has(oldSelf.s3) && has(self.nfs) == has(oldSelf.nfs)",message="the kind of a repository is immutable: create another BackupRepository"
// +kubebuilder:validation:XValidation:rule="has(self.encryption) == has(oldSelf.encryption)",message="encryption is immutable: create another BackupRepository"
type BackupRepositorySpec struct {
	// s3 is a bucket of any store that speaks S3.
	// +optional
	S3 *S3Repository `json:"s3,omitempty"`
	// persistentVolumeClaim is a volume that pods mount. One that only a single node can mount has all movers run there.
	// +optional
	PersistentVolumeClaim *VolumeRepository `json:"persistentVolumeClaim,omitempty"`
	// nfs is a folder that a server exports: the operator makes a PersistentVolume and a claim of it, which go with the
	// repository.
	// +optional
	NFS *NFSRepository `json:"nfs,omitempty"`
	// encryption of what is kept; as it is when left out. Immutable.
	// +optional
	Encryption *BackupEncryption `json:"encryption,omitempty"`
	// maxConcurrentBackups is how many Backups of the repository run at a time; the others wait in the order in which they
	// were made. Default 2.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	MaxConcurrentBackups int32 `json:"maxConcurrentBackups,omitempty"`
	// inventoryInterval is how often what is kept is compared with the Backups that there are; 0s for once, when the
	// repository is first ready. Default 24h.
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1m')",message="inventoryInterval is 0s, or a minute at least"
	InventoryInterval *metav1.Duration `json:"inventoryInterval,omitempty"`
	// import has Backups made of what is kept and no Backup speaks of; that is only counted when left out.
	// +optional
	Import *BackupImport `json:"import,omitempty"`
}

// S3Repository is a folder of a bucket.
// +kubebuilder:validation:XValidation:rule="self.bucket == oldSelf.bucket",message="bucket is immutable: create another BackupRepository"
// +kubebuilder:validation:XValidation:rule="has(self.prefix) == has(oldSelf.prefix) && (!has(self.prefix) || self.prefix == oldSelf.prefix)",message="prefix is immutable: create another BackupRepository"
type S3Repository struct {
	// endpoint is the URL of the store with its scheme, for example https://s3.example.com.
	// +required
	// +kubebuilder:validation:Pattern=`^https?://[A-Za-z0-9.\[\]:-]+/?$`
	// +kubebuilder:validation:MaxLength=253
	Endpoint string `json:"endpoint"`
	// bucket that is there already. Immutable.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	Bucket string `json:"bucket"`
	// prefix is the folder within the bucket; the bucket itself when left out. Immutable.
	// +optional
	Prefix RepositoryPrefix `json:"prefix,omitempty"`
	// region that requests are signed for; us-east-1 when left out.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]{1,63}$`
	Region string `json:"region,omitempty"`
	// addressingStyle says where the bucket is named: in the Path of the URL, or in its host (VirtualHost). Default Path.
	// +optional
	// +kubebuilder:validation:Enum=Path;VirtualHost
	// +kubebuilder:default=Path
	AddressingStyle AddressingStyle `json:"addressingStyle,omitempty"`
	// credentialsSecretRef names the Secret, in the same namespace, with the keys accessKey and secretKey.
	// +required
	CredentialsSecretRef SecretReference `json:"credentialsSecretRef"`
	// caSecretRef names the key, ca.crt when left out, of a Secret in the same namespace that has the authority of the
	// store's certificate; those of the mover's image when left out.
	// +optional
	CASecretRef *AuthorityReference `json:"caSecretRef,omitempty"`
}

// AddressingStyle says where an S3 request names the bucket.
type AddressingStyle string

// Addressing styles.
const (
	AddressingPath        AddressingStyle = "Path"
	AddressingVirtualHost AddressingStyle = "VirtualHost"
)

// RepositoryPrefix is a relative path of folders.
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`
// +kubebuilder:validation:MaxLength=200
type RepositoryPrefix string

// SecretReference names a Secret in the same namespace.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AuthorityReference names the key of a Secret in the same namespace that has certificates of authorities.
type AuthorityReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key within the Secret. Default ca.crt.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:default=ca.crt
	Key string `json:"key,omitempty"`
}

// VolumeRepository is a folder of a volume.
// +kubebuilder:validation:XValidation:rule="self.claimName == oldSelf.claimName",message="claimName is immutable: create another BackupRepository"
// +kubebuilder:validation:XValidation:rule="has(self.prefix) == has(oldSelf.prefix) && (!has(self.prefix) || self.prefix == oldSelf.prefix)",message="prefix is immutable: create another BackupRepository"
type VolumeRepository struct {
	// claimName names a PersistentVolumeClaim in the same namespace. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// prefix is the folder within the volume; the volume itself when left out. Immutable.
	// +optional
	Prefix RepositoryPrefix `json:"prefix,omitempty"`
}

// NFSRepository is a folder below one that an NFS server exports.
// +kubebuilder:validation:XValidation:rule="self.server == oldSelf.server && self.path == oldSelf.path",message="server and path are immutable: create another BackupRepository"
// +kubebuilder:validation:XValidation:rule="has(self.prefix) == has(oldSelf.prefix) && (!has(self.prefix) || self.prefix == oldSelf.prefix)",message="prefix is immutable: create another BackupRepository"
type NFSRepository struct {
	// server is the name or the address of the NFS server, as the nodes reach it. Immutable.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:MaxLength=253
	Server string `json:"server"`
	// path that it exports. User and group 65532 must be able to write there. Immutable.
	// +required
	// +kubebuilder:validation:Pattern=`^/[A-Za-z0-9._/-]*$`
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`
	// prefix is the folder within it; the exported one itself when left out. Immutable.
	// +optional
	Prefix RepositoryPrefix `json:"prefix,omitempty"`
}

// BackupEncryption has what is kept encrypted before it leaves the mover.
type BackupEncryption struct {
	// passphraseSecretRef names the Secret, in the same namespace, and its key, with the passphrase. Without it nobody
	// reads the backups again: keep it elsewhere, too.
	// +required
	PassphraseSecretRef PassphraseReference `json:"passphraseSecretRef"`
}

// PassphraseReference names the key of a Secret in the same namespace that has a passphrase.
type PassphraseReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key within the Secret. Default passphrase.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:default=passphrase
	Key string `json:"key,omitempty"`
}

// BackupRepositoryStatus is what the operators say of a repository.
type BackupRepositoryStatus struct {
	// domains is what each operator says, by its domain.
	// +optional
	// +listType=map
	// +listMapKey=domain
	Domains []RepositoryState `json:"domains,omitempty"`
	// summary of what all of them say, for printing.
	// +optional
	Summary *RepositorySummary `json:"summary,omitempty"`
}

// RepositorySummary is what all operators together say of a repository, for printing.
type RepositorySummary struct {
	// domains of the operators that say something, such as "database, storage".
	// +optional
	Domains string `json:"domains,omitempty"`
	// ready is True when it is for each of them, else that of the first for which it is not.
	// +optional
	Ready metav1.ConditionStatus `json:"ready,omitempty"`
	// reason is that of the first for which it is not ready, else Ready.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message of the same, with its domain before it where there are several; empty when it is ready.
	// +optional
	Message string `json:"message,omitempty"`
	// lastBackupTime is the latest of theirs.
	// +optional
	LastBackupTime *metav1.Time `json:"lastBackupTime,omitempty"`
}

// RepositoryState is what one operator says of a repository.
type RepositoryState struct {
	// domain of the operator.
	Domain string `json:"domain"`
	// observedGeneration is the generation of the spec that was checked.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ready says whether a mover of this operator could write, read and delete there when it was last checked.
	Ready metav1.ConditionStatus `json:"ready"`
	// reason is one word for machines: Ready, Checking, SecretNotFound, ClaimNotFound, CheckFailed, InUse, or one of the
	// reasons of a mover, such as RepositoryRefused.
	Reason string `json:"reason"`
	// message says what to do.
	// +optional
	Message string `json:"message,omitempty"`
	// lastChecked is when that was.
	// +optional
	LastChecked *metav1.Time `json:"lastChecked,omitempty"`
	// checked is a digest of what was checked: the spec and the Secrets that it names.
	// +optional
	Checked string `json:"checked,omitempty"`
	// freeBytes that a volume had then; absent for a bucket.
	// +optional
	FreeBytes *int64 `json:"freeBytes,omitempty"`
	// lastBackupTime is when a Backup of this operator's domain was last whole there; absent where none was.
	// +optional
	LastBackupTime *metav1.Time `json:"lastBackupTime,omitempty"`
	// inventory is what this operator found when it last compared what is kept with the Backups that there are; absent
	// where another one did so since.
	// +optional
	Inventory *RepositoryInventory `json:"inventory,omitempty"`
}

// RepositoryInventory is how what is kept of a namespace compares with the Backups of it. Nothing is deleted for it.
type RepositoryInventory struct {
	// tried is when it was last looked, whatever came of it.
	Tried metav1.Time `json:"tried"`
	// time of what follows, but for message; absent while nothing is known.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// kept is how many backups there are in the repository.
	// +optional
	Kept int32 `json:"kept,omitempty"`
	// keptBytes is the size of all files there that are of backups, whole ones and what is left of others, with those that
	// restic keeps for several.
	// +optional
	KeptBytes int64 `json:"keptBytes,omitempty"`
	// orphans is how many of them no Backup speaks of.
	// +optional
	Orphans int32 `json:"orphans,omitempty"`
	// orphanKeys are the folders of the first 50 of the orphans.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	OrphanKeys []string `json:"orphanKeys,omitempty"`
	// leftovers is how many folders there are that have no manifest, so that nothing can be restored from them, and that
	// no Backup speaks of.
	// +optional
	Leftovers int32 `json:"leftovers,omitempty"`
	// missing is how many Backups are Completed and have nothing in the repository.
	// +optional
	Missing int32 `json:"missing,omitempty"`
	// missingBackups are the names of the first 100 of those.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	MissingBackups []string `json:"missingBackups,omitempty"`
	// message says why it could not be compared when it was last tried; empty when it could.
	// +optional
	Message string `json:"message,omitempty"`
	// import is how far the import of the orphans is; absent while none is asked for.
	// +optional
	Import *RepositoryImport `json:"import,omitempty"`
}

// BackupRepository is a place where Backups of its namespace are kept. Every operator reads it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=zbr,categories=zeroinfra
// +kubebuilder:printcolumn:name="Bucket",type=string,JSONPath=`.spec.s3.bucket`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.persistentVolumeClaim.claimName`
// +kubebuilder:printcolumn:name="Server",type=string,JSONPath=`.spec.nfs.server`
// +kubebuilder:printcolumn:name="Domains",type=string,JSONPath=`.status.summary.domains`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.summary.ready`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.summary.reason`
// +kubebuilder:printcolumn:name="LastBackup",type=string,JSONPath=`.status.summary.lastBackupTime`,priority=1
// +kubebuilder:printcolumn:name="Bytes",type=string,JSONPath=`.status.domains[*].inventory.keptBytes`,priority=1
// +kubebuilder:printcolumn:name="Kept",type=string,JSONPath=`.status.domains[*].inventory.kept`,priority=1
// +kubebuilder:printcolumn:name="Orphans",type=string,JSONPath=`.status.domains[*].inventory.orphans`,priority=1
// +kubebuilder:printcolumn:name="Imported",type=string,JSONPath=`.status.domains[*].inventory.import.imported`,priority=1
// +kubebuilder:printcolumn:name="Missing",type=string,JSONPath=`.status.domains[*].inventory.missing`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.summary.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of a BackupRepository has at most 63 characters"
type BackupRepository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec BackupRepositorySpec `json:"spec"`
	// +optional
	Status BackupRepositoryStatus `json:"status,omitzero"`
}

// BackupRepositoryList is a list of BackupRepositories.
// +kubebuilder:object:root=true
type BackupRepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupRepository `json:"items"`
}

// Inventory is the latest comparison of what is kept with the Backups that there are, whichever operator made it; nil
// while there is none.
func (r *BackupRepository) Inventory() *RepositoryInventory {
	var latest *RepositoryInventory
	for i := range r.Status.Domains {
		if one := r.Status.Domains[i].Inventory; one != nil && (latest == nil || latest.Tried.Before(&one.Tried)) {
			latest = one
		}
	}
	return latest
}
