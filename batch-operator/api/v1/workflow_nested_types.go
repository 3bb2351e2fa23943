// SPDX-License-Identifier: Apache-2.0

package v1

// NestedRun runs the tasks of a Workflow as a task of another one.
type NestedRun struct {
	// templateFrom names a Workflow in the same namespace with templateOnly, whose tasks, onExit, parameters and outputs
	// the task has. It is read when the run of this Workflow begins.
	// +required
	TemplateFrom WorkflowTemplate `json:"templateFrom"`
	// arguments are the values of its parameters, by name. Their texts may have placeholders.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	Arguments map[string]Argument `json:"arguments,omitempty"`
	// parallelism is how many container, script and http tasks of it are under way at a time. No limit when left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Parallelism *int32 `json:"parallelism,omitempty"`
}

// OutputExpression is a CEL expression.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=2048
type OutputExpression string
