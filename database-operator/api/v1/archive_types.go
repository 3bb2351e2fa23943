// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// LogArchive is where the log of a database is kept: a BackupRepository, or a bucket of an object storage that speaks
// S3. Nothing is ever written over or deleted there.
// +kubebuilder:validation:XValidation:rule="has(self.repositoryRef) != has(self.bucket)",message="exactly one of archive.repositoryRef and archive.bucket says where the log is kept"
// +kubebuilder:validation:XValidation:rule="!has(self.bucket) || has(self.endpoint) && has(self.accessKey) && has(self.secretKeyFrom)",message="archive.bucket needs archive.endpoint, archive.accessKey and archive.secretKeyFrom"
// +kubebuilder:validation:XValidation:rule="has(self.bucket) || !has(self.endpoint) && !has(self.prefix) && !has(self.region) && !has(self.addressing) && !has(self.accessKey) && !has(self.secretKeyFrom) && !has(self.caFrom)",message="archive.endpoint, prefix, region, addressing, accessKey, secretKeyFrom and caFrom are for archive.bucket: the BackupRepository of archive.repositoryRef has what leads to it"
// +kubebuilder:validation:XValidation:rule="!has(self.caFrom) || has(self.endpoint) && self.endpoint.startsWith('https:')",message="archive.caFrom is for an endpoint that begins with https"
type LogArchive struct {
	// repositoryRef names the BackupRepository, in the same namespace, that the log is kept in: on a volume, on NFS or in
	// a bucket, in the folder _archive/<namespace>/<Application> below its prefix. It cannot be encrypted, and with
	// several pods its volume has to be one that several nodes can mount. The condition ArchiveFound says whether it is
	// there.
	// +optional
	RepositoryRef *platformv1.RepositoryReference `json:"repositoryRef,omitempty"`
	// endpoint of the storage, for example https://s3.eu-central-1.amazonaws.com or http://minio.storage.svc:9000.
	// +optional
	// +kubebuilder:validation:Pattern=`^https?://([a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?$`
	// +kubebuilder:validation:MaxLength=270
	Endpoint string `json:"endpoint,omitempty"`
	// bucket, which is there.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket,omitempty"`
	// prefix of all names in the bucket. It is for one instance. Default <namespace>/<Application>.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}){0,7}$`
	// +kubebuilder:validation:MaxLength=512
	Prefix string `json:"prefix,omitempty"`
	// region of the bucket. Default us-east-1, which storages take that know none.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]{1,64}$`
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`
	// addressing says where the bucket is in an address: in the Path, in the name of the host (Virtual), or as the storage
	// is known to want it (Auto). Default Auto.
	// +optional
	Addressing ArchiveAddressing `json:"addressing,omitempty"`
	// accessKey names the account.
	// +optional
	// +kubebuilder:validation:Pattern=`^[!-~]{3,128}$`
	// +kubebuilder:validation:MaxLength=128
	AccessKey string `json:"accessKey,omitempty"`
	// secretKeyFrom names a Secret in the same namespace and the key that holds the account's secret key. A change of it
	// is taken over as it is.
	// +optional
	SecretKeyFrom platformv1.SecretKeyReference `json:"secretKeyFrom,omitzero"`
	// caFrom names a Secret in the same namespace and the key that holds the certificate, as PEM, of the CA that the
	// storage's leads to. That of the system when left out.
	// +optional
	CAFrom *platformv1.SecretKeyReference `json:"caFrom,omitempty"`
	// timeout after which log is archived that fills no file: so much can be lost with all volumes. From 1s to 24h.
	// Default 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="archive.timeout must be from 1s to 24h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// ArchiveAddressing says where the name of a bucket is in an address.
// +kubebuilder:validation:Enum=Auto;Path;Virtual
type ArchiveAddressing string

// Ways of addressing.
const (
	ArchiveAddressingAuto    ArchiveAddressing = "Auto"
	ArchiveAddressingPath    ArchiveAddressing = "Path"
	ArchiveAddressingVirtual ArchiveAddressing = "Virtual"
)
