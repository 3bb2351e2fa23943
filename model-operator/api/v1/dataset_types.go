// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// DatasetSpec describes a dataset: its versions, and the volumes that they are kept on.
// +kubebuilder:validation:XValidation:rule="self.storage == oldSelf.storage",fieldPath=".storage",message="storage is immutable: set size of a version, or create another Dataset"
// +kubebuilder:validation:XValidation:rule="self.versions.all(v, !has(v.from) || v.from.version != v.name && self.versions.exists(o, o.name == v.from.version))",fieldPath=".versions",message="from.version names the version itself or one that is not in versions: add that version, or name another one"
type DatasetSpec struct {
	// serviceAccountName is the account, in the same namespace, that makes the pods which prepare versions: it needs the
	// verb create on jobs. Who sets it, or adds a version, needs the verb impersonate on it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName"`
	// storage of the claims that versions are kept on. Immutable.
	// +required
	Storage DatasetStorage `json:"storage"`
	// versions of the dataset. One can be added at any time, never changes, and can be taken out while nobody uses it.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Versions []DatasetVersion `json:"versions"`
	// maxSize of the claims of all versions together. A version for which there is no room is not prepared. No limit when
	// left out.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="maxSize must be above 0"
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`
	// retention says which claims go, and when. All stay when left out.
	// +optional
	Retention *DatasetRetention `json:"retention,omitempty"`
}

// DatasetStorage is what claims are made of.
type DatasetStorage struct {
	// size of the claim of each version that names no other. Nothing larger is prepared.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be above 0"
	Size resource.Quantity `json:"size"`
	// storageClassName of the claims. The default class of the cluster when left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
	// accessMode of the claims: ReadWriteOnce has the readers of a version on one node, ReadWriteMany on any, where the
	// storage class can do that. Readers mount a claim read-only either way. Default ReadWriteOnce.
	// +optional
	// +kubebuilder:default=ReadWriteOnce
	AccessMode DatasetAccessMode `json:"accessMode,omitempty"`
}

// DatasetAccessMode is an access mode of claims.
// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteMany
type DatasetAccessMode string

// DatasetRetention says which claims go, and when.
// +kubebuilder:validation:XValidation:rule="!has(self.keep) && !has(self.expireAfter) || has(self.deletionPolicy) && self.deletionPolicy == 'Delete'",message="keep and expireAfter delete claims: set deletionPolicy: Delete with them"
type DatasetRetention struct {
	// deletionPolicy says what becomes of the claim of a version that is taken out, and of all claims when the Dataset is
	// deleted: Retain or Delete. A claim that a pod mounts stays until no pod does. Default Retain.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DatasetDeletionPolicy `json:"deletionPolicy,omitempty"`
	// keep is how many versions keep their claims: those that were prepared last. All do when left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	Keep *int32 `json:"keep,omitempty"`
	// expireAfter is how long a version keeps its claim after it was prepared. For ever when left out.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="expireAfter must be at least 1m"
	ExpireAfter *metav1.Duration `json:"expireAfter,omitempty"`
}

// DatasetDeletionPolicy says what becomes of claims.
// +kubebuilder:validation:Enum=Retain;Delete
type DatasetDeletionPolicy string

// Deletion policies of a Dataset.
const (
	// DatasetRetain keeps the claims; the operator touches them no more.
	DatasetRetain DatasetDeletionPolicy = "Retain"
	// DatasetDelete deletes them with all that is on them.
	DatasetDelete DatasetDeletionPolicy = "Delete"
)

// DatasetVersionName is the name of a version within a Dataset.
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
// +kubebuilder:validation:MaxLength=40
type DatasetVersionName string

// DatasetVersion is a set of files that never changes.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a version is immutable: add another version"
// +kubebuilder:validation:XValidation:rule="has(self.source) != has(self.from)",message="set exactly one of source and from"
// +kubebuilder:validation:XValidation:rule="has(self.source) == (has(self.files) || has(self.manifest)) && !(has(self.files) && has(self.manifest))",message="a version with a source has exactly one of files and manifest, and one that is made from another has none"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || !has(self.source) || !has(self.source.pvc)",message="size is of a claim that is made, and none is for source.pvc: take size out"
type DatasetVersion struct {
	// name of the version, such as 1.0 or 2026-01.
	// +required
	Name DatasetVersionName `json:"name"`
	// size of the claim of the version. That of storage when left out.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be above 0"
	Size *resource.Quantity `json:"size,omitempty"`
	// files of the version.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Files []DatasetFile `json:"files,omitempty"`
	// manifest is a file of the source that names the files, as sha256sum prints them. Its digest stands for all of them.
	// +optional
	Manifest *DatasetManifest `json:"manifest,omitempty"`
	// source of the files.
	// +optional
	Source *DatasetSource `json:"source,omitempty"`
	// from has the version made from another one.
	// +optional
	From *DatasetFrom `json:"from,omitempty"`
}

// DatasetPath is the path of a file within a version, such as train/part-0.csv.
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9._=@+,~ /-]*$`
// +kubebuilder:validation:MaxLength=250
// +kubebuilder:validation:XValidation:rule="!self.contains('..') && !self.contains('//') && !self.contains('/./') && !self.endsWith('/') && !self.endsWith('/.')",message="a path has no two dots or slashes in a row, and ends with the name of a file"
type DatasetPath string

// DatasetFile is a file of a version.
type DatasetFile struct {
	// path of the file within the version and at its source.
	// +required
	Path DatasetPath `json:"path"`
	// sha256 is the digest of the file, as 64 hexadecimal digits in lower case. It is always verified.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256"`
	// size of the file, to the byte. It is verified where it is set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isInteger() && quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be a whole number of bytes above 0"
	Size *resource.Quantity `json:"size,omitempty"`
}

// DatasetManifest is a file that names the files of a version.
type DatasetManifest struct {
	// path of the manifest at the source. It is not part of the version.
	// +required
	Path DatasetPath `json:"path"`
	// sha256 is the digest of the manifest, as 64 hexadecimal digits in lower case.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256"`
}

// DatasetSource is where the files of a version are.
// +kubebuilder:validation:XValidation:rule="[has(self.http), has(self.pvc), has(self.s3)].filter(set, set).size() == 1",message="set exactly one of http, pvc and s3"
type DatasetSource struct {
	// http is a web server that has the files. They are fetched to a claim of the version.
	// +optional
	HTTP *DatasetHTTPSource `json:"http,omitempty"`
	// s3 is a bucket with the files. They are fetched to a claim of the version.
	// +optional
	S3 *DatasetS3Source `json:"s3,omitempty"`
	// pvc is a claim that has the files, of NFS for example. They are verified and stay there: the claim is that of the
	// version, and is never deleted.
	// +optional
	PVC *DatasetPVCSource `json:"pvc,omitempty"`
}

// DatasetHTTPSource is a web server.
// +kubebuilder:validation:XValidation:rule="!(has(self.caSecretRef) || has(self.tokenSecretRef) || has(self.credentialsSecretRef)) || self.url.startsWith('https://')",fieldPath=".url",message="caSecretRef, tokenSecretRef and credentialsSecretRef need a url of the scheme https"
// +kubebuilder:validation:XValidation:rule="!has(self.tokenSecretRef) || !has(self.credentialsSecretRef)",message="set at most one of tokenSecretRef and credentialsSecretRef"
type DatasetHTTPSource struct {
	// url that the path of each file is added to, of the scheme http or https and without a query. It is no place for a
	// password: whoever may read the Dataset reads it.
	// +required
	// +kubebuilder:validation:Pattern="^https?://[^ \"<>\\\\^`{|}?#$]+$"
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
	// caSecretRef names the Secret, in the same namespace, with certificates of authorities in PEM that count beside those
	// of the system. The url has to be of the scheme https.
	// +optional
	CASecretRef *platformv1.AuthorityReference `json:"caSecretRef,omitempty"`
	// tokenSecretRef names the key of a Secret, in the same namespace, with the bearer token that the web server is shown.
	// It goes to the host of the url alone, which is of the scheme https.
	// +optional
	TokenSecretRef *platformv1.SecretKeyReference `json:"tokenSecretRef,omitempty"`
	// credentialsSecretRef names the Secret, in the same namespace, with the keys username and password, as Secrets of the
	// type kubernetes.io/basic-auth have them. They go to the host of the url alone, which is of the scheme https.
	// +optional
	CredentialsSecretRef *platformv1.SecretReference `json:"credentialsSecretRef,omitempty"`
}

// DatasetS3Source is a part of a bucket.
// +kubebuilder:validation:XValidation:rule="!has(self.caSecretRef) || self.endpoint.startsWith('https://')",fieldPath=".endpoint",message="caSecretRef needs an endpoint of the scheme https"
type DatasetS3Source struct {
	// endpoint of the storage as a URL without a path, such as https://s3.example.com:9000.
	// +required
	// +kubebuilder:validation:Pattern=`^https?://([A-Za-z0-9]([A-Za-z0-9.-]{0,240}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(:[1-9][0-9]{0,4})?$`
	// +kubebuilder:validation:MaxLength=300
	Endpoint string `json:"endpoint"`
	// region that requests are signed for. Default us-east-1.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]{1,63}$`
	Region string `json:"region,omitempty"`
	// bucket with the objects.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	Bucket string `json:"bucket"`
	// prefix of the names of the objects, before the path of each file, such as sets/digits/.
	// +optional
	// +kubebuilder:validation:Pattern=`^[^${}\x00-\x1f]*$`
	// +kubebuilder:validation:MaxLength=700
	Prefix string `json:"prefix,omitempty"`
	// credentialsSecretRef names the Secret, in the same namespace, with the keys accessKey and secretKey. Requests are
	// not signed when left out.
	// +optional
	CredentialsSecretRef *platformv1.SecretReference `json:"credentialsSecretRef,omitempty"`
	// caSecretRef names the Secret, in the same namespace, with certificates of authorities in PEM that count beside those
	// of the system. The endpoint has to be of the scheme https.
	// +optional
	CASecretRef *platformv1.AuthorityReference `json:"caSecretRef,omitempty"`
}

// DatasetPVCSource is a folder on a claim.
type DatasetPVCSource struct {
	// claimName is a PersistentVolumeClaim of the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// path of the folder on the volume, such as sets/digits. The root of the volume when left out.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9._/-]*$`
	// +kubebuilder:validation:MaxLength=500
	// +kubebuilder:validation:XValidation:rule="!self.contains('..')",message="path cannot hold two dots in a row"
	Path string `json:"path,omitempty"`
}
