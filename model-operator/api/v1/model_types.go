// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// ModelSpec describes a model: its versions, and which of them is in which stage.
// +kubebuilder:validation:XValidation:rule="!has(self.stages) || self.stages.all(stage, self.versions.exists(version, version.name == self.stages[stage]))",fieldPath=".stages",message="a stage names a version that is not in versions: add the version, or name another one"
// +kubebuilder:validation:XValidation:rule="self.format == oldSelf.format",message="format is immutable: create another Model"
// +kubebuilder:validation:XValidation:rule="has(self.verification) || self.versions.all(version, !has(version.signature))",fieldPath=".versions",message="signatures are verified by a public key: set verification.publicKey, or take signature out of all versions"
// +kubebuilder:validation:XValidation:rule="!has(self.cache) || self.versions.all(version, has(version.source.http) || has(version.source.s3))",fieldPath=".cache",message="only files of web servers and buckets are cached: one on a claim is mounted where it is, and one of an image is read by each pod, so take cache out, or have another Model for these versions"
// +kubebuilder:validation:XValidation:rule="!has(self.cache) || !has(oldSelf.cache) || self.cache.storage == oldSelf.cache.storage",fieldPath=".cache.storage",message="storage is immutable: take cache out, wait until its Dataset is gone, and set it again"
type ModelSpec struct {
	// format of the files of all versions. The runtime llama-cpp serves GGUF, and onnxruntime ONNX. Immutable.
	// +required
	// +kubebuilder:validation:Enum=GGUF;Safetensors;ONNX
	Format ModelFormat `json:"format"`
	// framework that the model was made with, such as pytorch.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Framework string `json:"framework,omitempty"`
	// licence of the weights, best by its SPDX identifier, such as Apache-2.0.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Licence string `json:"licence,omitempty"`
	// lineage says where the model comes from.
	// +optional
	Lineage *ModelLineage `json:"lineage,omitempty"`
	// verification demands of each version a signature by a key. A version without a good one is refused, and not served.
	// +optional
	Verification *ModelVerification `json:"verification,omitempty"`
	// versions of the model. One can be added at any time, never changes, and can be taken out while nobody uses it.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Versions []ModelVersion `json:"versions"`
	// stages that versions are in, by name: Staging, Production and Archived. An Inference that names a stage follows it
	// to another version by a rolling update.
	// +optional
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(stage, stage in ['Staging', 'Production', 'Archived'])",message="stages are Staging, Production and Archived"
	Stages map[ModelStage]ModelVersionName `json:"stages,omitempty"`
	// cache keeps the files of versions on claims, from which pods read them. Versions that are in a stage, or that an
	// Inference uses, are fetched once, before they are served, and removed once neither is so. Each pod downloads its
	// files when left out.
	// +optional
	Cache *ModelCache `json:"cache,omitempty"`
	// requires are Models of the same namespace without which this one is of no use, such as the base of an adapter.
	// The Model is not ready while one of them does not exist, none of them can be deleted meanwhile, and a version goes
	// to another stage only once all of them are there.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Requires []ModelReference `json:"requires,omitempty"`
	// minimum is what an Inference needs at least to have servers of the model: as the one that it serves, as that of its
	// canary, or as an adapter. One that has less is refused: it gets no pods, and those that it has stay as they are.
	// Versions go to stages all the same.
	// +optional
	Minimum *ModelMinimum `json:"minimum,omitempty"`
}

// ModelFormat is the format of the files of a model.
type ModelFormat string

// FormatGGUF is the format of llama.cpp.
const FormatGGUF ModelFormat = "GGUF"

// ModelStage is a step in the life of a version.
// +kubebuilder:validation:MaxLength=16
type ModelStage string

// StageArchived is the stage of versions that are kept and not to be served any more.
const StageArchived ModelStage = "Archived"

// ModelVersionName is the name of a version within a Model.
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
// +kubebuilder:validation:MaxLength=63
type ModelVersionName string

