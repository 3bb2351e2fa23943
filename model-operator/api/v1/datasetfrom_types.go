// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
)

// DatasetFrom says how a version is made from another one.
type DatasetFrom struct {
	// version that is read.
	// +required
	Version DatasetVersionName `json:"version"`
	// steps that make the new version, one after the other. Each reads the other version in /input, and reads and writes
	// the new one in /output. A step that failed is run again, and finds what it wrote.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(s, s.name == 'seal')",message="the name seal is taken by the step that digests the files: name the step otherwise"
	Steps []DatasetStep `json:"steps"`
}

// DatasetStep is a container that runs to completion. Its root file system is read-only but for /tmp and /output.
type DatasetStep struct {
	// name of the step.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=20
	Name string `json:"name"`
	// image of the container. One with a digest is what the provenance can be relied on.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`
	// command in place of that of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32768
	Command []string `json:"command,omitempty"`
	// args in place of those of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Args []string `json:"args,omitempty"`
	// env of the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []DatasetVariable `json:"env,omitempty"`
	// resources of the container. Requests of 50m and 64Mi when left out.
	// +optional
	Resources DatasetResources `json:"resources,omitzero"`
	// runAsUser is the numeric ID of the user, and not 0. That of the image when left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RunAsUser *int64 `json:"runAsUser,omitempty"`
}

// DatasetVariable is a variable of a container.
type DatasetVariable struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`
	// value of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
}

// DatasetResources of a container. GPUs and other extended resources stand in limits.
type DatasetResources struct {
	// requests by resource.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// limits by resource.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}
