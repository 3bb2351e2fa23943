// SPDX-License-Identifier: Apache-2.0

package v1

// TLS has the middleware speak TLS with a certificate of cert-manager, and nothing else.
type TLS struct {
	// enabled has clients reach the instance over TLS only. A change replaces the pods, one after the other.
	// +required
	Enabled bool `json:"enabled"`
	// issuerRef names the issuer of the certificates. It must give the certificate of its CA along with each. Without it,
	// the instance has a CA of its own. A change has the certificates issued anew and replaces no pod.
	// +optional
	IssuerRef *IssuerReference `json:"issuerRef,omitempty"`
}

// IssuerReference names an issuer of cert-manager.
type IssuerReference struct {
	// name of the issuer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// kind of the issuer: Issuer, in the same namespace, or ClusterIssuer; an external issuer has a kind of its own.
	// Default Issuer.
	// +optional
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// group of the issuer. Default cert-manager.io.
	// +optional
	// +kubebuilder:default=cert-manager.io
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
}

// On says whether TLS is wanted.
func (t *TLS) On() bool { return t != nil && t.Enabled }