// ModelReference names a Model in the same namespace.
type ModelReference struct {
	// name of the Model.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ModelLineage says where a model comes from. Names are notes: nothing is read from what they name.
type ModelLineage struct {
	// trainedBy is the run that made the model.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TrainedBy string `json:"trainedBy,omitempty"`
	// dataset that it was trained on.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Dataset string `json:"dataset,omitempty"`
	// parent is the model that it was made from.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Parent string `json:"parent,omitempty"`
}

// ModelVerification says who signs the versions of a model.
type ModelVerification struct {
	// publicKey by which the signatures of all versions are verified, in PEM, as "openssl pkey -pubout" and "cosign
	// generate-key-pair" write it: an ECDSA key on the curve P-256, or an RSA key of 2048 to 4096 bits. For another key,
	// change it together with the signatures of all versions.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.startsWith('-----BEGIN PUBLIC KEY-----')",message="publicKey must begin with -----BEGIN PUBLIC KEY-----: write the public key in PEM (openssl pkey -pubout). A private key belongs in no Model"
	PublicKey string `json:"publicKey"`
}

// ModelVersion is one file of weights.
// +kubebuilder:validation:XValidation:rule="self.sha256 == oldSelf.sha256 && self.source == oldSelf.source && has(self.size) == has(oldSelf.size) && (!has(self.size) || self.size == oldSelf.size) && has(self.parameters) == has(oldSelf.parameters) && (!has(self.parameters) || self.parameters == oldSelf.parameters)",message="a version is immutable but for its signature: add another version, and move the stage to it"
type ModelVersion struct {
	// name of the version, such as 1.0 or q4.
	// +required
	Name ModelVersionName `json:"name"`
	// sha256 is the digest of the file, as 64 hexadecimal digits in lower case. It is verified before the file is served.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256"`
	// signature of the file by the key of verification, in base64 on one line: ECDSA in ASN.1, or RSA PKCS #1 v1.5, over
	// the SHA-256 digest, as "openssl dgst -sha256 -sign" and "cosign sign-blob --key" make it. Required with
	// verification.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9+/]+={0,2}$`
	// +kubebuilder:validation:MinLength=16
	// +kubebuilder:validation:MaxLength=684
	Signature string `json:"signature,omitempty"`
	// size of the file, to the byte. It is verified where it is set, and nothing larger is downloaded.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('10T')) <= 0",message="size must be above 0 and at most 10T"
	Size *resource.Quantity `json:"size,omitempty"`
	// parameters say what weights the file has. They are notes for people and for tools that read the registry.
	// +optional
	Parameters *ModelParameters `json:"parameters,omitempty"`
	// source of the file.
	// +required
	Source ModelSource `json:"source"`
}

// ModelParameters say what weights a file has.
// +kubebuilder:validation:MinProperties=1
type ModelParameters struct {
	// count of them, such as 350M, 1.1B or 1T: in thousands, millions, billions or trillions.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]{1,4}([.][0-9]{1,3})?[KMBT]?$`
	// +kubebuilder:validation:MaxLength=9
	Count string `json:"count,omitempty"`
	// quantisation of them, such as Q4_K_M or F16.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Quantisation string `json:"quantisation,omitempty"`
}

// ModelSource is where a file is.
// +kubebuilder:validation:XValidation:rule="[has(self.http), has(self.pvc), has(self.s3), has(self.oci)].filter(set, set).size() == 1",message="set exactly one of http, pvc, s3 and oci"
type ModelSource struct {
	// http is a file that a web server has. Each pod downloads it, or the cache does.
	// +optional
	HTTP *ModelHTTPSource `json:"http,omitempty"`
	// pvc is a file on a claim, which pods mount for reading.
	// +optional
	PVC *ModelPVCSource `json:"pvc,omitempty"`
	// s3 is an object in a bucket. Each pod downloads it, or the cache does.
	// +optional
	S3 *ModelS3Source `json:"s3,omitempty"`
	// oci is a file of an image in a registry. Each pod downloads it.
	// +optional
	OCI *ModelOCISource `json:"oci,omitempty"`
}

// ModelHTTPSource is a file that a web server has.
// +kubebuilder:validation:XValidation:rule="!(has(self.caSecretRef) || has(self.tokenSecretRef) || has(self.credentialsSecretRef)) || self.url.startsWith('https://')",fieldPath=".url",message="caSecretRef, tokenSecretRef and credentialsSecretRef need a url of the scheme https"
// +kubebuilder:validation:XValidation:rule="!has(self.tokenSecretRef) || !has(self.credentialsSecretRef)",message="set at most one of tokenSecretRef and credentialsSecretRef"
type ModelHTTPSource struct {
	// url of the file, of the scheme http or https. It is no place for a password: whoever may read the Model reads it.
	// +required
	// +kubebuilder:validation:Pattern="^https?://[^ \"<>\\\\^`{|}]+$"
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

// ModelPVCSource is a file on a claim.
type ModelPVCSource struct {
	// claimName is a PersistentVolumeClaim of the same namespace. Pods on several nodes need one with ReadWriteMany or
	// ReadOnlyMany.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// path of the file on the volume, such as chat/q4.gguf.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9._/-]*$`
	// +kubebuilder:validation:MaxLength=500
	// +kubebuilder:validation:XValidation:rule="!self.contains('..')",message="path cannot hold two dots in a row"
	Path string `json:"path"`
}

// ModelS3Source is an object in a bucket.
// +kubebuilder:validation:XValidation:rule="!has(self.caSecretRef) || self.endpoint.startsWith('https://')",fieldPath=".endpoint",message="caSecretRef needs an endpoint of the scheme https"
type ModelS3Source struct {
	// endpoint of the storage as a URL without a path, such as https://s3.example.com:9000.
	// +required
	// +kubebuilder:validation:Pattern=`^https?://([A-Za-z0-9]([A-Za-z0-9.-]{0,240}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(:[1-9][0-9]{0,4})?$`
	// +kubebuilder:validation:MaxLength=300
	Endpoint string `json:"endpoint"`
	// region that requests are signed for. Default us-east-1.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]{1,63}$`
	Region string `json:"region,omitempty"`
	// bucket with the object.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	Bucket string `json:"bucket"`
	// key is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Key string `json:"key"`
	// credentialsSecretRef names the Secret, in the same namespace, with the keys accessKey and secretKey. Requests are
	// not signed when left out.
	// +optional
	CredentialsSecretRef *platformv1.SecretReference `json:"credentialsSecretRef,omitempty"`
	// caSecretRef names the Secret, in the same namespace, with certificates of authorities in PEM that count beside those
	// of the system. The endpoint has to be of the scheme https.
	// +optional
	CASecretRef *platformv1.AuthorityReference `json:"caSecretRef,omitempty"`
}

// ModelOCISource is a file of an OCI image or artifact. It is read from the registry by the pod itself, and not by the
// kubelet: settings of nodes for registries do not count, and nothing of the image is run.
type ModelOCISource struct {
	// image with the host of its registry, such as registry.example.com/models/chat:1.0, best by its digest.
	// +required
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[1-9][0-9]{0,4})?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`
	// +kubebuilder:validation:MaxLength=500
	// +kubebuilder:validation:XValidation:rule="self.split('/')[0].contains('.') || self.split('/')[0].contains(':')",message="image must begin with the host of its registry, such as registry.example.com/"
	Image string `json:"image"`
	// path of the file in the file system of the image, such as models/q4.gguf. Of an artifact that is no file system it
	// is the title of the layer that is the file.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9._/-]*$`
	// +kubebuilder:validation:MaxLength=500
	// +kubebuilder:validation:XValidation:rule="!self.contains('..')",message="path cannot hold two dots in a row"
	Path string `json:"path"`
	// pullSecretRef names the Secret, in the same namespace and of the type kubernetes.io/dockerconfigjson, by which
	// pods log in at the registry. They do not log in when left out.
	// +optional
	PullSecretRef *platformv1.SecretReference `json:"pullSecretRef,omitempty"`
	// caSecretRef names the Secret, in the same namespace, with certificates of authorities in PEM that count beside those
	// of the system.
	// +optional
	CASecretRef *platformv1.AuthorityReference `json:"caSecretRef,omitempty"`
}

// ModelStatus is what is known of a model.
type ModelStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase in one word, for printing: Ready, Pending, Stalled or Deleting.
	// +optional
	Phase platformv1.Phase `json:"phase,omitempty"`
	// conditions: Ready (all that it requires exists, all versions are verified, and the cache has what it is to have),
	// Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// versions as in the spec, with their stages and users.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Versions []ModelVersionStatus `json:"versions,omitempty"`
	// versionNames are the names of the versions in one text, for printing, such as 1.0, 2.0: the first five, in the order
	// of the spec, and how many there are beside them.
	// +optional
	// +kubebuilder:validation:MaxLength=400
	VersionNames string `json:"versionNames,omitempty"`
	// cached is how many versions the cache has, of those that it is to have, such as 1/2. Absent without cache.
	// +optional
	Cached string `json:"cached,omitempty"`
	// inUse is how many objects use the model: Inferences, and Models that require it.
	// +optional
	InUse int32 `json:"inUse"`
}

