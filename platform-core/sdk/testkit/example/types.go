// SPDX-License-Identifier: Apache-2.0

package example

import (
	"embed"
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// GroupVersion is the group and version of Sample.
var GroupVersion = schema.GroupVersion{Group: "sample.zeroinfra.github.com", Version: "v1"}

// CRDs holds the definition of Sample.
//
//go:embed crd/sample.zeroinfra.github.com_samples.yaml
var CRDs embed.FS

//go:embed role/*.yaml
var roles embed.FS

// Role returns what an operator that serves Sample may do with it, for testkit's Env.Operator.
func Role() fs.FS {
	role, err := fs.Sub(roles, "role")
	if err != nil {
		panic(err) // The folder is embedded above.
	}
	return role
}

// AddToScheme registers Bundle and Sample with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Bundle{}, &BundleList{}, &Sample{}, &SampleList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// SampleSpec is what a user asks for.
type SampleSpec struct {
	// version of the middleware.
	// +required
	Version string `json:"version"`
	// replicas is the number of pods; a Sample refuses more than 5 when it compiles.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// users are Entities of the plugin's type acl-user.
	// +optional
	Users []string `json:"users,omitempty"`
	// deletionPolicy says what becomes of the volumes.
	// +optional
	DeletionPolicy platformv1.DeletionPolicy `json:"deletionPolicy,omitempty"`
	// suspend has the engine do nothing.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// SampleStatus is what is known of a Sample.
type SampleStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is one word for printing.
	// +optional
	Phase platformv1.Phase `json:"phase,omitempty"`
	// conditions: Ready, Reconciling, Stalled, Accepted and Suspended.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// host that clients use.
	// +optional
	Host string `json:"host,omitempty"`
}

// Sample is a typed kind for tests.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="platform.zeroinfra.github.com/crd-revision=1"
// +kubebuilder:subresource:status
type Sample struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec SampleSpec `json:"spec"`
	// +optional
	Status SampleStatus `json:"status,omitzero"`
}

// SampleList is a list of Samples.
// +kubebuilder:object:root=true
type SampleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Sample `json:"items"`
}
