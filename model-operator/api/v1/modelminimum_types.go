// SPDX-License-Identifier: Apache-2.0

package v1

import "k8s.io/apimachinery/pkg/api/resource"

// ModelMinimum is what an Inference needs at least to have servers of a model.
// +kubebuilder:validation:MinProperties=1
type ModelMinimum struct {
	// runtime that the Inference has. Any that serves the format when left out.
	// +optional
	Runtime *ModelRuntime `json:"runtime,omitempty"`
	// memory that each pod requests, such as 8Gi: by resources.requests of the Inference, or by resources.limits where it
	// requests none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="memory must be above 0"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// gpus that each pod gets, by gpus.count of the Inference, 1 to 64. A slice counts as one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	GPUs *int32 `json:"gpus,omitempty"`
}

// ModelRuntime is a runtime, from a version on.
type ModelRuntime struct {
	// name of the plugin, as runtime of an Inference has it, such as llama-cpp.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// version is the first release line of the runtime that serves the model, as version of an Inference has it, such as
	// 0.7. Any when left out.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+){0,2}$`
	// +kubebuilder:validation:MaxLength=20
	Version string `json:"version,omitempty"`
}

// Reasons of Inferences. Inference has them.
const (
	// ReasonMinimumNotMet: the Inference has less than a Model that it names needs at least. No pod begins to use the
	// Model, and what runs goes on. Give the Inference what the message names, or correct spec.minimum of the Model.
	ReasonMinimumNotMet = "MinimumNotMet"
)
