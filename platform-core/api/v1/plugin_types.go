// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CanonicalPluginVersion returns the version of a plugin as it is compared: v1.0.0 and 1.0.0 are one version, 1.0.0.
func CanonicalPluginVersion(version string) string { return strings.TrimPrefix(version, "v") }

// PluginSpec names a bundle that an operator found in its namespace.
type PluginSpec struct {
	// plugin is the name of the middleware's plugin.
	// +required
	Plugin string `json:"plugin"`
	// version of the bundle.
	// +required
	Version string `json:"version"`
	// domain that the bundle declares; empty when its manifest cannot be read.
	// +optional
	Domain string `json:"domain,omitempty"`
}

// PluginStatus is the state of a bundle.
type PluginStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready and Accepted; Stalled when refused.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// digest of the bundle: "sha256:" and 64 hexadecimal digits.
	// +optional
	Digest string `json:"digest,omitempty"`
	// shortDigest is what people compare of the digest: its first 12 digits.
	// +optional
	ShortDigest string `json:"shortDigest,omitempty"`
	// instances is the number of Applications that name this version of the plugin, as the operator of its domain sees
	// them.
	// +optional
	Instances int32 `json:"instances"`
	// supportedVersions of the middleware.
	// +optional
	// +listType=atomic
	SupportedVersions []string `json:"supportedVersions,omitempty"`
	// errors that had the bundle refused, each as "file:line: what is wrong".
	// +optional
	// +listType=atomic
	Errors []string `json:"errors,omitempty"`
}

// Plugin is the published state of one bundle. The operator that found the bundle writes it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=zplugin,categories=zeroinfra
// +kubebuilder:printcolumn:name="Plugin",type=string,JSONPath=`.spec.plugin`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Domain",type=string,JSONPath=`.spec.domain`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Instances",type=integer,JSONPath=`.status.instances`
// +kubebuilder:printcolumn:name="Digest",type=string,JSONPath=`.status.shortDigest`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Plugin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec PluginSpec `json:"spec"`
	// +optional
	Status PluginStatus `json:"status,omitzero"`
}

// PluginList is a list of Plugins.
// +kubebuilder:object:root=true
type PluginList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Plugin `json:"items"`
}