// ModelSignatureState says whether a signature is verified.
// +kubebuilder:validation:Enum=Verified;NotVerified
type ModelSignatureState string

// States of signatures.
const (
	// SignatureVerified: it is a signature of the file by the key of the Model.
	SignatureVerified ModelSignatureState = "Verified"
	// SignatureNotVerified: it is not, or the version has none. No Inference begins to serve the version.
	SignatureNotVerified ModelSignatureState = "NotVerified"
)

// Reasons of Models. Model and Inference have them.
const (
	// ReasonVersionNotVerified: a version of a Model that has verification.publicKey has no signature by that key. No
	// Inference begins to serve the version, and what runs goes on. Sign the file of the version that the message names,
	// or correct the key.
	ReasonVersionNotVerified = "VersionNotVerified"
)

// ModelVersionStatus is what is known of a version.
type ModelVersionStatus struct {
	// name of the version.
	// +required
	Name ModelVersionName `json:"name"`
	// stages that it is in, in the order of the alphabet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Stages []ModelStage `json:"stages,omitempty"`
	// signature says whether that of the version is verified: Verified or NotVerified; absent without verification.
	// +optional
	Signature ModelSignatureState `json:"signature,omitempty"`
	// cache says whether the file of the version is in the cache. Absent for a version that is not to be there.
	// +optional
	Cache *ModelVersionCache `json:"cache,omitempty"`
	// inUse is how many Inferences serve the version, or are to serve it. While it is not 0 the version cannot be taken
	// out of the spec.
	// +optional
	InUse int32 `json:"inUse"`
}

