// SPDX-License-Identifier: Apache-2.0

package v1

import platformv1 "github.com/zeroinfra/platform-core/api/v1"

// ObjectStorageExternal says where a storage is that is only referenced, and who looks after its buckets there.
// +kubebuilder:validation:XValidation:rule="self.endpoint == oldSelf.endpoint",message="external.endpoint is immutable, since the buckets are where it says: create another ObjectStorage, with adopt: true for the buckets that are there"
// +kubebuilder:validation:XValidation:rule="self.region == oldSelf.region",message="external.region is immutable, since the buckets are there: create another ObjectStorage, with adopt: true for the buckets that are there"
// +kubebuilder:validation:XValidation:rule="!has(self.caSecretRef) || self.endpoint.startsWith('https://')",message="external.caSecretRef is the authority of a certificate, and over http there is none: set external.endpoint to https, or take caSecretRef out"
type ObjectStorageExternal struct {
	// endpoint is the URL of the storage with its scheme and without a path, for example https://s3.example.com. Pods have
	// to reach it. Immutable.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[1-9][0-9]{0,4})?$')",message="external.endpoint must be a URL of a scheme and a host, such as https://s3.example.com:9000, without a path"
	Endpoint string `json:"endpoint"`
	// region that requests are signed for, and buckets are made in. Default us-east-1. Immutable.
	// +optional
	// +kubebuilder:default=us-east-1
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]{1,63}$`
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
	// addressingStyle says where a bucket is named: in the Path of the URL, or in its host (VirtualHost). Default Path.
	// +optional
	// +kubebuilder:validation:Enum=Path;VirtualHost
	// +kubebuilder:default=Path
	AddressingStyle platformv1.AddressingStyle `json:"addressingStyle,omitempty"`
	// credentialsSecretRef names the Secret, in the same namespace, with the keys accessKey and secretKey. The account has
	// to be allowed to make buckets and to read and change what they are. A change of the Secret is followed.
	// +required
	CredentialsSecretRef platformv1.SecretReference `json:"credentialsSecretRef"`
	// caSecretRef names the key, ca.crt when left out, of a Secret in the same namespace that has the authority of the
	// storage's certificate; the ones that everybody knows when left out.
	// +optional
	CASecretRef *platformv1.AuthorityReference `json:"caSecretRef,omitempty"`
}
