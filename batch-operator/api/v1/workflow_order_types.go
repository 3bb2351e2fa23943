// SPDX-License-Identifier: Apache-2.0

package v1

// TaskDependency is a task that has to end before.
type TaskDependency struct {
	// name of the task.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	Name string `json:"name"`
	// phases are the ends of that task after which this one runs; after others it is skipped. Finished is any end. Default
	// Succeeded.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=Succeeded;Failed;Skipped;Finished
	Phases []string `json:"phases,omitempty"`
}

// ForEach is a list to go through.
// +kubebuilder:validation:XValidation:rule="has(self.items) != has(self.expression)",message="set one of items and expression"
type ForEach struct {
	// items are texts that differ.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5000
	// +kubebuilder:validation:items:MaxLength=256
	Items []string `json:"items,omitempty"`
	// expression gives a list of at most 5000 texts, for example parameters.cities.split(',').
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression,omitempty"`
	// parallelism is how many items are under way at a time. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	Parallelism int32 `json:"parallelism,omitempty"`
}
