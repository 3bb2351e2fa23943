// SPDX-License-Identifier: Apache-2.0

package example

import (
	"embed"
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// BundleCRDs holds the definition of Bundle.
//
//go:embed crd/sample.zeroinfra.github.com_bundles.yaml
var BundleCRDs embed.FS

//go:embed bundlerole/*.yaml
var bundleRoles embed.FS

// BundleRole returns what an operator that serves Bundle may do: with it and to read what it declares in reader.yaml,
// and to write that in writer.yaml.
func BundleRole() fs.FS {
	role, err := fs.Sub(bundleRoles, "bundlerole")
	if err != nil {
		panic(err) // The folder is embedded above.
	}
	return role
}

// BundleReference names an object that a Bundle depends on.
type BundleReference struct {
	// namespace of the object; that of the Bundle when left out.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the object.
	// +required
	Name string `json:"name"`
}

// BundleSpec is what a user asks for.
type BundleSpec struct {
	// objects are Kubernetes objects of the kinds ConfigMap, Deployment, LimitRange and Widget.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Objects []runtime.RawExtension `json:"objects,omitempty"`
	// sampleRef names a Sample, whose host becomes an object of the Bundle.
	// +optional
	SampleRef *BundleReference `json:"sampleRef,omitempty"`
	// quotaRef names a ResourceQuota.
	// +optional
	QuotaRef *BundleReference `json:"quotaRef,omitempty"`
	// widgetRef names a Widget.
	// +optional
	WidgetRef *BundleReference `json:"widgetRef,omitempty"`
	// topics are Entities inside the Application of sampleRef.
	// +optional
	Topics []string `json:"topics,omitempty"`
	// restarts are the names of Operations that restart the Application of sampleRef.
	// +optional
	Restarts []string `json:"restarts,omitempty"`
	// timeout of the Operations.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// BundleStatus is what is known of a Bundle.
type BundleStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is one word for printing.
	// +optional
	Phase platformv1.Phase `json:"phase,omitempty"`
	// conditions: Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// objects is how many of the objects exist.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// runs are what became of the Operations.
	// +optional
	// +listType=map
	// +listMapKey=name
	Runs []platformv1.RunStatus `json:"runs,omitempty"`
}

// Bundle is a typed kind for tests that has no Application.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="platform.zeroinfra.github.com/crd-revision=1"
// +kubebuilder:subresource:status
type Bundle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec BundleSpec `json:"spec"`
	// +optional
	Status BundleStatus `json:"status,omitzero"`
}

// BundleList is a list of Bundles.
// +kubebuilder:object:root=true
type BundleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Bundle `json:"items"`
}