// Model is a registered model: versions by their digest, where their files are, and which of them is in which stage.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=models,singular=model,categories=zeroinfra
// +kubebuilder:printcolumn:name="Format",type=string,JSONPath=`.spec.format`
// +kubebuilder:printcolumn:name="Versions",type=string,JSONPath=`.status.versionNames`
// +kubebuilder:printcolumn:name="Staging",type=string,JSONPath=`.spec.stages.Staging`
// +kubebuilder:printcolumn:name="Production",type=string,JSONPath=`.spec.stages.Production`
// +kubebuilder:printcolumn:name="Archived",type=string,JSONPath=`.spec.stages.Archived`
// +kubebuilder:printcolumn:name="Cached",type=string,JSONPath=`.status.cached`,priority=1
// +kubebuilder:printcolumn:name="In-Use",type=integer,JSONPath=`.status.inUse`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.versions) || self.status.versions.all(known, known.inUse == 0 || self.spec.versions.exists(version, version.name == known.name))",message="a version that an Inference uses cannot be taken out of spec.versions: move its stage to another version, or delete the Inferences, and wait until status.versions has inUse 0 for it"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.cache) || self.metadata.name.size() <= 34 && !self.metadata.name.contains('.')",message="the name of a Model with cache has at most 34 characters and no dots: names of its claims have it"
type Model struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want.
	// +required
	Spec ModelSpec `json:"spec"`
	// status is what there is; the operator writes it.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status ModelStatus `json:"status,omitzero"`
}

// ModelList is a list of models.
// +kubebuilder:object:root=true
type ModelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Model `json:"items"`
}
